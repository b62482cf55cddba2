//! The answer to a batch, part by part.
//!
//! `decide` makes one for a long answer; hyper or the short way takes its parts
//! and writes them.
//!
//! Invariants: more is decided only when a part is taken, so that nobody has us
//! hold megabytes of replies: one part waits and one is being made. If the caller
//! goes away, the rest is not decided. Whenever deciding gives way, so does the body:
//! whoever takes a part asks for the next one at once, and would go on with it.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;

use super::error::V1Error;

/// The body of a response.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    Whole(Vec<u8>),
    /// More is made as it is read.
    Parts(BatchParts),
}

type Deciding = Pin<Box<dyn Future<Output = Result<Vec<u8>, V1Error>> + Send>>;

/// The answer to a batch, of which more is made whenever a part is taken.
pub(crate) struct BatchParts {
    /// A part to hand out before more is decided.
    ready: Option<Vec<u8>>,
    /// Makes the parts; none when it has made the last.
    deciding: Option<Deciding>,
    made: mpsc::Receiver<Vec<u8>>,
    last: Option<Vec<u8>>,
}

impl fmt::Debug for BatchParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchParts").field("is_done", &self.deciding.is_none()).finish_non_exhaustive()
    }
}

impl BatchParts {
    /// The parts that `decide` makes: it is handed where to send them, and returns the last.
    pub(super) fn new<F>(decide: impl FnOnce(mpsc::Sender<Vec<u8>>) -> F) -> Self
    where
        F: Future<Output = Result<Vec<u8>, V1Error>> + Send + 'static,
    {
        let (sender, made) = mpsc::channel(1);
        Self { ready: None, deciding: Some(Box::pin(decide(sender))), made, last: None }
    }

    /// Makes the first part; it alone if it is also the last.
    pub(super) async fn begin(mut self) -> Result<ResponseBody, V1Error> {
        let first = self.next().await.unwrap_or_else(|| Ok(Vec::new()))?;
        if self.deciding.is_none() && self.last.is_none() {
            return Ok(ResponseBody::Whole(first));
        }
        self.ready = Some(first);
        Ok(ResponseBody::Parts(self))
    }

    /// The next part; nothing after the last.
    pub(crate) async fn next(&mut self) -> Option<Result<Vec<u8>, V1Error>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, V1Error>>> {
        if let Some(part) = self.ready.take() {
            return Poll::Ready(Some(Ok(part)));
        }
        if let Some(deciding) = &mut self.deciding {
            let Poll::Ready(last) = deciding.as_mut().poll(cx) else {
                // It gives way and will be woken, or waits for room, of which this makes some.
                if let Poll::Ready(part) = self.made.poll_recv(cx) {
                    self.ready = part;
                }
                return Poll::Pending;
            };
            self.deciding = None;
            match last {
                Ok(last) => self.last = Some(last),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        match self.made.poll_recv(cx) {
            Poll::Ready(Some(part)) => Poll::Ready(Some(Ok(part))),
            Poll::Ready(None) => Poll::Ready(self.last.take().map(Ok)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Body for BatchParts {
    type Data = Bytes;
    type Error = V1Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, V1Error>>> {
        self.poll_next(cx).map(|part| part.map(|part| part.map(|part| Frame::data(part.into()))))
    }
}
