//! One call of `ShouldRateLimit`, `Peek` or `Report`, from its bytes to its bytes.
//!
//! It does what tonic would do in general, for these calls: the body is taken
//! in within our bounds, and nothing is boxed, routed or copied on the way.
//!
//! Invariant: the clock is read once for the decision and once more for the
//! latency metric.
//!
//! Deliberately not here: compression, which does nothing for a message of a
//! few hundred bytes, and streaming.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tollgate_core::{Operation, Time};

use super::GrpcFuture;
use super::body::GrpcBody;
use super::error::GrpcError;
use super::from_wire::RlsRequest;
use super::message_wire;
use super::to_wire::{self, RlsResponse};
use crate::body;
use crate::bounds::GRPC_MESSAGE_MAX;
use crate::listen::stream::{ByteCount, WaitingBytes};
use crate::service::{Service, ServiceError};
use crate::telemetry::{self, CallSpan};
use tollgate_metrics::Call;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// The name of the span around a call.
const fn span_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Check | Operation::Refund => telemetry::SHOULD_RATE_LIMIT,
        Operation::Peek => super::PEEK,
        Operation::Report => super::REPORT,
    }
}

/// What a call needs besides its request.
pub(super) struct GrpcCall {
    pub(super) service: Arc<Service>,
    /// The connection that it came on.
    pub(super) connection: Arc<ByteCount>,
    /// What it asks for, where a descriptor does not say otherwise.
    pub(super) operation: Operation,
}

/// Answers a call.
///
/// What is known without waiting is done before the future is made: it is
/// allocated for each call, and is as large as all that it holds while it waits.
pub(super) fn answer(call: GrpcCall, request: Request<Incoming>) -> GrpcFuture {
    let content_type = request.headers().get(CONTENT_TYPE);
    if !content_type.is_some_and(|kind| kind.as_bytes().starts_with(GRPC.as_bytes())) {
        let mut response = Response::new(GrpcBody::Empty);
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Box::pin(std::future::ready(Ok(response)));
    }
    if call.connection.is_full() {
        let refused = to_wire::status(&GrpcError::NotRead).into_http();
        return Box::pin(std::future::ready(Ok(refused)));
    }
    let now = call.service.now();
    let name = span_name(call.operation);
    let span = call.service.tracer().call(name, |name| request.headers().get(name)?.to_str().ok());
    Box::pin(answer_body(call, request.into_body(), now, span))
}

async fn answer_body(
    call: GrpcCall,
    body: Incoming,
    start: Time,
    mut span: CallSpan,
) -> Result<Response<GrpcBody>, Infallible> {
    let GrpcCall { service, connection, operation } = call;
    let answered = receive_and_operate(&service, operation, body, start, &mut span).await;
    service.metrics().served(Call::ShouldRateLimit, service.now().since(start));
    let answered = answered.and_then(|message| {
        let waiting = WaitingBytes::new(connection, message.len()).ok_or(GrpcError::NotRead)?;
        Ok(GrpcBody::Message(message, waiting))
    });
    Ok(match answered {
        Ok(body) => {
            let mut response = Response::new(body);
            response.headers_mut().insert(CONTENT_TYPE, GRPC);
            response
        }
        Err(error) => {
            let status = to_wire::status(&error);
            span.failed(status.message());
            status.into_http()
        }
    })
}

async fn receive_and_operate(
    service: &Service,
    operation: Operation,
    body: Incoming,
    start: Time,
    span: &mut CallSpan,
) -> Result<Bytes, GrpcError> {
    let received = body::receive(body, GRPC_MESSAGE_MAX + message_wire::HEAD).await?;
    // Nearly all bodies come with their head, and are decided as of then.
    let now = if received.has_waited { service.now() } else { start };
    let request = RlsRequest::decode(received.bytes, service.counts_rejected())?;
    if operation == Operation::Peek {
        request.refuse_refunds()?;
    }
    message_wire::encode(&respond::<GrpcError>(service, operation, &request, now, span).await?)
}

/// Decides what Envoy asks, whether it came as protobuf or as JSON.
pub(crate) async fn respond<E: From<ServiceError>>(
    service: &Service,
    operation: Operation,
    wire: &RlsRequest,
    now: Time,
    span: &mut CallSpan,
) -> Result<RlsResponse, E> {
    let entries = wire.entries();
    let descriptors = wire.descriptors(&entries);
    let request = wire.request(&descriptors);
    let reply = service.operate(&request, operation, now).await?;
    span.decided(Some(request.domain), reply.outcome());
    Ok(to_wire::response(wire, &request, &reply, service.answers()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The future of a call is allocated for each call; it may get smaller.
    const FUTURE_BYTES_MAX: usize = 1_488;

    fn future_bytes<A, B, C, D, F>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_of_a_call_does_not_grow() {
        let bytes = future_bytes(answer_body);
        assert!(bytes <= FUTURE_BYTES_MAX, "it has {bytes} bytes");
    }
}
