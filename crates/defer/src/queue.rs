//! What every queue promises.

use tollgate_core::Time;

use crate::error::DeferError;
use crate::id::DeferredId;
use crate::request::{DeferredEnd, DeferredRequest, DeferredStatus, SendProgress};

/// Something that happens to a request in the queue.
#[derive(Debug, Clone)]
pub enum QueueChange {
    /// It is taken in.
    Accept(Box<DeferredRequest>),
    /// It is about to be sent.
    Start(DeferredId),
    /// An attempt failed, and it waits again.
    Retry(DeferredId, SendProgress),
    /// It is done with, after so many attempts that failed.
    Finish(DeferredId, u32, Box<DeferredEnd>),
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueReply {
    /// It is so, and stays so after a crash.
    Done,
    /// The queue is full, and the request was not taken in.
    Full,
    /// The request is not, or no longer, this process's to send.
    NotOurs,
}

/// What is to be sent.
#[derive(Debug, Default)]
pub struct TakenRequests {
    /// Requests that this process is to send from now on, in their order.
    pub requests: Vec<(DeferredRequest, SendProgress)>,
    /// Whether those that it was given before are still its own.
    pub is_ours: bool,
}

/// How much waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueSize {
    /// Requests that wait or are on their way.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A durable queue of requests. It blocks, and so lives on a thread of its own, see
/// [`crate::DeferHandle`].
pub trait DeferQueue: Send {
    /// Makes all changes in one durable step, as of `now` by the calendar; a reply for each. If
    /// this fails, none of them was made as far as is known.
    ///
    /// # Errors
    /// If it cannot be written.
    fn apply(&mut self, changes: &[QueueChange], now: Time) -> Result<Vec<QueueReply>, DeferError>;

    /// What this process is to send from now on, of what it was not given before.
    ///
    /// # Errors
    /// If it cannot be read.
    fn take(&mut self, now: Time) -> Result<TakenRequests, DeferError>;

    /// This process sends no more: whoever else may send need not wait until it was not heard of for
    /// a while. Where nobody else does, there is nothing to give up.
    ///
    /// # Errors
    /// If nobody could be told.
    fn give_up(&mut self) -> Result<(), DeferError> {
        Ok(())
    }

    /// Where a request is; none if it is not known, or no longer.
    ///
    /// # Errors
    /// If it cannot be read.
    fn status(&mut self, id: DeferredId) -> Result<Option<DeferredStatus>, DeferError>;

    /// How much waits.
    ///
    /// # Errors
    /// If it cannot be read.
    fn size(&mut self) -> Result<QueueSize, DeferError>;
}
