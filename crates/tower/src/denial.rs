//! The response of a request that goes no further.
//!
//! Callers of gRPC get a status of gRPC, because to them a 429 is only `UNAVAILABLE`; all others the
//! same problem as from a Tollgate server.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use tollgate_http::MappingDenial;
use tollgate_http::response::{PROBLEM_JSON, QuotaProblem, grpc_message};

const GRPC: &str = "application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Codes of gRPC.
const INVALID_ARGUMENT: u16 = 3;
const PERMISSION_DENIED: u16 = 7;
const RESOURCE_EXHAUSTED: u16 = 8;

/// A limit denies it.
pub(crate) fn respond<B>(request: &Request<B>, problem: Option<&QuotaProblem>) -> Response<Full<Bytes>> {
    if is_grpc(request.headers()) {
        return grpc(RESOURCE_EXHAUSTED, problem.map_or("", |problem| &problem.detail));
    }
    let bytes = problem.map(QuotaProblem::to_bytes).unwrap_or_default();
    with_problem(request, StatusCode::TOO_MANY_REQUESTS, bytes)
}

/// The mapping denies it.
pub(crate) fn refuse<B>(request: &Request<B>, denial: &MappingDenial) -> Response<Full<Bytes>> {
    let status = StatusCode::from_u16(denial.status()).unwrap_or(StatusCode::FORBIDDEN);
    if is_grpc(request.headers()) {
        let code = if status == StatusCode::FORBIDDEN { PERMISSION_DENIED } else { INVALID_ARGUMENT };
        return grpc(code, &denial.to_string());
    }
    with_problem(request, status, denial.problem())
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.and_then(|kind| kind.strip_prefix(GRPC)).is_some_and(|rest| !rest.starts_with("-web"))
}

fn with_problem<B>(request: &Request<B>, status: StatusCode, bytes: Vec<u8>) -> Response<Full<Bytes>> {
    let length = bytes.len();
    let is_head = request.method() == Method::HEAD;
    let mut response = Response::new(if is_head { Full::default() } else { Full::from(bytes) });
    if is_head {
        // Servers send a body to whoever asked for none, and over HTTP/2 that breaks the protocol.
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
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
    if let Ok(message) = HeaderValue::try_from(grpc_message(message)) {
        headers.insert(GRPC_MESSAGE, message);
    }
    response
}
