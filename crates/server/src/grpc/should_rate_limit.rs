//! One call of `ShouldRateLimit`, from its bytes to its bytes.
//!
//! It does by itself what tonic would do in general: the request's body is
//! taken in within our bounds, and nothing is boxed, routed or copied on the way.
//!
//! Deliberately not here: compression, which a message of a few hundred bytes
//! has no use for, and streaming.

use std::sync::Arc;

use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tollgate_core::{Operation, Time};
use tonic::Status;

use super::Answering;
use super::body::ReplyBody;
use super::from_wire::{Asked, BadRequest};
use super::{frame, to_wire};
use crate::body;
use crate::bounds::GRPC_MESSAGE_MAX;
use crate::service::{Service, ServiceError};
use crate::telemetry::CallSpan;
use tollgate_metrics::Call;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Answers a call.
///
/// What is known without waiting is done before the future is made: it is
/// allocated for each call, and is as large as all that it holds while it waits.
pub(super) fn answer(service: Arc<Service>, request: Request<Incoming>) -> Answering {
    let content_type = request.headers().get(CONTENT_TYPE);
    if !content_type.is_some_and(|kind| kind.as_bytes().starts_with(GRPC.as_bytes())) {
        let mut response = Response::new(ReplyBody::Empty);
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Box::pin(std::future::ready(Ok(response)));
    }
    let start = service.now();
    let mut span = service.tracer().call(|name| request.headers().get(name)?.to_str().ok());
    let body = request.into_body();
    Box::pin(async move {
        let answered = take_and_decide(&service, body, start, &mut span).await;
        service.metrics().served(Call::ShouldRateLimit, service.now().since(start));
        Ok(match answered {
            Ok(message) => {
                let mut response = Response::new(ReplyBody::Message(message));
                response.headers_mut().insert(CONTENT_TYPE, GRPC);
                response
            }
            Err(status) => {
                span.failed(status.message());
                status.into_http()
            }
        })
    })
}

async fn take_and_decide(
    service: &Service,
    body: Incoming,
    now: Time,
    span: &mut CallSpan,
) -> Result<Bytes, Status> {
    let bytes = body::take(body, GRPC_MESSAGE_MAX + frame::HEAD).await?;
    let wire: RateLimitRequest = frame::open(bytes)?;
    frame::close(&respond::<Status>(service, &wire, now, span).await?)
}

/// Decides what Envoy asks, however it came, as of when it came.
pub(crate) async fn respond<E: From<BadRequest> + From<ServiceError>>(
    service: &Service,
    wire: &RateLimitRequest,
    now: Time,
    span: &mut CallSpan,
) -> Result<RateLimitResponse, E> {
    let asked = Asked::new(wire, service.counts_rejected())?;
    let entries = asked.entries();
    let descriptors = asked.descriptors(&entries);
    let request = asked.request(&descriptors);
    let reply = service.operate(&request, Operation::Check, now).await?;
    span.decided(request.domain, reply.verdict.word());
    Ok(to_wire::response(wire, &request, &reply, service.answers()))
}
