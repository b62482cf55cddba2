//! The body of an answer on its way to the client.
//!
//! Piece by piece, as fast as the client takes them. When it is whole, the connection that it came
//! through goes back into the pool.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use tollgate_http::MeteredBody;
use tollgate_http::admission::meter::ResponseMeter;

use crate::forward::Lease;
use crate::idle_timer::IdleTimer;

/// The body of an answer on its way to the client.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// One of ours.
    Text(Option<Bytes>),
    Upstream(MeteredBody<UpstreamBody>),
}

/// What an upstream answers.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    inner: Incoming,
    timer: IdleTimer,
    /// The connection that it comes through; another request can have it afterwards.
    lease: Option<Lease>,
}

impl ResponseBody {
    pub(crate) fn text(bytes: Vec<u8>) -> Self {
        Self::Text(Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty()))
    }

    /// What an upstream answers, shown to whoever counts it.
    pub(crate) fn upstream(
        inner: Incoming,
        lease: Lease,
        idle: Duration,
        meter: Option<ResponseMeter>,
    ) -> Self {
        let mut body = UpstreamBody { inner, timer: IdleTimer::new(idle), lease: Some(lease) };
        body.end_lease();
        Self::Upstream(MeteredBody::new(body, meter))
    }
}

impl UpstreamBody {
    /// Gives the connection back if the answer is whole.
    fn end_lease(&mut self) {
        if self.inner.is_end_stream()
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
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.timer.progress();
                self.end_lease();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.lease = None;
                Poll::Ready(Some(Err(io::Error::other(error))))
            }
            Poll::Ready(None) => {
                if let Some(lease) = self.lease.take() {
                    lease.give_back();
                }
                Poll::Ready(None)
            }
            Poll::Pending => self.timer.poll(cx).map(|()| Some(Err(io::ErrorKind::TimedOut.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Upstream(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_none(),
            Self::Upstream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| u64::try_from(text.len()).unwrap_or(0)))
            }
            Self::Upstream(body) => body.size_hint(),
        }
    }
}
