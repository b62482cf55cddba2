//! The body of a request to one of tonic's services, which is read as it arrives.
//!
//! The connection has one end, [`RequestBodySender`], and tonic the other, [`RequestBody`].
//!
//! Invariant: the caller's window opens only for what tonic has taken, so that no more than a window
//! waits here.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hyper::body::{Body, Bytes, Frame};
use parking_lot::Mutex;

use crate::body::BodyError;

/// What has arrived and was not taken yet.
#[derive(Debug, Default)]
struct BodyQueue {
    pieces: VecDeque<Bytes>,
    end: BodyEnd,
    /// Bytes that were taken since the connection last asked.
    taken: usize,
    reader: Option<Waker>,
    connection: Option<Waker>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum BodyEnd {
    /// There is more to come.
    #[default]
    Open,
    Whole,
    /// The call is over, and its body is not whole.
    Broken,
}

/// The end of the connection.
#[derive(Debug)]
pub(super) struct RequestBodySender(Arc<Mutex<BodyQueue>>);

/// The end of tonic.
#[derive(Debug)]
pub(super) struct RequestBody(Arc<Mutex<BodyQueue>>);

/// Both ends of a body, of which nothing has arrived.
pub(super) fn request_body() -> (RequestBodySender, RequestBody) {
    let queue = Arc::new(Mutex::new(BodyQueue::default()));
    (RequestBodySender(Arc::clone(&queue)), RequestBody(queue))
}

impl RequestBodySender {
    /// Some of it has arrived, perhaps the end.
    pub(super) fn push(&self, data: &[u8], is_end: bool) {
        let mut queue = self.0.lock();
        if !data.is_empty() {
            queue.pieces.push_back(Bytes::copy_from_slice(data));
        }
        if is_end {
            queue.end = BodyEnd::Whole;
        }
        if let Some(reader) = queue.reader.take() {
            reader.wake();
        }
    }

    /// How many bytes were taken since this was last asked. Whoever asks is woken up when there are more.
    pub(super) fn taken(&self, cx: &Context<'_>) -> usize {
        let mut queue = self.0.lock();
        if !queue.connection.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            queue.connection = Some(cx.waker().clone());
        }
        std::mem::take(&mut queue.taken)
    }
}

impl Drop for RequestBodySender {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        if queue.end == BodyEnd::Open {
            queue.end = BodyEnd::Broken;
        }
        queue.connection = None;
        if let Some(reader) = queue.reader.take() {
            reader.wake();
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut queue = self.0.lock();
        if let Some(piece) = queue.pieces.pop_front() {
            queue.taken += piece.len();
            if let Some(connection) = &queue.connection {
                connection.wake_by_ref();
            }
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match queue.end {
            BodyEnd::Whole => Poll::Ready(None),
            BodyEnd::Broken => Poll::Ready(Some(Err(BodyError::Broken))),
            BodyEnd::Open => {
                queue.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let queue = self.0.lock();
        queue.pieces.is_empty() && queue.end == BodyEnd::Whole
    }
}
