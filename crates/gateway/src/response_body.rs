//! The body of an answer on its way to the client.
//!
//! Piece by piece, as fast as the client takes them. When it is whole, the connection that it came
//! through goes back into the pool.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};

use tollgate_http::MeteredBody;
use tollgate_http::admission::meter::ResponseMeter;

use crate::access_log::AccessRecord;
use crate::forward::Lease;
use crate::timed_body::TimedBody;

/// The body of an answer on its way to the client.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    source: BodySource,
    /// What the access log is told when this has passed.
    record: Option<Box<AccessRecord>>,
}

/// Where a body comes from.
#[derive(Debug)]
enum BodySource {
    /// From us.
    Text(Option<Bytes>),
    Upstream(MeteredBody<UpstreamBody>),
}

/// What an upstream answers.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    timed: TimedBody,
    /// The connection that it comes through; another request can have it afterwards.
    lease: Option<Lease>,
}

impl ResponseBody {
    pub(crate) fn text(bytes: Vec<u8>) -> Self {
        let text = Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty());
        Self { source: BodySource::Text(text), record: None }
    }

    /// What an upstream answers, shown to whoever counts it.
    pub(crate) fn upstream(timed: TimedBody, lease: Lease, meter: Option<ResponseMeter>) -> Self {
        let mut body = UpstreamBody { timed, lease: Some(lease) };
        body.end_lease();
        Self { source: BodySource::Upstream(MeteredBody::new(body, meter)), record: None }
    }

    /// The same, of which the access log is told.
    pub(crate) fn recorded(mut self, record: Option<Box<AccessRecord>>) -> Self {
        self.record = record;
        self
    }
}

impl UpstreamBody {
    /// Gives the connection back if the answer is whole.
    fn end_lease(&mut self) {
        if self.timed.inner.is_end_stream()
            && let Some(lease) = self.lease.take()
        {
            lease.give_back();
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let frame = ready!(self.timed.poll_frame(cx));
        match &frame {
            Some(Ok(_)) => self.end_lease(),
            // What is left of the answer would meet the next request.
            Some(Err(_)) => self.lease = None,
            None => {
                if let Some(lease) = self.lease.take() {
                    lease.give_back();
                }
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.timed.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.timed.inner.size_hint()
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let polled = match &mut self.source {
            BodySource::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            BodySource::Upstream(body) => Pin::new(body).poll_frame(cx),
        };
        if let (Poll::Ready(Some(Ok(frame))), Some(record)) = (&polled, &mut self.record) {
            record.sent(frame.data_ref().map_or(0, Bytes::len));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Text(text) => text.is_none(),
            BodySource::Upstream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| u64::try_from(text.len()).unwrap_or(0)))
            }
            BodySource::Upstream(body) => body.size_hint(),
        }
    }
}
