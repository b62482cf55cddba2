//! The response of a request that goes no further.
//!
//! Callers of gRPC get a status of gRPC, because to them a 429 is only `UNAVAILABLE`; all others the
//! same problem as from a Tollgate server.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use tollgate_http::MappingDenial;
use tollgate_http::response::{PROBLEM_JSON, QuotaProblem};

const GRPC: &str = "application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Codes of gRPC.
const INVALID_ARGUMENT: u16 = 3;
const PERMISSION_DENIED: u16 = 7;
const RESOURCE_EXHAUSTED: u16 = 8;

/// A limit denies it.
pub(crate) fn respond(headers: &HeaderMap, problem: Option<&QuotaProblem>) -> Response<Full<Bytes>> {
    if is_grpc(headers) {
        return grpc(RESOURCE_EXHAUSTED, problem.map_or("", |problem| &problem.detail));
    }
    with_problem(StatusCode::TOO_MANY_REQUESTS, problem.map(QuotaProblem::to_bytes).unwrap_or_default())
}

/// The mapping denies it.
pub(crate) fn refuse(headers: &HeaderMap, denial: &MappingDenial) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(denial.status()).unwrap_or(StatusCode::FORBIDDEN);
    if is_grpc(headers) {
        let code = if status == StatusCode::FORBIDDEN { PERMISSION_DENIED } else { INVALID_ARGUMENT };
        return grpc(code, &denial.to_string());
    }
    with_problem(status, denial.problem())
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.and_then(|kind| kind.strip_prefix(GRPC)).is_some_and(|rest| !rest.starts_with("-web"))
}

fn with_problem(status: StatusCode, bytes: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}

/// A response of gRPC without a message: its trailers are its headers.
fn grpc(code: u16, message: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    headers.insert(GRPC_STATUS, code.into());
    if let Ok(message) = HeaderValue::try_from(percent_encoded(message)) {
        headers.insert(GRPC_MESSAGE, message);
    }
    response
}

/// As gRPC wants messages: printable ASCII but for the percent sign.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'$' | b'&'..=b'~' => encoded.push(char::from(byte)),
            _ => write!(encoded, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_grpc_are_printable() {
        assert_eq!(percent_encoded("50 % \u{fc}\n"), "50 %25 %C3%BC%0A");
    }
}
