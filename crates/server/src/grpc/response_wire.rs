//! Responses → blocks of header fields.
//!
//! What nearly every call gets is written here once.

use hyper::{HeaderMap, StatusCode};
use tollgate_http2::put_field;
use tonic::Status;

/// The head of a response with a message: `:status: 200`, `content-type: application/grpc`.
pub(super) const OK_HEAD: &[u8] = b"\x88\x0f\x10\x10application/grpc";
/// What follows the message: `grpc-status: 0`.
pub(super) const OK_TRAILERS: &[u8] = b"\x00\x0bgrpc-status\x010";

/// The head of any response.
pub(super) fn head(status: StatusCode, headers: &HeaderMap) -> Vec<u8> {
    let mut block = Vec::new();
    put_field(&mut block, b":status", status.as_str().as_bytes());
    put_fields(&mut block, headers);
    block
}

/// The trailers of any response.
pub(super) fn trailers(fields: &HeaderMap) -> Vec<u8> {
    let mut block = Vec::new();
    put_fields(&mut block, fields);
    block
}

/// A whole response that has a status and no message.
pub(super) fn failure(status: Status) -> Vec<u8> {
    let response = status.into_http::<()>();
    head(response.status(), response.headers())
}

fn put_fields(block: &mut Vec<u8>, fields: &HeaderMap) {
    for (name, value) in fields {
        put_field(block, name.as_str().as_bytes(), value.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{CONTENT_TYPE, HeaderValue};

    use super::*;

    #[test]
    fn the_constants_are_what_would_be_written() {
        let kind = (CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        assert_eq!(head(StatusCode::OK, &HeaderMap::from_iter([kind])), OK_HEAD);
        let ok = ("grpc-status".parse().unwrap(), HeaderValue::from_static("0"));
        assert_eq!(trailers(&HeaderMap::from_iter([ok])), OK_TRAILERS);
    }
}
