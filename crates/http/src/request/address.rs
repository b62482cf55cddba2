//! Who asks: the client's address behind proxies that are trusted, by prefix.
//!
//! A client can write any `X-Forwarded-For` it likes; a proxy adds the address
//! that it saw at the right end. So the list is read from the right, as long as
//! the address that was added was added by somebody trusted.
//!
//! | module | what it holds |
//! |---|---|
//! | `elements` | one element of `X-Forwarded-For` or `Forwarded` |
//! | `prefix` | [`AddressPrefixes`]: how much of an address is the key |
//!
//! Invariants: from a peer that is not trusted, no header is read. An element
//! that makes no sense ends the walk at the hop before it, which is trusted.
//! IPv4 in the clothes of IPv6 is IPv4.
//!
//! Deliberately not here: guessing which of the two headers is meant. A proxy
//! that writes one passes the other on as the client wrote it.

mod elements;
mod prefix;

use std::net::IpAddr;

use http::HeaderName;
use http::header::FORWARDED;
use ipnet::IpNet;

use crate::error::Error;
use crate::request::header_fields::HeaderFields;

pub use prefix::AddressPrefixes;

/// The most hops that are walked. A request that passed more proxies than this
/// came from nobody who means well.
pub const HOPS_MAX: usize = 64;

/// The most networks of trusted proxies. The largest clouds list some hundreds.
pub const NETWORKS_MAX: usize = 10_000;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Which header the trusted proxies write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AddressHeader {
    /// `X-Forwarded-For`, as nearly all do.
    #[default]
    XForwardedFor,
    /// `Forwarded`, RFC 7239.
    Forwarded,
}

/// Finds the client's address.
///
/// ```
/// use http::HeaderMap;
/// use tollgate_http::{AddressHeader, ClientAddress};
/// let proxies = ClientAddress::new(&["10.0.0.0/8"], AddressHeader::XForwardedFor)?;
/// let mut headers = HeaderMap::new();
/// headers.insert("x-forwarded-for", "6.6.6.6, 203.0.113.9, 10.0.0.7".parse()?);
/// // 10.0.0.7 and the peer are ours; what 203.0.113.9 says about itself is not believed.
/// let client = proxies.find("10.0.0.1".parse()?, &headers);
/// assert_eq!(client, "203.0.113.9".parse::<std::net::IpAddr>()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ClientAddress {
    trusted: Vec<IpNet>,
    header: AddressHeader,
}

impl ClientAddress {
    /// Believes what these networks say in that header.
    ///
    /// # Errors
    /// If a text is no network, or there are too many.
    pub fn new(trusted: &[impl AsRef<str>], header: AddressHeader) -> Result<Self, Error> {
        if trusted.len() > NETWORKS_MAX {
            return Err(Error::TooMany { what: "networks", count: trusted.len(), max: NETWORKS_MAX });
        }
        let trusted = trusted.iter().map(|text| network(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { trusted, header })
    }

    /// Whether what this address says about others is believed.
    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|network| network.contains(&address))
    }

    /// The header in which this address is believed about others; none if it is not.
    pub fn believed_header(&self, address: IpAddr) -> Option<AddressHeader> {
        self.trusts(address).then_some(self.header)
    }

    /// The headers that are read where a proxy is trusted.
    pub(crate) fn header_names(&self) -> Vec<HeaderName> {
        if self.trusted.is_empty() { Vec::new() } else { vec![X_FORWARDED_FOR, FORWARDED] }
    }

    /// The client's address: the first from the right that is not trusted, or
    /// the last one that was reached.
    pub fn find<'a>(&self, peer: IpAddr, headers: impl Into<HeaderFields<'a>>) -> IpAddr {
        let mut last = peer.to_canonical();
        if !self.trusts(last) {
            return last;
        }
        let name = match self.header {
            AddressHeader::XForwardedFor => X_FORWARDED_FOR,
            AddressHeader::Forwarded => FORWARDED,
        };
        let lines = headers.into().get_all(&name).rev();
        let elements = lines.flat_map(|line| line.rsplit(|byte| *byte == b','));
        for element in elements.take(HOPS_MAX) {
            let element = element.trim_ascii();
            if element.is_empty() {
                // A list may have empty elements, and they say nothing.
                continue;
            }
            let address = match self.header {
                AddressHeader::XForwardedFor => elements::node(element),
                AddressHeader::Forwarded => elements::forwarded(element),
            };
            let Some(address) = address else { return last };
            last = address.to_canonical();
            if !self.trusts(last) {
                return last;
            }
        }
        last
    }
}

/// A network, or an address as a network of one.
fn network(text: &str) -> Result<IpNet, Error> {
    let wrong = || Error::Network { text: text.to_owned() };
    let trimmed = text.trim();
    let network = match trimmed.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => trimmed.parse::<IpNet>().map_err(|_| wrong())?,
    };
    // A network of IPv4 in the clothes of IPv6 would never match.
    match (network.addr().to_canonical(), network) {
        (IpAddr::V4(address), IpNet::V6(_)) => {
            let bits = network.prefix_len().checked_sub(96).ok_or_else(wrong)?;
            IpNet::new(IpAddr::V4(address), bits).map_err(|_| wrong())
        }
        _ => Ok(network),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_in_every_common_form() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            (" 10.1.2.3 ", "10.1.2.3/32"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::1", "::1/128"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.0.0.1", "10.0.0.1/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(network(text).map(|network| network.to_string()), Ok(shown.to_owned()), "{text}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "localhost", "::ffff:10.0.0.0/80", "10.0.0.0/8/8"] {
            assert_eq!(network(text), Err(Error::Network { text: text.to_owned() }));
        }
    }
}
