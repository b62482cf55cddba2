//! Which host and path a request is for.

use http::header::HOST;
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Method, Uri, Version};

use crate::error::GatewayError;
use crate::strict::HeadError;

/// Which host and path a request is for.
#[derive(Debug, Clone)]
pub(crate) struct RequestTarget {
    /// The host that the client asked for; none over HTTP/1.0.
    pub(crate) host: Option<HeaderValue>,
    /// Path and query as they came.
    pub(crate) path: PathAndQuery,
}

impl RequestTarget {
    /// The host of the URI wins over the field; over HTTP/2 they are the same.
    pub(crate) fn read(parts: &Parts) -> Result<Self, GatewayError> {
        check_method(&parts.method)?;
        let mut fields = parts.headers.get_all(HOST).iter();
        let field = fields.next();
        if fields.next().is_some() {
            return Err(GatewayError::Host);
        }
        let host = match (parts.uri.authority(), field) {
            // RFC 9113, 8.3.1: one program would believe one of them, and another the other.
            (Some(authority), Some(field))
                if parts.version == Version::HTTP_2 && !is_same_host(&parts.uri, authority, field) =>
            {
                return Err(GatewayError::Host);
            }
            (Some(authority), _) => {
                Some(HeaderValue::from_str(authority.as_str()).map_err(|_| GatewayError::Host)?)
            }
            (None, Some(field)) => Some(field.clone()),
            (None, None) => None,
        };
        if !host.as_ref().is_none_or(is_host) || (host.is_none() && parts.version >= Version::HTTP_11) {
            return Err(GatewayError::Host);
        }
        let mut path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        // RFC 9112, 3.2.1: in `http://shop?page=1` the path is empty, and is sent on as `/`. A `:path` of HTTP/2 may not
        // be empty.
        if parts.version != Version::HTTP_2 && path.as_str().starts_with('?') {
            let whole = PathAndQuery::try_from(format!("/{}", path.as_str()));
            path = whole.map_err(|_| GatewayError::Head(HeadError::Target))?;
        }
        // Over HTTP/1 the head was looked at before; over HTTP/2 nobody has.
        if !path.as_str().starts_with('/') && (path.as_str(), &parts.method) != ("*", &Method::OPTIONS) {
            return Err(GatewayError::Head(HeadError::Target));
        }
        // Whoever unescapes it and is written in C sees a shorter path.
        if path.path().contains("%00") {
            return Err(GatewayError::NulInPath);
        }
        Ok(Self { host, path })
    }

    /// The target in the form that servers get it in.
    pub(crate) fn uri(&self) -> Uri {
        self.path.clone().into()
    }

    pub(crate) fn host_text(&self) -> Option<&str> {
        self.host.as_ref().and_then(|host| host.to_str().ok())
    }
}

/// Methods are compared byte by byte, and some programs do not: `get` is refused, as by nginx.
fn check_method(method: &Method) -> Result<(), GatewayError> {
    let is_letter = |byte: u8| byte.is_ascii_uppercase() || byte == b'-' || byte == b'_';
    match *method {
        Method::CONNECT => Err(GatewayError::Connect),
        Method::TRACE => Err(GatewayError::Trace),
        _ if method.as_str().bytes().all(is_letter) => Ok(()),
        _ => Err(GatewayError::Method),
    }
}

/// Whether both name the same, with or without the port that goes without saying.
fn is_same_host(uri: &Uri, authority: &Authority, field: &HeaderValue) -> bool {
    let port = if uri.scheme_str() == Some("https") { ":443" } else { ":80" };
    let own = authority.as_str();
    let field = field.to_str().unwrap_or_default();
    let [own, field] = [own, field].map(|host| host.strip_suffix(port).unwrap_or(host));
    own.eq_ignore_ascii_case(field)
}

/// A name or an address and perhaps a port, and no password.
fn is_host(value: &HeaderValue) -> bool {
    let authority = Authority::try_from(value.as_bytes());
    authority.is_ok_and(|authority| !authority.as_str().contains('@') && !authority.host().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(uri: &str, fields: &[&'static str]) -> Result<Option<String>, GatewayError> {
        let mut request = http::Request::builder().uri(uri);
        for field in fields {
            request = request.header(HOST, *field);
        }
        let target = RequestTarget::read(&request.body(()).unwrap().into_parts().0)?;
        Ok(target.host_text().map(str::to_owned))
    }

    #[test]
    fn odd_methods_and_an_escaped_nul_are_refused() {
        let read = |method: &str, path: &str| {
            let request = http::Request::builder().method(method).uri(path).header(HOST, "a");
            RequestTarget::read(&request.body(()).unwrap().into_parts().0).err()
        };
        for method in ["GET", "M-SEARCH", "X_Y"] {
            assert_eq!(read(method, "/%0a?%00"), None);
        }
        assert_eq!(read("get", "/"), Some(GatewayError::Method));
        assert_eq!(read("GET1", "/"), Some(GatewayError::Method));
        assert_eq!(read("TRACE", "/"), Some(GatewayError::Trace));
        assert_eq!(read("GET", "/a%00b"), Some(GatewayError::NulInPath));
    }

    #[test]
    fn the_host_of_the_uri_wins() {
        assert_eq!(host("/", &["a:80"]), Ok(Some("a:80".to_owned())));
        assert_eq!(host("http://b/c", &["a"]), Ok(Some("b".to_owned())));
        for (uri, fields) in [
            ("/", &[][..]),
            ("/", &["a", "a"]),
            ("/", &[""]),
            ("/", &["u@a"]),
            ("/", &["a b"]),
            ("/", &["a/b"]),
        ] {
            assert_eq!(host(uri, fields), Err(GatewayError::Host), "{fields:?}");
        }
    }
}
