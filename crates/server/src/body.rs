//! Receives a body, within bounds of size, time and memory.
//!
//! gRPC and HTTP call it before anything is decoded.
//!
//! Invariants: a body that arrives in one piece, as nearly all do, is neither
//! copied nor timed; unfinished bodies of all callers together take no more than
//! [`BODIES_MAX`].

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::poll_immediate;
use hyper::body::{Body, Bytes, Frame};

use crate::bounds::{BODIES_MAX, BODY_WAIT_MAX, RESPONSES_MAX};

/// Why a body was not received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    /// More bytes than allowed.
    #[error("the message is too large; send at most {max} bytes")]
    TooLarge {
        /// How many are allowed.
        max: usize,
    },
    /// It took too long.
    #[error("the message did not arrive within {} s; send it faster", BODY_WAIT_MAX.as_secs())]
    TooSlow,
    /// The connection failed, or the caller broke the protocol.
    #[error("the message ended early; send it again")]
    Broken,
    /// Too many others are sending large bodies slowly.
    #[error("too many large messages are arriving at once; send it again later")]
    Crowded,
    /// Too many others do not read large answers.
    #[error("too many large answers wait to be read; ask again later")]
    Unread,
}

/// Unfinished bodies of all callers.
pub(crate) static UNFINISHED_BODIES: ByteBudget = ByteBudget::new(BODIES_MAX, BodyError::Crowded);

/// Large responses to callers of the limiter that wait to be read.
pub(crate) static LARGE_RESPONSES: ByteBudget = ByteBudget::new(RESPONSES_MAX, BodyError::Unread);

/// The same for admin pages, so that callers cannot keep operators from theirs.
pub(crate) static LARGE_PAGES: ByteBudget = ByteBudget::new(RESPONSES_MAX, BodyError::Unread);

/// A body that has arrived.
#[derive(Debug)]
pub(crate) struct ReceivedBody {
    pub(crate) bytes: Bytes,
    /// It was not there when its head was, so that the time has to be read again.
    pub(crate) has_waited: bool,
}

/// Receives a body of at most `max` bytes.
pub(crate) async fn receive<B>(body: B, max: usize) -> Result<ReceivedBody, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > u64::try_from(max).unwrap_or(u64::MAX) {
        return Err(BodyError::TooLarge { max });
    }
    let mut receiving = pin!(receive_all(body, max));
    if let Some(received) = poll_immediate(receiving.as_mut()).await {
        return Ok(ReceivedBody { bytes: received?, has_waited: false });
    }
    // A timer costs something, so that only those who wait have one.
    let received = tokio::time::timeout(BODY_WAIT_MAX, receiving).await.unwrap_or(Err(BodyError::TooSlow));
    Ok(ReceivedBody { bytes: received?, has_waited: true })
}

async fn receive_all<B>(mut body: B, max: usize) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut held = UNFINISHED_BODIES.none();
    let mut whole = Bytes::new();
    let mut gathered = Vec::new();
    while let Some(piece) = next_data(&mut body).await? {
        if whole.len().max(gathered.len()) + piece.len() > max {
            return Err(BodyError::TooLarge { max });
        }
        let is_first = whole.is_empty() && gathered.is_empty();
        if is_first && body.is_end_stream() {
            return Ok(piece);
        }
        held.add(piece.len())?;
        if is_first {
            whole = piece;
        } else {
            gathered.extend_from_slice(&std::mem::take(&mut whole));
            gathered.extend_from_slice(&piece);
        }
    }
    // It may be held until a long answer is read.
    gathered.shrink_to_fit();
    Ok(if gathered.is_empty() { whole } else { gathered.into() })
}

async fn next_data<B>(body: &mut B) -> Result<Option<Bytes>, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    loop {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            None => return Ok(None),
            Some(Err(_)) => return Err(BodyError::Broken),
            // Trailers are ignored.
            Some(Ok(frame)) => {
                if let Ok(data) = Frame::into_data(frame) {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// How many bytes all callers together may hold of something.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    used: AtomicUsize,
    max: usize,
    /// What is said beyond it.
    error: BodyError,
}

/// Bytes of one caller that count against a budget until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    budget: &'static ByteBudget,
    bytes: usize,
}

impl ByteBudget {
    const fn new(max: usize, error: BodyError) -> Self {
        Self { used: AtomicUsize::new(0), max, error }
    }

    /// Nothing as yet.
    pub(crate) const fn none(&'static self) -> HeldBytes {
        HeldBytes { budget: self, bytes: 0 }
    }

    /// Holds bytes that are there already, be there room or not.
    pub(crate) fn hold(&'static self, bytes: usize) -> HeldBytes {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        HeldBytes { budget: self, bytes }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.max
    }
}

impl HeldBytes {
    /// Holds more, unless all callers together hold too much.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), BodyError> {
        self.bytes += bytes;
        let used = self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        // One that is alone may be larger than the budget.
        if used > 0 && used + bytes > self.budget.max { Err(self.budget.error) } else { Ok(()) }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
