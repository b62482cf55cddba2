//! What an operator sets about the gateway, and the mapping where none is set.
//!
//! Settings fill these types in; `route_table` makes of them what requests meet.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::uri::{Authority, PathAndQuery};
use tollgate_http::{Action, AddressPrefixes, Fact, Mapping, PathTemplates};

use crate::route::RouteConditions;

/// The group of rules where no mapping is set.
pub const DEFAULT_DOMAIN: &str = "gateway";

/// The keys of the descriptors where no mapping is set. Rules need not use them all.
pub const DEFAULT_KEYS: [&str; 3] = [REMOTE_ADDRESS, METHOD, PATH];
const REMOTE_ADDRESS: &str = "remote_address";
const METHOD: &str = "method";
const PATH: &str = "path";

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
    /// The host that requests name; none if that of the client.
    pub host: Option<HeaderValue>,
    /// How upstreams of `https://` are verified.
    pub tls: UpstreamTls,
    /// When an upstream that fails is left alone.
    pub eject: EjectPolicy,
    /// How upstreams are asked whether they are well; none if they are not.
    pub health_check: Option<HealthCheck>,
}

impl GroupConfig {
    /// A group of one, which is called by its URL.
    pub fn of(upstream: UpstreamUrl) -> Self {
        Self::new(upstream.to_string(), vec![upstream])
    }

    /// A group about which nothing else is said.
    pub fn new(name: String, servers: Vec<UpstreamUrl>) -> Self {
        let (tls, eject) = (UpstreamTls::default(), EjectPolicy::default());
        Self { name, servers, host: None, tls, eject, health_check: None }
    }
}

/// How the certificates of upstreams are verified, and what they are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// Their certificates are signed by one of these; by one that the system trusts if not set.
    pub ca: Option<PathBuf>,
    /// The name that they are for, and that is asked for; that of the URL if not set.
    pub server_name: Option<String>,
    /// A certificate of ours, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Nothing is verified.
    pub accepts_any_certificate: bool,
}

/// When an upstream that fails is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EjectPolicy {
    /// After so many failures in a row; never if 0.
    pub after: u32,
    /// For so long the first time, and for so much longer each further time.
    pub base: Duration,
}

impl Default for EjectPolicy {
    fn default() -> Self {
        Self { after: 5, base: Duration::from_secs(10) }
    }
}

/// How upstreams are asked whether they are well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// What is asked for.
    pub path: PathAndQuery,
    /// How often.
    pub interval: Duration,
    /// The answer must come within this.
    pub timeout: Duration,
    /// After so many good answers in a row it gets requests again.
    pub healthy_after: u32,
    /// After so many that are not, it gets none.
    pub unhealthy_after: u32,
    /// Which are good; all of 200 to 299 if empty.
    pub statuses: Vec<u16>,
}

impl HealthCheck {
    /// One about which nothing else is said.
    pub fn new(path: PathAndQuery) -> Self {
        let (interval, timeout) = (Duration::from_secs(5), Duration::from_secs(2));
        Self { path, interval, timeout, healthy_after: 2, unhealthy_after: 3, statuses: Vec::new() }
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
    /// cut off. Whoever does not take an answer has [`crate::bounds::WRITE_WAIT_MAX`].
    pub idle: Duration,
    /// All of it, from when the request may go to the upstream to when the answer was read from
    /// there, whoever is slow; none if it may take any time. 504 after that, or the answer is cut off.
    pub total: Option<Duration>,
}

impl Default for GatewayTimeouts {
    fn default() -> Self {
        let (connect, first_byte, idle) = (5, 60, 60);
        Self {
            connect: Duration::from_secs(connect),
            first_byte: Duration::from_secs(first_byte),
            idle: Duration::from_secs(idle),
            total: None,
        }
    }
}

/// Where requests go: `http://HOST[:PORT]`, `https://…` or `h2c://…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamUrl {
    scheme: UpstreamScheme,
    authority: Authority,
}

/// How an upstream is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpstreamScheme {
    Http,
    /// TLS, which settles on HTTP/2 or HTTP/1.1.
    Https,
    /// HTTP/2 without TLS.
    H2c,
}

impl UpstreamScheme {
    const ALL: [Self; 3] = [Self::Http, Self::Https, Self::H2c];

    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::H2c => "h2c",
        }
    }
}

/// What is spoken on a connection to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpstreamProtocol {
    Http1,
    Http2,
}

/// Why a text is no upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamUrlError {
    /// It is no such URL.
    #[error("'{text}' is not an upstream; write http://HOST:PORT, https://HOST:PORT or h2c://HOST:PORT")]
    NoUpstream {
        /// The text.
        text: String,
    },
    /// It has a user and perhaps a password, which is not repeated.
    #[error(
        "the URL of an upstream cannot have a user or a password; write http://HOST:PORT, https://HOST:PORT or h2c://HOST:PORT"
    )]
    Credentials,
    /// Nothing can listen there.
    #[error("'{text}' has no port to connect to; write a port from 1 to 65535")]
    Port {
        /// The text.
        text: String,
    },
}

impl FromStr for UpstreamUrl {
    type Err = UpstreamUrlError;

    fn from_str(text: &str) -> Result<Self, UpstreamUrlError> {
        if text.contains('@') {
            return Err(UpstreamUrlError::Credentials);
        }
        let wrong = || UpstreamUrlError::NoUpstream { text: text.to_owned() };
        let uri: http::Uri = text.parse().map_err(|_| wrong())?;
        let scheme = UpstreamScheme::ALL.into_iter().find(|scheme| uri.scheme_str() == Some(scheme.name()));
        let scheme = scheme.ok_or_else(wrong)?;
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let authority = uri.authority().filter(|_| is_bare).ok_or_else(wrong)?;
        if authority.host().is_empty() {
            return Err(wrong());
        }
        let has_port = authority.as_str().len() > authority.host().len();
        if has_port && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(UpstreamUrlError::Port { text: text.to_owned() });
        }
        Ok(Self { scheme, authority: authority.clone() })
    }
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority)
    }
}

impl UpstreamUrl {
    /// The host without brackets.
    pub(crate) fn host(&self) -> &str {
        self.authority.host().trim_matches(['[', ']'])
    }

    pub(crate) fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.is_tls() { 443 } else { 80 })
    }

    /// Whether it speaks TLS.
    pub fn is_tls(&self) -> bool {
        self.scheme == UpstreamScheme::Https
    }

    /// What it speaks; none if TLS settles that.
    pub(crate) const fn protocol(&self) -> Option<UpstreamProtocol> {
        match self.scheme {
            UpstreamScheme::Http => Some(UpstreamProtocol::Http1),
            UpstreamScheme::Https => None,
            UpstreamScheme::H2c => Some(UpstreamProtocol::Http2),
        }
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
    let address = || Action::new(REMOTE_ADDRESS, Fact::RemoteAddress(AddressPrefixes::default()));
    let path = || Action::new(PATH, Fact::Path(PathTemplates::default()));
    let method = Action::new(METHOD, Fact::Method);
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
            ("https://a", "a", 443),
            ("h2c://a", "a", 80),
        ] {
            let url: UpstreamUrl = text.parse().expect(text);
            assert_eq!((url.host(), url.port()), (host, port));
        }
        for text in
            ["", "127.0.0.1:9000", "h3://a", "http://", "http://a/b", "http://a?b", "http://u@a", "ftp://a"]
        {
            assert!(text.parse::<UpstreamUrl>().is_err(), "{text}");
        }
        for text in
            ["http://u:hush@a", "http://u:hush@a:0", "u:hush@a:80", "ftp://u:hush@a", "http://u:hush@a/b c"]
        {
            let error = text.parse::<UpstreamUrl>().unwrap_err().to_string();
            assert!(!error.contains("hush") && error.contains("a user or a password"), "{error}");
        }
        for text in ["http://a:0", "http://a:65536", "http://a:", "http://[::1]:0"] {
            let port = Err(UpstreamUrlError::Port { text: text.to_owned() });
            assert_eq!(text.parse::<UpstreamUrl>(), port);
        }
    }
}
