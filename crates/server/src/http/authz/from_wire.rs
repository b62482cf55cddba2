//! A proxy's question → the request that it is about.
//!
//! A proxy passes on what the client sent, and adds its own headers. Which of
//! them are the proxy's cannot be seen; so a header that is there twice, or two
//! kinds of headers that disagree, are refused, unless the settings say which
//! kind the proxy writes.

use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};

use super::to_wire::AuthzError;
use tollgate_settings::RequestFrom;

/// The path that the question is asked at.
const PREFIX: &str = "/v1/authz";

const FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
const ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
/// With scheme and host, as Kubernetes' ingress-nginx has it.
const ORIGINAL_URL: HeaderName = HeaderName::from_static("x-original-url");

/// The request that a proxy asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OriginalRequest<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a [u8],
    pub(super) host: Option<&'a str>,
}

/// What one kind of headers says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestDescription<'a> {
    method: Option<&'a str>,
    target: Option<&'a [u8]>,
}

impl RequestDescription<'_> {
    const fn is_nothing(&self) -> bool {
        self.method.is_none() && self.target.is_none()
    }
}

/// The request that a proxy asks about.
pub(super) fn original(question: &Parts, from: RequestFrom) -> Result<OriginalRequest<'_>, AuthzError> {
    let headers = &question.headers;
    let own_host = text(headers, &HOST)?;
    let own =
        OriginalRequest { method: question.method.as_str(), target: own_target(question), host: own_host };
    let x_forwarded = || -> Result<OriginalRequest<'_>, AuthzError> {
        let RequestDescription { method, target } = said(headers, &FORWARDED_METHOD, &[FORWARDED_URI])?;
        let host = text(headers, &FORWARDED_HOST)?.or(own.host);
        Ok(OriginalRequest { method: method.unwrap_or(own.method), target: target.unwrap_or(b"/"), host })
    };
    let x_original = || -> Result<OriginalRequest<'_>, AuthzError> {
        let RequestDescription { method, target } =
            said(headers, &ORIGINAL_METHOD, &[ORIGINAL_URI, ORIGINAL_URL])?;
        let target = target.unwrap_or(b"/");
        let host = host_of(target).or(own.host);
        Ok(OriginalRequest { method: method.unwrap_or(own.method), target, host })
    };
    match from {
        RequestFrom::XForwarded => x_forwarded(),
        RequestFrom::XOriginal => x_original(),
        RequestFrom::Itself => Ok(own),
        RequestFrom::Auto => {
            let forwarded = said(headers, &FORWARDED_METHOD, &[FORWARDED_URI])?;
            let original = said(headers, &ORIGINAL_METHOD, &[ORIGINAL_URI, ORIGINAL_URL])?;
            match (forwarded.is_nothing(), original.is_nothing()) {
                (true, true) => Ok(own),
                (false, true) => x_forwarded(),
                (true, false) => x_original(),
                (false, false) if forwarded == original => x_forwarded(),
                (false, false) => Err(AuthzError::Disagree),
            }
        }
    }
}

/// What one kind of headers says; the first of `targets` that is there counts.
fn said<'a>(
    headers: &'a HeaderMap,
    method: &HeaderName,
    targets: &[HeaderName],
) -> Result<RequestDescription<'a>, AuthzError> {
    let mut target = None;
    for name in targets {
        target = target.or(single(headers, name)?);
    }
    Ok(RequestDescription { method: text(headers, method)?, target })
}

/// The bytes of a header that is there once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a [u8]>, AuthzError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(AuthzError::Twice { name: name.clone() }),
        (value, None) => Ok(value.map(|value| value.as_bytes())),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, AuthzError> {
    let bytes = single(headers, name)?;
    let read = |bytes| std::str::from_utf8(bytes).map_err(|_| AuthzError::NoText { name: name.clone() });
    bytes.map(read).transpose()
}

/// Path and query behind our own path.
fn own_target(question: &Parts) -> &[u8] {
    let target = question.uri.path_and_query().map_or("/", |target| target.as_str());
    target.strip_prefix(PREFIX).unwrap_or(target).as_bytes()
}

/// The host in `http://host/path`.
fn host_of(target: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(target).ok()?;
    let (_, rest) = text.split_once("://").filter(|(scheme, _)| scheme.starts_with("http"))?;
    rest.split(['/', '?', '#']).next().filter(|host| !host.is_empty())
}

/// The status that a refusal is to have, if the question says so: `?deny=403`.
pub(super) fn deny_status(query: Option<&str>) -> Result<Option<u16>, AuthzError> {
    let mut pairs = query.unwrap_or_default().split('&');
    match pairs.find_map(|pair| pair.strip_prefix("deny=")) {
        None => Ok(None),
        Some("403") => Ok(Some(403)),
        Some("429") => Ok(Some(429)),
        Some(_) => Err(AuthzError::DenyStatus),
    }
}
