//! A proxy's call → the request that it asks about.
//!
//! A proxy passes on what the client sent, and adds its own headers. Which of
//! them are the proxy's cannot be seen.
//!
//! Invariant: two descriptions that disagree are refused, whichever they are,
//! unless the settings say which kind the proxy writes; then no other is read.

use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use tollgate_http::request::facts::without_origin;

use super::to_wire::AuthzError;
use tollgate_settings::RequestFrom;

/// The path that proxies call.
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
    /// The query of the call is the proxy's own, and not the client's.
    pub(super) has_own_query: bool,
}

/// What one kind of headers says, or the path of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestDescription<'a> {
    method: Option<&'a str>,
    /// Without scheme and host.
    target: Option<&'a [u8]>,
    /// That of the call, where it names no other.
    host: Option<&'a str>,
}

impl<'a> RequestDescription<'a> {
    /// None if there are no such headers.
    fn x_forwarded(headers: &'a HeaderMap) -> Result<Option<Self>, AuthzError> {
        let (method, target) = (text(headers, &FORWARDED_METHOD)?, single(headers, &FORWARDED_URI)?);
        if method.is_none() && target.is_none() {
            return Ok(None);
        }
        let host = text(headers, &FORWARDED_HOST)?.or(text(headers, &HOST)?);
        Ok(Some(Self { method, target: target.map(without_origin), host }))
    }

    /// None if there are no such headers.
    fn x_original(headers: &'a HeaderMap) -> Result<Option<Self>, AuthzError> {
        let method = text(headers, &ORIGINAL_METHOD)?;
        let (uri, url) = (single(headers, &ORIGINAL_URI)?, single(headers, &ORIGINAL_URL)?);
        if method.is_none() && uri.is_none() && url.is_none() {
            return Ok(None);
        }
        let own_host = text(headers, &HOST)?;
        let by_url =
            Self { method, target: url.map(without_origin), host: url.and_then(host_of).or(own_host) };
        let by_uri = Self { method, target: uri.map(without_origin), host: own_host };
        match (uri, url) {
            (Some(_), Some(_)) if by_uri != by_url => Err(AuthzError::Disagree),
            (None, Some(_)) => Ok(Some(by_url)),
            (Some(_) | None, _) => Ok(Some(by_uri)),
        }
    }

    /// What stands behind our own path; none if nothing does.
    fn itself(call: &'a Parts) -> Result<Option<Self>, AuthzError> {
        let target = call.uri.path_and_query().and_then(|target| target.as_str().strip_prefix(PREFIX));
        let Some(target) = target.filter(|target| target.starts_with('/')) else { return Ok(None) };
        let method = Some(call.method.as_str());
        Ok(Some(Self { method, target: Some(target.as_bytes()), host: text(&call.headers, &HOST)? }))
    }
}

/// The request that a proxy asks about.
pub(super) fn original(call: &Parts, from: RequestFrom) -> Result<OriginalRequest<'_>, AuthzError> {
    let headers = &call.headers;
    let itself = RequestDescription::itself(call)?;
    let described = match from {
        RequestFrom::XForwarded => RequestDescription::x_forwarded(headers)?,
        RequestFrom::XOriginal => RequestDescription::x_original(headers)?,
        RequestFrom::Itself => itself,
        RequestFrom::Auto => {
            let all =
                [RequestDescription::x_forwarded(headers)?, RequestDescription::x_original(headers)?, itself];
            let mut all = all.into_iter().flatten();
            let first = all.next();
            if all.any(|other| Some(other) != first) || !hosts_agree(headers)? {
                return Err(AuthzError::Disagree);
            }
            first
        }
    };
    let host = text(headers, &HOST)?;
    let RequestDescription { method, target, host } =
        described.unwrap_or(RequestDescription { method: None, target: None, host });
    Ok(OriginalRequest {
        method: method.unwrap_or(call.method.as_str()),
        target: target.unwrap_or(b"/"),
        host,
        has_own_query: itself.is_none() && from != RequestFrom::Itself,
    })
}

/// Whether `X-Forwarded-Host` and the host of `X-Original-URL` are the same, where
/// both are there. The former may come alone, without the rest of its kind.
fn hosts_agree(headers: &HeaderMap) -> Result<bool, AuthzError> {
    let forwarded = text(headers, &FORWARDED_HOST)?;
    let original = single(headers, &ORIGINAL_URL)?.and_then(host_of);
    Ok(forwarded.zip(original).is_none_or(|(one, other)| one == other))
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

/// The host in `http://host/path`.
fn host_of(target: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(target).ok()?;
    let (_, rest) = text.split_once("://").filter(|(scheme, _)| scheme.starts_with("http"))?;
    rest.split(['/', '?', '#']).next().filter(|host| !host.is_empty())
}

/// The status that a denial is to have, if the proxy says so: `?deny=403`.
pub(super) fn deny_status(query: Option<&str>) -> Result<Option<u16>, AuthzError> {
    let mut pairs = query.unwrap_or_default().split('&');
    match pairs.find_map(|pair| pair.strip_prefix("deny=")) {
        None => Ok(None),
        Some("403") => Ok(Some(403)),
        Some("429") => Ok(Some(429)),
        Some(_) => Err(AuthzError::DenyStatus),
    }
}
