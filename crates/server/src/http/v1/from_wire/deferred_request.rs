//! The body of `/v1/defer`: a request for the limiter, and one for the upstream.

use axum::http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::descriptor::DescriptorList;
use super::values::JsonText;
use super::{V1Request, WholeNumber, one, parse};
use crate::http::v1::error::{FieldError, V1Error, escape};

/// What to send, for those who sent something else.
const SHAPE: &str = r#"send {"domain":"shop","descriptors":[{"user_id":"42"}],"request":{"method":"POST","path":"/orders","headers":{"content-type":"application/json"},"body":"{}"}}"#;

/// Headers that are about a connection, or that the gateway writes.
const NOT_SENT: [HeaderName; 6] = [CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeferBody<'a> {
    #[serde(borrow, default)]
    domain: JsonText<'a>,
    #[serde(borrow, default)]
    descriptors: DescriptorList<'a>,
    #[serde(default = "one")]
    cost: WholeNumber,
    request: Option<CallBody>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallBody {
    method: Option<String>,
    path: Option<String>,
    host: Option<String>,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
    body: Option<String>,
    body_base64: Option<String>,
}

/// What is to be sent later, and what the limiter is asked before.
#[derive(Debug)]
pub(crate) struct DeferCall<'a> {
    pub(crate) check: V1Request<'a>,
    pub(crate) method: Method,
    pub(crate) path: PathAndQuery,
    pub(crate) host: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// The body of `/v1/defer`.
pub(crate) fn defer_call(bytes: &[u8]) -> Result<DeferCall<'_>, V1Error> {
    if bytes.trim_ascii().is_empty() {
        return Err(field("", "the body is empty", SHAPE));
    }
    if super::is_batch(bytes) {
        return Err(FieldError::OneKey.at(""));
    }
    let DeferBody { domain, descriptors, cost, request } = parse(bytes)?;
    let check = V1Request { domain, descriptors, cost };
    check.check("")?;
    let Some(call) = request else { return Err(field("/request", "there is no request to send", SHAPE)) };
    Ok(DeferCall {
        check,
        method: method(call.method.as_deref().unwrap_or("GET"))?,
        path: path(call.path.as_deref())?,
        host: call.host.map(host).transpose()?,
        headers: headers(&call.headers)?,
        body: body(call.body, call.body_base64)?,
    })
}

fn field(pointer: &str, detail: &str, fix: &str) -> V1Error {
    V1Error::Field { pointer: pointer.to_owned(), detail: detail.to_owned(), fix: fix.to_owned() }
}

fn method(text: &str) -> Result<Method, V1Error> {
    let is_letter = |byte: u8| byte.is_ascii_uppercase() || byte == b'-' || byte == b'_';
    let method = Method::from_bytes(text.as_bytes()).ok().filter(|_| text.bytes().all(is_letter));
    method.filter(|method| ![Method::CONNECT, Method::TRACE].contains(method)).ok_or_else(|| {
        field("/request/method", "this is no method that can be sent later", r#"send one such as "POST""#)
    })
}

fn path(text: Option<&str>) -> Result<PathAndQuery, V1Error> {
    let path = text.filter(|text| text.starts_with('/') && !text.contains("%00"));
    path.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let detail = "there is no path, or it is not one";
        field("/request/path", detail, r#"send path and query, such as "/orders?id=7""#)
    })
}

fn host(text: String) -> Result<String, V1Error> {
    let authority = text.parse::<axum::http::uri::Authority>();
    match authority.is_ok_and(|own| !own.as_str().contains('@') && !own.host().is_empty()) {
        true => Ok(text),
        false => Err(field("/request/host", "this is no host", r#"send a name such as "shop.example""#)),
    }
}

fn headers(sent: &std::collections::BTreeMap<String, String>) -> Result<HeaderMap, V1Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in sent {
        let pointer = format!("/request/headers/{}", escape(name));
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        let Some((name, value)) = parsed else {
            return Err(field(&pointer, "this is no header", "send a name and a value as HTTP has them"));
        };
        if NOT_SENT.contains(&name) || name.as_str().starts_with("x-tollgate-") {
            return Err(field(&pointer, "this header is the gateway's to write", "leave it out"));
        }
        headers.append(name, value);
    }
    Ok(headers)
}

fn body(text: Option<String>, base64: Option<String>) -> Result<Vec<u8>, V1Error> {
    match (text, base64) {
        (Some(_), Some(_)) => {
            Err(field("/request/body", "body and body_base64 exclude each other", "send one of them"))
        }
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(base64)) => BASE64_STANDARD
            .decode(base64)
            .map_err(|_| field("/request/body_base64", "this is not base64", "send it as RFC 4648 has it")),
        (None, None) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(request: &str) -> Result<DeferCall<'static>, (String, String)> {
        let body = format!(r#"{{"domain":"d","descriptors":[{{"k":"v"}}],"request":{request}}}"#);
        defer_call(Box::leak(body.into_boxed_str()).as_bytes()).map_err(|error| {
            if let V1Error::Field { pointer, detail, .. } = error {
                return (pointer, detail);
            }
            (String::new(), error.to_string())
        })
    }

    #[test]
    fn a_call_is_read_with_what_may_be_left_out() {
        let read = call(r#"{"path":"/a?b"}"#).unwrap();
        assert_eq!((read.method, read.path.as_str(), read.body.len()), (Method::GET, "/a?b", 0));
        let read =
            call(r#"{"method":"POST","path":"/","host":"h:1","headers":{"X-A":"1"},"body_base64":"/wA="}"#);
        let read = read.unwrap();
        assert_eq!(
            (read.host.as_deref(), &read.headers["x-a"], &*read.body),
            (Some("h:1"), &HeaderValue::from_static("1"), &[0xFF, 0][..])
        );
    }

    #[test]
    fn each_mistake_says_where_it_is() {
        let cases = [
            (r#"{"method":"get","path":"/"}"#, "/request/method"),
            (r#"{"method":"TRACE","path":"/"}"#, "/request/method"),
            (r#"{"method":"GET"}"#, "/request/path"),
            (r#"{"path":"orders"}"#, "/request/path"),
            (r#"{"path":"/%00"}"#, "/request/path"),
            (r#"{"path":"/","host":"u@h"}"#, "/request/host"),
            (r#"{"path":"/","headers":{"a b":"x"}}"#, "/request/headers/a b"),
            (r#"{"path":"/","headers":{"Host":"x"}}"#, "/request/headers/Host"),
            (r#"{"path":"/","headers":{"X-Tollgate-Client":"x"}}"#, "/request/headers/X-Tollgate-Client"),
            (r#"{"path":"/","body":"","body_base64":""}"#, "/request/body"),
            (r#"{"path":"/","body_base64":"!"}"#, "/request/body_base64"),
            (r#"{"path":"/","colour":1}"#, "/request"),
            ("null", "/request"),
        ];
        for (request, pointer) in cases {
            let (found, detail) = call(request).unwrap_err();
            assert!(found.starts_with(pointer), "{request}: {found}: {detail}");
        }
    }
}
