//! What is known about an HTTP request.
//!
//! Made by whoever received it; a mapping picks from it.
//!
//! Deliberately not here: what of it can be believed. [`crate::request::address`] says
//! that about addresses; all else is the client's own word, as it is for the
//! service behind.

use std::net::IpAddr;

use crate::request::header_fields::HeaderFields;

/// What is known about an HTTP request.
#[derive(Debug, Clone, Copy)]
pub struct HttpRequestFacts<'a> {
    /// Who is connected to us: a proxy or the client; none if that is no address.
    pub peer: Option<IpAddr>,
    /// What it is called where that is no address: logs may have names of hosts.
    pub peer_name: Option<&'a str>,
    /// The method.
    pub method: &'a str,
    /// Path and query as the client sent them; a scheme and a host in front are no harm.
    pub target: &'a [u8],
    /// The host that the client asked for.
    pub host: Option<&'a str>,
    /// The headers.
    pub headers: HeaderFields<'a>,
}

impl<'a> HttpRequestFacts<'a> {
    /// The path as it was sent.
    pub fn path(&self) -> &'a [u8] {
        split(self.target).0
    }

    /// What follows the `?`, if there is one.
    pub fn query(&self) -> Option<&'a [u8]> {
        split(self.target).1
    }

    /// The first header of that name.
    pub(crate) fn header(&self, name: &http::HeaderName) -> Option<&'a [u8]> {
        self.headers.get(name)
    }
}

/// Path and query of a request target in any of the forms of HTTP.
fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    // Most are a path and nothing else, which one look shows.
    if target.starts_with(b"/") && !target.iter().any(|byte| matches!(byte, b'?' | b'#')) {
        return (target, None);
    }
    let target = before(target, b'#').0;
    let (path, query) = before(without_origin(target), b'?');
    (if path.is_empty() { b"/" } else { path }, query)
}

/// What stands before and after the first such byte.
fn before(bytes: &[u8], byte: u8) -> (&[u8], Option<&[u8]>) {
    let mut parts = bytes.splitn(2, |at| *at == byte);
    (parts.next().unwrap_or_default(), parts.next())
}

/// `/path` of `http://host/path`.
pub fn without_origin(target: &[u8]) -> &[u8] {
    let is_scheme =
        |scheme: &&[u8]| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let Some(scheme) = [&b"http://"[..], b"https://"].into_iter().find(is_scheme) else { return target };
    let rest = target.get(scheme.len()..).unwrap_or_default();
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    rest.get(end..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_a_path_and_perhaps_a_query() {
        for (target, path, query) in [
            ("/", "/", None),
            ("", "/", None),
            ("/a/b", "/a/b", None),
            ("/a?", "/a", Some("")),
            ("/a?b=c?d", "/a", Some("b=c?d")),
            ("/a#f?b", "/a", None),
            ("http://shop.example/a?b", "/a", Some("b")),
            ("HTTPS://shop.example:8443/a", "/a", None),
            ("http://shop.example", "/", None),
            ("http://shop.example?b", "/", Some("b")),
            ("*", "*", None),
            ("?b", "/", Some("b")),
        ] {
            let expected = (path.as_bytes(), query.map(str::as_bytes));
            assert_eq!(split(target.as_bytes()), expected, "{target}");
        }
    }
}
