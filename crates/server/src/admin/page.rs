//! The dashboard: its files, and headers that keep other sites and scripts out of it.
//!
//! After the checks of who may ask; the files come from `tollgate_dashboard`.
//!
//! Invariants: nothing inline and nothing from elsewhere runs in the page, and no
//! other page shows it in a frame.
//!
//! Deliberately not here: the data, which the page asks `/v1` for.

use axum::extract::Request;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Bytes;
use tollgate_dashboard::{Asset, asset};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What every admin answer carries.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Adds the headers that every admin answer carries.
pub(super) async fn secure(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    HEADERS.into_iter().for_each(|(name, value)| drop(response.headers_mut().insert(name, value)));
    response
}

/// Whether whoever asks for `/` is a browser, and not curl.
pub(super) fn wants_page(headers: &HeaderMap) -> bool {
    lists(headers, &ACCEPT, "text/html")
}

/// The page itself.
pub(super) fn index(headers: &HeaderMap) -> Option<Response> {
    file("/index.html", headers)
}

/// One of the page's files.
pub(super) fn file(path: &str, headers: &HeaderMap) -> Option<Response> {
    asset(path).map(|asset| respond(asset, headers))
}

fn respond(asset: &'static Asset, headers: &HeaderMap) -> Response {
    let is_gzip = lists(headers, &ACCEPT_ENCODING, "gzip");
    // The two forms are different bytes, so each has a tag of its own.
    let tag = format!("\"{}{}\"", asset.tag, if is_gzip { "-gz" } else { "" });
    let cache = if asset.is_immutable() { "public, max-age=31536000, immutable" } else { "no-cache" };
    let common = [
        (ETAG, tag.clone()),
        (CACHE_CONTROL, cache.to_owned()),
        (VARY, "accept, accept-encoding".to_owned()),
    ];
    // A proxy that compresses makes a tag weak.
    let known = [tag.as_str(), &format!("W/{tag}"), "*"];
    if known.iter().any(|own| lists(headers, &IF_NONE_MATCH, own)) {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    let body = if is_gzip { Bytes::from_static(asset.gzip) } else { asset.bytes().into() };
    let mut response = (common, [(CONTENT_TYPE, asset.content_type)], body).into_response();
    if is_gzip {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Whether a list in a header has an element, whatever stands behind its semicolon.
fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let texts = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    let mut elements = texts.flat_map(|text| text.split(','));
    elements.any(|element| element.split(';').next().is_some_and(|own| own.trim() == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(lines: &[(HeaderName, &'static str)]) -> Response {
        let headers = lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        index(&headers.collect()).unwrap()
    }

    #[test]
    fn a_page_that_did_not_change_is_not_sent_again_and_each_form_has_its_tag() {
        let (plain, packed) = (asked(&[]), asked(&[(ACCEPT_ENCODING, "deflate, gzip;q=0.5")]));
        assert_eq!(packed.headers()[CONTENT_ENCODING], "gzip");
        assert!(!plain.headers().contains_key(CONTENT_ENCODING));
        let (plain, packed) = (plain.headers()[ETAG].clone(), packed.headers()[ETAG].clone());
        assert_ne!(plain, packed);
        let again = |tag: &HeaderValue| {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, tag.clone())]);
            index(&headers).unwrap().status()
        };
        assert_eq!(again(&plain), StatusCode::NOT_MODIFIED);
        assert_eq!(again(&packed), StatusCode::OK, "it is the tag of the other form");
        let weak = HeaderValue::from_str(&format!("\"x\", W/{}", plain.to_str().unwrap())).unwrap();
        assert_eq!([again(&weak), again(&HeaderValue::from_static("*"))], [StatusCode::NOT_MODIFIED; 2]);
    }

    #[test]
    fn browsers_get_the_page_and_others_the_list() {
        let wants = |accept| wants_page(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]));
        assert!(wants("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"));
        assert!(!wants("*/*"));
    }
}
