//! The body of an answer on its way to the client.
//!
//! Piece by piece, as fast as the client takes them. When it is whole, the connection that it came
//! through goes back into the pool.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::Instant;

use tollgate_http::MeteredBody;
use tollgate_http::admission::meter::ResponseMeter;

use crate::access_log::AccessRecord;
use crate::answer_watch::AnswerWatch;
use crate::bounds::ANSWER_PIECE_MAX;
use crate::forward::Lease;
use crate::timed_body::TimedBody;

/// The body of an answer on its way to the client.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    source: BodySource,
    /// What the access log is told when this has passed.
    record: Option<Box<AccessRecord>>,
    /// Who ends it if the client does not take it; none if nobody does.
    watch: Option<Arc<AnswerWatch>>,
    /// What is left of a piece that was too large to be handed out at once.
    rest: Bytes,
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
        Self::new(BodySource::Text(text))
    }

    /// What an upstream answers, shown to whoever counts it.
    pub(crate) fn upstream(timed: TimedBody, lease: Lease, meter: Option<ResponseMeter>) -> Self {
        let mut body = UpstreamBody { timed, lease: Some(lease) };
        body.end_lease();
        Self::new(BodySource::Upstream(MeteredBody::new(body, meter)))
    }

    const fn new(source: BodySource) -> Self {
        Self { source, record: None, watch: None, rest: Bytes::new() }
    }

    /// Leaves out what we say ourselves, for an answer to HEAD; how long it would be.
    pub(crate) fn take_text(&mut self) -> Option<usize> {
        match &mut self.source {
            BodySource::Text(text) => text.take().map(|text| text.len()),
            BodySource::Upstream(_) => None,
        }
    }

    /// The same, of which the access log is told.
    pub(crate) fn recorded(mut self, record: Option<Box<AccessRecord>>) -> Self {
        self.record = record;
        self
    }

    /// The same, which is ended at the deadline, if there is one, or when the client does not take
    /// it: by whoever drives it.
    pub(crate) fn watched(mut self, deadline: Option<Instant>) -> Self {
        self.watch = AnswerWatch::current();
        if let Some(watch) = &self.watch {
            watch.begin(deadline);
        }
        self
    }

    /// The next piece, however large.
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.rest)))));
        }
        match &mut self.source {
            BodySource::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            BodySource::Upstream(body) => Pin::new(body).poll_frame(cx),
        }
    }

    /// A piece as it is handed out: where it is measured whether the client takes anything, a large
    /// one goes in parts.
    fn part_of(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        if !self.watch.as_ref().is_some_and(|watch| watch.is_by_piece()) {
            return frame;
        }
        frame.map_data(|mut data| {
            self.rest = data.split_off(data.len().min(ANSWER_PIECE_MAX));
            data
        })
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.end();
        }
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
        let polled = self.poll_source(cx).map_ok(|frame| self.part_of(frame));
        if let Some(watch) = &self.watch {
            match polled {
                Poll::Ready(_) => watch.passed(),
                Poll::Pending => watch.awaits_upstream(),
            }
        }
        if let (Poll::Ready(Some(Ok(frame))), Some(record)) = (&polled, &mut self.record) {
            record.sent(frame.data_ref().map_or(0, Bytes::len));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        let is_end = match &self.source {
            BodySource::Text(text) => text.is_none(),
            BodySource::Upstream(body) => body.is_end_stream(),
        };
        is_end && self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = match &self.source {
            BodySource::Text(text) => SizeHint::with_exact(wide(text.as_ref().map_or(0, Bytes::len))),
            BodySource::Upstream(body) => body.size_hint(),
        };
        let rest = wide(self.rest.len());
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
