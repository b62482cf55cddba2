//! Where to listen: a host and a port, or a Unix socket.
//!
//! Invariant: reading an address touches no network; a host name is looked up
//! by [`ListenAddress::candidates`], when it is time to listen.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

/// A host and a port to listen on.
///
/// ```
/// use tollgate_settings::ListenAddress;
/// assert_eq!("[::]:8080".parse::<ListenAddress>()?.to_string(), "[::]:8080");
/// assert_eq!(":9090".parse::<ListenAddress>()?.port, 9090);
/// assert!("127.0.0.1:6070".parse::<ListenAddress>()?.is_loopback());
/// # Ok::<(), tollgate_settings::ListenAddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// An IP address without brackets, a name, or nothing for all addresses of this machine.
    pub host: String,
    /// The port; 0 for any that is free.
    pub port: u16,
}

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not an address; write HOST:PORT, such as 0.0.0.0:8080, [::]:8080 or :8080")]
pub struct ListenAddressError {
    /// The text.
    pub text: String,
}

impl ListenAddress {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: ListenAddressError| error.to_string())
    }

    pub(crate) fn parse_or_off(text: &str) -> Result<Option<Self>, String> {
        if text == "off" { Ok(None) } else { Self::parse(text).map(Some) }
    }

    /// An address of a host with or without brackets.
    pub fn new(host: &str, port: u16) -> Self {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        Self { host: bare.to_owned(), port }
    }

    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(ip) => ip.to_canonical().is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }

    /// What to bind, in the order to try: all addresses of both families for
    /// an empty host, else of IPv4 alone where there is no IPv6.
    ///
    /// # Errors
    /// If a host name is not known.
    pub fn candidates(&self) -> io::Result<Vec<SocketAddr>> {
        if self.host.is_empty() {
            let any = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
            return Ok(any.into_iter().map(|ip| SocketAddr::new(ip, self.port)).collect());
        }
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl std::str::FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, ListenAddressError> {
        let wrong = || ListenAddressError { text: text.to_owned() };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let address = Self::new(host, port);
        let is_bracketed = address.host.len() < host.len();
        let is_host = match address.host.contains(':') {
            // `::1:80` could mean two things, so that brackets are demanded.
            true => is_bracketed && address.host.parse::<Ipv6Addr>().is_ok(),
            false => is_host(&address.host),
        };
        if is_host { Ok(address) } else { Err(wrong()) }
    }
}

/// The host of an address by itself.
pub(crate) fn host(text: &str) -> Result<String, String> {
    if is_host(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("'{text}' is not a host; write an IP address or a name"))
    }
}

/// Whether a text could be a host: an IP address, a name, or nothing.
fn is_host(text: &str) -> bool {
    let bare = ListenAddress::new(text, 0).host;
    bare.parse::<IpAddr>().is_ok()
        || bare.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

/// Where gRPC listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrpcAddress {
    /// A port.
    Tcp(ListenAddress),
    /// A Unix socket; a stale file is replaced.
    Unix(PathBuf),
}

impl GrpcAddress {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) => Ok(Self::Unix(PathBuf::from(path))),
            None => ListenAddress::parse(text).map(Self::Tcp),
        }
    }
}

impl fmt::Display for GrpcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_as_it_is_shown() {
        for text in ["0.0.0.0:8080", "[::]:8080", "[::1]:0", ":9090", "localhost:1", "a-b.c_d:65535"] {
            assert_eq!(text.parse::<ListenAddress>().map(|address| address.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "8080", "host", "::1:80", "[::1]", "[host]:x", "a b:80", "host:65536", "[:]:80"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_loopback_is_loopback() {
        for (host, is_loopback) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("localhost", true),
            ("", false),
            ("::", false),
            ("0.0.0.0", false),
            ("10.0.0.1", false),
            ("localhost.example", false),
        ] {
            assert_eq!(ListenAddress::new(host, 1).is_loopback(), is_loopback, "{host}");
        }
    }

    #[test]
    fn no_host_means_both_families_and_ipv4_where_there_is_no_other() {
        let candidates = ListenAddress::new("", 80).candidates().unwrap();
        assert_eq!(candidates.iter().map(ToString::to_string).collect::<Vec<_>>(), ["[::]:80", "0.0.0.0:80"]);
    }
}
