//! What the client is told in an answer of our own: `application/problem+json` (RFC 9457).

use http::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode, Version};
use hyper::Response;
use serde::Serialize;
use tollgate_http::response::{PROBLEM_JSON, grpc_message};

use crate::error::GatewayError;
use crate::response_body::ResponseBody;

/// The body of an answer that is an error.
#[derive(Serialize)]
struct GatewayProblem<'a> {
    title: &'a str,
    status: u16,
    detail: String,
}

/// What a client speaks, and so what it can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientProtocol {
    Http1,
    Http2,
    /// Over HTTP/2; an error is a status of gRPC's own.
    Grpc,
}

impl ClientProtocol {
    pub(crate) fn of(version: Version, headers: &HeaderMap) -> Self {
        let content = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        // gRPC-Web is for browsers, which know statuses of HTTP.
        let kind = content.strip_prefix(GRPC.as_bytes()).filter(|rest| !rest.starts_with(b"-web"));
        match version == Version::HTTP_2 {
            true if kind.is_some() => Self::Grpc,
            true => Self::Http2,
            false => Self::Http1,
        }
    }
}

/// The beginning of what gRPC calls its content, such as `application/grpc+proto`.
const GRPC: &str = "application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// What the client is told.
pub(crate) fn response(error: &GatewayError, client: ClientProtocol) -> Response<ResponseBody> {
    let status = error.status();
    if client == ClientProtocol::Grpc {
        return grpc(status, &error.to_string());
    }
    let mut response = with_problem(status, body(error));
    if error.closes() && client == ClientProtocol::Http1 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The body that tells about an error.
pub(crate) fn body(error: &GatewayError) -> Vec<u8> {
    let status = error.status();
    let title = status.canonical_reason().unwrap_or_default();
    let problem = GatewayProblem { title, status: status.as_u16(), detail: error.to_string() };
    serde_json::to_vec(&problem).expect("texts and numbers are always JSON")
}

/// An error as a gRPC client knows it: only a head, which has the status in it.
pub(crate) fn grpc(status: StatusCode, message: &str) -> Response<ResponseBody> {
    let code = match status {
        StatusCode::TOO_MANY_REQUESTS => "8",
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => "12",
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => "4",
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => "14",
        StatusCode::FORBIDDEN => "7",
        StatusCode::BAD_REQUEST => "3",
        _ => "2",
    };
    let mut response = Response::new(ResponseBody::text(Vec::new()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    headers.insert(GRPC_STATUS, HeaderValue::from_static(code));
    let message = HeaderValue::try_from(grpc_message(message));
    headers.extend(message.ok().map(|message| (GRPC_MESSAGE, message)));
    response
}

/// A response with a problem as its body.
pub(crate) fn with_problem(status: StatusCode, bytes: Vec<u8>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::text(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}
