//! Which requests a route is for.
//!
//! Settings make [`RouteConditions`], `route_table` asks them about each request.
//!
//! Invariant: a path is compared in the one spelling that limits see, so that no spelling leads
//! around a route and the limits of its mapping.

use std::str::FromStr;

use http::Method;
use http::header::{HeaderName, HeaderValue};
use tollgate_http::{HeaderFields, PathTemplates};

/// What a request must be like. What is empty does not matter, and one of several is enough, but for
/// headers: each of them must be there.
#[derive(Debug, Clone, Default)]
pub struct RouteConditions {
    /// Whom the client asks for.
    pub hosts: Vec<HostPattern>,
    /// Which templates the path matches.
    pub paths: Option<PathTemplates>,
    /// With which method.
    pub methods: Vec<Method>,
    /// Which fields it has.
    pub headers: Vec<HeaderCondition>,
}

/// What is asked about a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteQuery<'a> {
    /// With its port, if the client named one.
    pub(crate) host: Option<&'a str>,
    pub(crate) path: &'a [u8],
    pub(crate) method: &'a Method,
    pub(crate) headers: HeaderFields<'a>,
}

impl RouteConditions {
    /// Whether every request fits.
    pub fn are_empty(&self) -> bool {
        let Self { hosts, paths, methods, headers } = self;
        hosts.is_empty() && paths.is_none() && methods.is_empty() && headers.is_empty()
    }

    /// Whether a request fits.
    pub(crate) fn fit(&self, query: &RouteQuery<'_>) -> bool {
        let host = || query.host.map(bare_host).unwrap_or_default();
        (self.methods.is_empty() || self.methods.contains(query.method))
            && (self.hosts.is_empty() || self.hosts.iter().any(|pattern| pattern.fits(host())))
            && self.headers.iter().all(|condition| condition.fits(query.headers))
            && self.paths.as_ref().is_none_or(|paths| paths.matched(query.path).is_some())
    }
}

/// A host, or all hosts below one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// `api.example.com`
    Name(String),
    /// `*.example.com`, kept as `.example.com`.
    Below(String),
}

/// Why a text is no pattern of hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a host; write such as api.example.com or *.example.com, without a port")]
pub struct HostPatternError {
    /// The text.
    pub text: String,
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, HostPatternError> {
        let (is_below, name) = text.strip_prefix("*.").map_or((false, text), |name| (true, name));
        let is_name = |name: &str| {
            let is_label = |label: &str| {
                !label.is_empty()
                    && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            };
            name.split('.').all(is_label)
        };
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let is_address = address.is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
        if !is_name(name) && (is_below || !is_address) {
            return Err(HostPatternError { text: text.to_owned() });
        }
        Ok(if is_below { Self::Below(format!(".{name}")) } else { Self::Name(name.to_owned()) })
    }
}

impl HostPattern {
    fn fits(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => host.eq_ignore_ascii_case(name),
            Self::Below(end) => {
                let start = host.len().checked_sub(end.len()).filter(|length| *length > 0);
                let own = start.and_then(|start| host.get(start..));
                own.is_some_and(|own| own.eq_ignore_ascii_case(end))
            }
        }
    }
}

/// A host without its port, and without the dot that may end it.
fn bare_host(host: &str) -> &str {
    let end = match host.rfind(']') {
        Some(bracket) => bracket + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    let bare = host.get(..end).unwrap_or(host);
    bare.strip_suffix('.').unwrap_or(bare)
}

/// A field that a request must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderCondition {
    /// Its name.
    pub name: HeaderName,
    /// Its value; none if any will do.
    pub value: Option<HeaderValue>,
}

impl HeaderCondition {
    fn fits(&self, headers: HeaderFields<'_>) -> bool {
        let mut lines = headers.get_all(&self.name);
        lines.any(|line| self.value.as_ref().is_none_or(|value| value == line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    fn fits(pattern: &str, host: &str) -> bool {
        pattern.parse::<HostPattern>().unwrap().fits(bare_host(host))
    }

    #[test]
    fn a_host_fits_whatever_its_port_and_case() {
        for host in ["api.example.com", "API.Example.com:8443", "api.example.com.", "api.example.com.:80"] {
            assert!(fits("api.example.com", host) && fits("*.Example.com", host), "{host}");
        }
        for host in ["", "example.com", ".example.com", "example.com.evil", "notexample.com"] {
            assert!(!fits("*.example.com", host), "{host}");
        }
        assert!(fits("*.example.com", "a.b.example.com"));
        assert!(fits("[2001:db8::1]", "[2001:DB8::1]:80") && fits("10.0.0.1", "10.0.0.1:80"));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in ["", "*", "*.", "a..b", "a:80", "http://a", "a/b", "*a.b", "[::1", "*.[::1]", "a*.b"] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn all_conditions_must_fit() {
        let conditions = RouteConditions {
            hosts: vec!["a.example".parse().unwrap(), "b.example".parse().unwrap()],
            paths: Some(PathTemplates::new(&["/users/{id}", "/login"]).unwrap()),
            methods: vec![Method::GET, Method::POST],
            headers: vec![
                HeaderCondition { name: HeaderName::from_static("x-beta"), value: None },
                HeaderCondition {
                    name: HeaderName::from_static("x-plan"),
                    value: Some(HeaderValue::from_static("pro")),
                },
            ],
        };
        let mut headers = HeaderMap::new();
        headers.insert("x-beta", HeaderValue::from_static("anything"));
        headers.append("x-plan", HeaderValue::from_static("free"));
        headers.append("x-plan", HeaderValue::from_static("pro"));
        let fitting = RouteQuery {
            host: Some("b.example:80"),
            path: b"//users/./7",
            method: &Method::POST,
            headers: (&headers).into(),
        };
        assert!(conditions.fit(&fitting));
        assert!(!conditions.fit(&RouteQuery { host: Some("c.example"), ..fitting }));
        assert!(!conditions.fit(&RouteQuery { host: None, ..fitting }));
        assert!(!conditions.fit(&RouteQuery { path: b"/users", ..fitting }));
        assert!(!conditions.fit(&RouteQuery { method: &Method::PUT, ..fitting }));
        assert!(!conditions.fit(&RouteQuery { headers: (&HeaderMap::new()).into(), ..fitting }));
        assert!(RouteConditions::default().fit(&RouteQuery { host: None, ..fitting }));
    }
}
