//! What the head of an HTTP/2 request must look like besides what hyper demands.
//!
//! hyper refuses bytes that no field may have, fields about a connection, and bodies that differ from their length.
//! It reads only the first of several lengths, takes an empty one for 0, and leaves the spaces around a value alone.
//! Written as HTTP/1, these are no part of the value any more: the upstream would see another key than the limiter.

use http::header::{CONTENT_LENGTH, HeaderValue};
use http::request::Parts;

use super::head::{HeadError, length, trimmed};

/// What is wrong with the head of a request over HTTP/2 (RFC 9113, 8).
pub(crate) fn check_http2(parts: &Parts) -> Result<(), HeadError> {
    let mut lengths = parts.headers.get_all(CONTENT_LENGTH).iter();
    if let Some(first) = lengths.next()
        && (length(first.as_bytes()).is_none() || lengths.next().is_some())
    {
        return Err(HeadError::Length);
    }
    if parts.headers.values().any(has_space_around) {
        return Err(HeadError::Space);
    }
    // Without an authority hyper leaves out the scheme, too.
    match parts.uri.scheme_str() {
        Some("") => Err(HeadError::Target),
        Some(_) | None => Ok(()),
    }
}

fn has_space_around(value: &HeaderValue) -> bool {
    trimmed(value.as_bytes()).len() < value.len()
}
