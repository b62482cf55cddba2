//! Takes in a body, within bounds of size, time and memory.
//!
//! Used by gRPC and by HTTP alike, before anything is decoded.
//!
//! Invariants: a body that arrives in one piece, as nearly all do, is neither
//! copied nor timed; what all callers together have us hold of unfinished
//! bodies stays below [`BODIES_MAX`].

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::body::{Body, Bytes, Frame};

use crate::bounds::{BODIES_MAX, BODY_WAIT_MAX};
use crate::listen::at_once;

/// Why a body was not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// More bytes than allowed.
    #[error("the message is too large; send at most {max} bytes")]
    TooLarge {
        /// How many are allowed.
        max: usize,
    },
    /// It took too long to arrive.
    #[error("the message did not arrive within {} s; send it faster", BODY_WAIT_MAX.as_secs())]
    TooSlow,
    /// It ended before its end, or was not the protocol.
    #[error("the message ended before its end; send it again")]
    Broken,
    /// Too many others are sending large bodies slowly.
    #[error("too many large messages are arriving at once; send it again later")]
    Crowded,
}

/// Bytes of unfinished bodies that are held now.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Takes in a body of at most `max` bytes.
pub(crate) async fn take<B>(body: B, max: usize) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > u64::try_from(max).unwrap_or(u64::MAX) {
        return Err(BodyError::TooLarge { max });
    }
    let mut taking = pin!(take_all(body, max));
    match at_once(taking.as_mut()).await {
        Some(taken) => taken,
        // Only now is a timer worth its price.
        None => tokio::time::timeout(BODY_WAIT_MAX, taking).await.unwrap_or(Err(BodyError::TooSlow)),
    }
}

async fn take_all<B>(mut body: B, max: usize) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut held = Held(0);
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
        held.more(piece.len())?;
        if is_first {
            whole = piece;
        } else {
            gathered.extend_from_slice(&std::mem::take(&mut whole));
            gathered.extend_from_slice(&piece);
        }
    }
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
            // Trailers are nothing to us.
            Some(Ok(frame)) => {
                if let Ok(data) = Frame::into_data(frame) {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Bytes that are accounted for in [`HELD`].
#[derive(Debug, Default)]
pub(crate) struct Held(usize);

impl Held {
    /// Accounts for more, unless that is too much.
    pub(crate) fn more(&mut self, bytes: usize) -> Result<(), BodyError> {
        self.0 += bytes;
        if HELD.fetch_add(bytes, Ordering::Relaxed) + bytes > BODIES_MAX {
            return Err(BodyError::Crowded);
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Ordering::Relaxed);
    }
}
