//! One call of `ShouldRateLimit`, from its bytes to its bytes.
//!
//! It does by itself what tonic would do in general: the request's body is
//! taken in within our bounds, and nothing is boxed, routed or copied on the way.
//!
//! Deliberately not here: compression, which a message of a few hundred bytes
//! has no use for, and streaming.

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tonic::Status;

use super::body::ReplyBody;
use super::{frame, from_wire, to_wire};
use crate::body;
use crate::bounds::GRPC_MESSAGE_MAX;
use crate::metrics::Call;
use crate::service::Service;
use crate::telemetry::CallSpan;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Answers a call.
pub(super) async fn answer(service: &Service, request: Request<Incoming>) -> Response<ReplyBody> {
    let content_type = request.headers().get(CONTENT_TYPE);
    if !content_type.is_some_and(|kind| kind.as_bytes().starts_with(GRPC.as_bytes())) {
        let mut response = Response::new(ReplyBody::Empty);
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return response;
    }
    let start = service.now();
    let mut span = service.tracer().call(|name| request.headers().get(name)?.to_str().ok());
    let taken = body::take(request.into_body(), GRPC_MESSAGE_MAX + frame::HEAD).await;
    let answered = taken.map_err(Status::from).and_then(|bytes| decide(service, bytes, &mut span));
    service.metrics().served(Call::ShouldRateLimit, service.now().since(start));
    match answered {
        Ok(message) => {
            let mut response = Response::new(ReplyBody::Message(message));
            response.headers_mut().insert(CONTENT_TYPE, GRPC);
            response
        }
        Err(status) => {
            span.failed(status.message());
            status.into_http()
        }
    }
}

fn decide(service: &Service, bytes: Bytes, span: &mut CallSpan) -> Result<Bytes, Status> {
    let wire: RateLimitRequest = frame::open(bytes)?;
    let response = from_wire::with_request(&wire, service.counts_rejected(), |request| {
        let answer = service.check(request)?;
        span.decided(request.domain, answer.reply.verdict.word());
        Ok::<_, Status>(to_wire::response(&wire, request, &answer, service.answers()))
    })?;
    frame::close(&response?)
}
