//! What an answer comes to: its status, and its cost where the answer tells it.
//!
//! [`super::Admission::answered`] settles what the head decides, and makes a [`ResponseMeter`] of the
//! rest. [`MeteredBody`] shows it every piece of the body; at the end, or when the body is dropped,
//! the rest is settled by what was seen.
//!
//! Invariants: a body passes as it is and as fast as before. What an answer of gRPC came to is in its
//! trailers, so that nothing of it is settled before.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::Checker;
use super::open_charge::{DueCharges, OpenCharge, number};
use super::pending_request::{CLIENT_CLOSED_REQUEST, PendingRequest};

const GRPC: &[u8] = b"application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// HTTP's status for each of gRPC's, as `google.rpc.Code` has it.
const GRPC_AS_HTTP: [u16; 17] =
    [200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401];
/// A status of gRPC that is missing, or none that there is.
const GRPC_UNKNOWN: u16 = 500;

/// What is not settled by the head of an answer.
pub struct ResponseMeter {
    /// None where it is in the trailers.
    status: Option<u16>,
    open: Vec<OpenCharge>,
    /// None once it is settled.
    settle: Option<Box<dyn FnOnce(DueCharges) + Send + Sync>>,
}

impl fmt::Debug for ResponseMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseMeter")
            .field("status", &self.status)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl ResponseMeter {
    /// Settles what the head of an answer decides; none if that is everything.
    pub(super) fn start<C: Checker>(
        request: PendingRequest<C>,
        status: u16,
        headers: &HeaderMap,
    ) -> Option<Self> {
        let status = match is_grpc(headers) {
            true => headers.get(GRPC_STATUS).map(grpc_as_http),
            false => Some(status),
        };
        let (mut due, mut rest) = (DueCharges::new(), Vec::new());
        for mut charge in request.open_charges() {
            charge.look(headers);
            if let Some(status) = status
                && charge.due(status).is_none()
            {
                continue;
            }
            if !matches!(status, Some(204 | 304)) {
                charge.begin(headers);
            }
            match status.filter(|_| !charge.needs_more()) {
                Some(status) => due.extend(charge.due(status)),
                None => rest.push(charge),
            }
        }
        request.settle(due);
        if rest.is_empty() {
            request.close();
            return None;
        }
        let settle = Box::new(move |due| {
            request.settle(due);
            request.close();
        });
        Some(Self { status, open: rest, settle: Some(settle) })
    }

    fn data(&mut self, bytes: &[u8]) {
        for charge in &mut self.open {
            charge.read(bytes);
        }
    }

    fn trailers(&mut self, trailers: &HeaderMap) {
        if self.status.is_none() {
            self.status = trailers.get(GRPC_STATUS).map(grpc_as_http);
        }
        for charge in &mut self.open {
            charge.look(trailers);
        }
    }

    /// The answer is whole.
    fn end(mut self) {
        self.settle(GRPC_UNKNOWN);
    }

    fn settle(&mut self, status_unless_known: u16) {
        let status = self.status.unwrap_or(status_unless_known);
        if let Some(settle) = self.settle.take() {
            settle(self.open.iter().filter_map(|charge| charge.due(status)).collect());
        }
    }
}

/// Somebody has gone away: what was seen is charged.
impl Drop for ResponseMeter {
    fn drop(&mut self) {
        self.settle(CLIENT_CLOSED_REQUEST);
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.strip_prefix(GRPC).is_some_and(|rest| !rest.starts_with(b"-web"))
}

fn grpc_as_http(status: &HeaderValue) -> u16 {
    let code = number(status).and_then(|code| usize::try_from(code).ok());
    code.and_then(|code| GRPC_AS_HTTP.get(code)).copied().unwrap_or(GRPC_UNKNOWN)
}

pin_project! {
    /// A body that is shown to a [`ResponseMeter`] while it passes.
    #[derive(Debug)]
    pub struct MeteredBody<B> {
        #[pin]
        inner: B,
        meter: Option<ResponseMeter>,
    }
}

impl<B: Body<Data = Bytes>> MeteredBody<B> {
    /// A body, and who wants to see it.
    pub fn new(inner: B, meter: Option<ResponseMeter>) -> Self {
        let mut body = Self { inner, meter };
        if body.inner.is_end_stream()
            && let Some(meter) = body.meter.take()
        {
            meter.end();
        }
        body
    }
}

impl<B: Body<Data = Bytes>> Body for MeteredBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let polled = ready!(this.inner.as_mut().poll_frame(cx));
        let Some(meter) = this.meter else { return Poll::Ready(polled) };
        let is_whole = match &polled {
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    meter.data(bytes);
                } else if let Some(trailers) = frame.trailers_ref() {
                    meter.trailers(trailers);
                }
                this.inner.is_end_stream()
            }
            Some(Err(_)) => {
                *this.meter = None;
                false
            }
            None => true,
        };
        if is_whole && let Some(meter) = this.meter.take() {
            meter.end();
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
