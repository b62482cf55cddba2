//! What an operator sets about the gateway, and the mapping where none is set.
//!
//! Settings fill these types in; `route_table` makes of them what requests meet.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http::uri::{Authority, Scheme};
use tollgate_http::{Action, AddressPrefixes, Fact, Mapping, PathTemplates};

use crate::route::RouteConditions;

/// The group of rules where no mapping is set.
pub const DEFAULT_DOMAIN: &str = "gateway";

/// What an operator sets.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    /// Where requests go, by what they are like. The first route that fits is taken.
    pub routes: Vec<RouteConfig>,
    /// A request that is to wait longer is denied.
    pub max_wait: Duration,
}

impl GatewayConfig {
    /// One route for all requests, to one upstream.
    pub fn single(upstream: UpstreamUrl, timeouts: GatewayTimeouts, max_wait: Duration) -> Self {
        let group = Arc::new(GroupConfig::of(upstream));
        let route = RouteConfig { conditions: RouteConditions::default(), group, mapping: None, timeouts };
        Self { routes: vec![route], max_wait }
    }
}

/// Where some requests go.
#[derive(Debug, Clone)]
pub struct RouteConfig {
    /// Which requests.
    pub conditions: RouteConditions,
    /// Where to; routes may share a group.
    pub group: Arc<GroupConfig>,
    /// How they become descriptors; none if as all others.
    pub mapping: Option<Mapping>,
    /// How long what may take.
    pub timeouts: GatewayTimeouts,
}

/// Upstreams that serve the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// What logs and metrics call it; no two groups have the same.
    pub name: String,
    /// At least one.
    pub servers: Vec<UpstreamUrl>,
}

impl GroupConfig {
    /// A group of one, which is called by its URL.
    pub fn of(upstream: UpstreamUrl) -> Self {
        Self { name: upstream.to_string(), servers: vec![upstream] }
    }
}

/// Its upstreams.
impl fmt::Display for GroupConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, server) in self.servers.iter().enumerate() {
            write!(f, "{}{server}", if index > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// How long what may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayTimeouts {
    /// A connection to the upstream; 504 after that.
    pub connect: Duration,
    /// From the request to the head of the answer; 504 after that.
    pub first_byte: Duration,
    /// Between two pieces of a body. A client that sends none gets a 408; an answer that stops is
    /// cut off.
    pub idle: Duration,
}

impl Default for GatewayTimeouts {
    fn default() -> Self {
        let (connect, first_byte, idle) = (5, 60, 60);
        Self {
            connect: Duration::from_secs(connect),
            first_byte: Duration::from_secs(first_byte),
            idle: Duration::from_secs(idle),
        }
    }
}

/// Where requests go: `http://HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamUrl {
    authority: Authority,
}

/// Why a text is no upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not an upstream; write http://HOST:PORT")]
pub struct UpstreamUrlError {
    /// The text.
    pub text: String,
}

impl FromStr for UpstreamUrl {
    type Err = UpstreamUrlError;

    fn from_str(text: &str) -> Result<Self, UpstreamUrlError> {
        let wrong = || UpstreamUrlError { text: text.to_owned() };
        let uri: http::Uri = text.parse().map_err(|_| wrong())?;
        let is_plain = uri.scheme() == Some(&Scheme::HTTP) && matches!(uri.path(), "" | "/");
        let authority = uri.authority().filter(|_| is_plain && uri.query().is_none()).ok_or_else(wrong)?;
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(wrong());
        }
        Ok(Self { authority: authority.clone() })
    }
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

impl UpstreamUrl {
    /// The host without brackets.
    pub(crate) fn host(&self) -> &str {
        self.authority.host().trim_matches(['[', ']'])
    }

    pub(crate) fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(80)
    }

    /// What a `Host` field says about it.
    pub(crate) const fn authority(&self) -> &Authority {
        &self.authority
    }
}
/// The mapping where none is set: by address, by method and path, by path and address, in the
/// domain [`DEFAULT_DOMAIN`]. Nobody is believed about another's address.
///
/// # Panics
/// Never: three short descriptors are within every bound.
pub fn default_mapping() -> Mapping {
    let address = || Action::new("remote_address", Fact::RemoteAddress(AddressPrefixes::default()));
    let path = || Action::new("path", Fact::Path(PathTemplates::default()));
    let method = Action::new("method", Fact::Method);
    let descriptors = vec![vec![address()], vec![method, path()], vec![path(), address()]];
    Mapping::new(DEFAULT_DOMAIN, descriptors).expect("three short descriptors are within every bound")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_a_host_and_perhaps_a_port() {
        for (text, host, port) in [
            ("http://127.0.0.1:9000", "127.0.0.1", 9000),
            ("http://api.internal/", "api.internal", 80),
            ("http://[::1]:8", "::1", 8),
        ] {
            let url: UpstreamUrl = text.parse().expect(text);
            assert_eq!((url.host(), url.port()), (host, port));
        }
        for text in [
            "",
            "127.0.0.1:9000",
            "https://a",
            "http://",
            "http://a/b",
            "http://a?b",
            "http://u@a",
            "ftp://a",
        ] {
            assert!(text.parse::<UpstreamUrl>().is_err(), "{text}");
        }
    }
}
