//! One call of `ShouldRateLimit`, from its bytes to its bytes.
//!
//! It does by itself what tonic would do in general: the request's body is
//! taken in within our bounds, and nothing is boxed, routed or copied on the way.
//!
//! Deliberately not here: compression, which a message of a few hundred bytes
//! has no use for, and streaming.

use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tollgate_core::Operation;
use tonic::Status;

use super::body::ReplyBody;
use super::from_wire::{Asked, BadRequest};
use super::{frame, to_wire};
use crate::body;
use crate::bounds::GRPC_MESSAGE_MAX;
use crate::metrics::Call;
use crate::service::{Service, ServiceError};
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
    let answered = match taken {
        Ok(bytes) => decide(service, bytes, &mut span).await,
        Err(error) => Err(error.into()),
    };
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

async fn decide(service: &Service, bytes: Bytes, span: &mut CallSpan) -> Result<Bytes, Status> {
    let wire: RateLimitRequest = frame::open(bytes)?;
    frame::close(&respond::<Status>(service, &wire, span).await?)
}

/// Decides what Envoy asks, however it came.
pub(crate) async fn respond<E: From<BadRequest> + From<ServiceError>>(
    service: &Service,
    wire: &RateLimitRequest,
    span: &mut CallSpan,
) -> Result<RateLimitResponse, E> {
    let asked = Asked::new(wire, service.counts_rejected())?;
    let entries = asked.entries();
    let descriptors = asked.descriptors(&entries);
    let request = asked.request(&descriptors);
    let answer = service.operate(&request, Operation::Check).await?;
    span.decided(request.domain, answer.reply.verdict.word());
    Ok(to_wire::response(wire, &request, &answer, service.answers()))
}
