//! What the client is told in an answer of our own: `application/problem+json` (RFC 9457).

use http::StatusCode;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::Response;
use serde::Serialize;
use tollgate_http::response::PROBLEM_JSON;

use crate::error::GatewayError;
use crate::response_body::ResponseBody;

/// The body of an answer that is an error.
#[derive(Serialize)]
struct GatewayProblem<'a> {
    title: &'a str,
    status: u16,
    detail: String,
}

/// What the client is told.
pub(crate) fn response(error: &GatewayError, is_http2: bool) -> Response<ResponseBody> {
    let status = error.status();
    let title = status.canonical_reason().unwrap_or_default();
    let problem = GatewayProblem { title, status: status.as_u16(), detail: error.to_string() };
    let bytes = serde_json::to_vec(&problem).expect("texts and numbers are always JSON");
    let mut response = with_problem(status, bytes);
    if error.closes() && !is_http2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A response with a problem as its body.
pub(crate) fn with_problem(status: StatusCode, bytes: Vec<u8>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::text(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}
