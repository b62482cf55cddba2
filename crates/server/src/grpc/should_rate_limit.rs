//! One call of `ShouldRateLimit`, `Peek` or `Report`, from its message to its answer.
//!
//! The connection hands over a [`RateLimitCall`] when its message has arrived. Counters in memory are decided
//! at once, where the message was read; what may have to wait is a future.
//!
//! Invariant: the clock is read once for the decision and once more for the
//! latency metric.
//!
//! Deliberately not here: compression, which does nothing for a message of a
//! few hundred bytes, and streaming.

use std::sync::Arc;

use tokio::time::Instant;
use tollgate_core::{Operation, Time};
use tollgate_http2::FieldList;

use super::error::GrpcError;
use super::from_wire::RlsRequest;
use super::message_wire;
use super::to_wire::{self, RlsResponse};
use crate::body::{BodyError, HeldBytes, UNFINISHED_BODIES};
use crate::bounds::GRPC_MESSAGE_MAX;
use crate::service::{Service, ServiceError};
use crate::telemetry::{self, CallSpan};
use tollgate_metrics::Call;

/// The longest body: a message with its head.
const BODY_MAX: usize = GRPC_MESSAGE_MAX + message_wire::HEAD;

/// The name of the span around a call.
const fn span_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Check | Operation::Refund => telemetry::SHOULD_RATE_LIMIT,
        Operation::Peek => super::PEEK,
        Operation::Report => super::REPORT,
    }
}

/// A call whose message arrives.
#[derive(Debug)]
pub(super) struct RateLimitCall {
    /// What it asks for, where a descriptor does not say otherwise.
    operation: Operation,
    /// When its head came, by the limiter's clock.
    start: Time,
    /// The same by the clock of timeouts, shared by all that was read together.
    pub(super) read_at: Instant,
    span: CallSpan,
    /// What has come of a message that did not come whole.
    body: Vec<u8>,
    held: Option<HeldBytes>,
}

impl RateLimitCall {
    /// A call that begins now.
    pub(super) fn new(service: &Service, operation: Operation, fields: &FieldList, read_at: Instant) -> Self {
        let start = service.now();
        let field = |name: &str| fields.get(name).and_then(|value| std::str::from_utf8(value).ok());
        let span = service.tracer().call(span_name(operation), field);
        Self { operation, start, read_at, span, body: Vec::new(), held: None }
    }

    /// Keeps a piece of a message that did not come whole.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), GrpcError> {
        if self.body.len() + piece.len() > BODY_MAX {
            return Err(BodyError::TooLarge { max: BODY_MAX }.into());
        }
        self.held.get_or_insert_with(|| UNFINISHED_BODIES.none()).add(piece.len())?;
        self.body.extend_from_slice(piece);
        Ok(())
    }

    /// How many bytes of its message are kept.
    pub(super) const fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Decides, now that the last piece of the message is there, which was read at `read_at`.
    pub(super) fn decide(mut self, service: &Arc<Service>, last: &[u8], read_at: Instant) -> Decided {
        let message =
            if self.body.is_empty() { Ok(last) } else { self.push(last).map(|()| self.body.as_slice()) };
        let request = message.and_then(|message| RlsRequest::decode(message, service.counts_rejected()));
        let request = request.and_then(|request| match self.operation {
            Operation::Peek => Ok(request.refuse_refunds().map(|()| request)?),
            Operation::Check | Operation::Report | Operation::Refund => Ok(request),
        });
        // Nearly all messages come with their head, and are decided as of then.
        let now = if read_at == self.read_at { self.start } else { service.now() };
        let Self { operation, start, mut span, .. } = self;
        let request = match request {
            Ok(request) => request,
            Err(error) => return Decided::Now(RateLimitAnswer::new(service, Err(error), start, span)),
        };
        match respond_at_once(service, operation, &request, now, &mut span) {
            Some(result) => {
                let result = result.map_err(GrpcError::from);
                Decided::Now(RateLimitAnswer::new(service, result, start, span))
            }
            None => {
                let service = Arc::clone(service);
                Decided::Later(UndecidedCall { service, operation, request, now, start, span })
            }
        }
    }

    /// The message did not come in time, or is not wanted.
    pub(super) fn fail(self, service: &Service, error: GrpcError) -> RateLimitAnswer {
        RateLimitAnswer::new(service, Err(error), self.start, self.span)
    }
}

/// The answer, or what has to wait for the store.
pub(super) enum Decided {
    Now(RateLimitAnswer),
    Later(UndecidedCall),
}

/// A call that waits for the store.
pub(super) struct UndecidedCall {
    service: Arc<Service>,
    operation: Operation,
    request: RlsRequest,
    now: Time,
    start: Time,
    span: CallSpan,
}

impl UndecidedCall {
    /// Waits, and answers.
    pub(super) async fn decide(self) -> RateLimitAnswer {
        let Self { service, operation, request, now, start, mut span } = self;
        let result = respond::<GrpcError>(&service, operation, &request, now, &mut span).await;
        RateLimitAnswer::new(&service, result, start, span)
    }
}

/// The answer to a call.
#[derive(Debug)]
pub(super) struct RateLimitAnswer {
    pub(super) result: Result<RlsResponse, GrpcError>,
    pub(super) span: CallSpan,
}

impl RateLimitAnswer {
    fn new(service: &Service, result: Result<RlsResponse, GrpcError>, start: Time, span: CallSpan) -> Self {
        service.metrics().served(Call::ShouldRateLimit, service.now().since(start));
        Self { result, span }
    }
}

/// Decides what Envoy asks by counters in this process; none, and nothing done, if the store has to be waited
/// for.
fn respond_at_once(
    service: &Service,
    operation: Operation,
    wire: &RlsRequest,
    now: Time,
    span: &mut CallSpan,
) -> Option<Result<RlsResponse, ServiceError>> {
    let entries = wire.entries();
    let descriptors = wire.descriptors(&entries);
    let request = wire.request(&descriptors);
    service.operate_at_once(&request, operation, now, |decided| {
        let reply = decided?;
        span.decided(Some(request.domain), reply.outcome());
        Ok(to_wire::response(wire, &request, reply, service.answers()))
    })
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

    /// The future of a call that waits for the store is allocated for each; it may get smaller.
    const FUTURE_BYTES_MAX: usize = 1_488;

    fn future_bytes<F>(_: impl Fn(UndecidedCall) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_of_a_call_does_not_grow() {
        let bytes = future_bytes(UndecidedCall::decide);
        assert!(bytes <= FUTURE_BYTES_MAX, "it has {bytes} bytes");
    }
}
