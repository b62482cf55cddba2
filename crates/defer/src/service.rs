//! What takes requests in, and what sends them: both sides of a queue that may not be open yet.
//!
//! A server makes it at its start and opens a queue once its rules defer something. Whoever answers
//! callers then hands requests to [`DeferService::take_in`], and a worker sends them.
//!
//! Invariant: bodies that are being read for it take no more bytes than the queue may have.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tollgate_core::Time;

use crate::config::DeferConfig;
use crate::error::DeferError;
use crate::handle::DeferHandle;
use crate::id::DeferredId;
use crate::line_index::LineIndex;
use crate::queue::{DeferQueue, QueueChange, QueueReply};
use crate::request::{DeferredRequest, DeferredStatus};

/// Both sides of a queue that may not be open yet.
#[derive(Debug, Default)]
pub struct DeferService {
    config: DeferConfig,
    handle: OnceLock<DeferHandle>,
    index: Arc<LineIndex>,
    reading: Arc<AtomicUsize>,
    looking: AtomicUsize,
}

/// So many may ask at a time what became of their requests: guessing ids must not hold up those who
/// take requests in.
const LOOKING_MAX: usize = 64;

/// Why a request is not taken in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeInError {
    /// There is no queue.
    #[error("no queue is open; see the log of the server")]
    Closed,
    /// There is no room.
    #[error("too many requests wait already")]
    Full,
    /// Its body is too long.
    #[error("its body has more than {max} bytes")]
    Body {
        /// The longest that is kept.
        max: usize,
    },
    /// The queue cannot be written.
    #[error("the queue cannot be written at the moment")]
    Store(#[source] DeferError),
}

/// Bytes that a body may take while it is read.
#[derive(Debug)]
pub struct BodyReservation {
    reading: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        self.reading.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl DeferService {
    /// Without a queue as yet.
    pub fn new(config: DeferConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// The bounds.
    pub const fn config(&self) -> &DeferConfig {
        &self.config
    }

    /// Uses this queue from now on; only the first one counts.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub fn open(&self, queue: impl DeferQueue + 'static) -> Result<(), DeferError> {
        if self.handle.get().is_none() {
            // A second one would be a mistake of the wiring, and the first is as good.
            drop(self.handle.set(DeferHandle::start(queue)?));
        }
        Ok(())
    }

    /// The queue, if it is open.
    pub fn handle(&self) -> Option<&DeferHandle> {
        self.handle.get()
    }

    /// Which lines have somebody waiting.
    pub const fn index(&self) -> &Arc<LineIndex> {
        &self.index
    }

    /// Room for a body of so many bytes, or of the most there may be, while it is read.
    ///
    /// # Errors
    /// If it is too long, or too many are being read.
    pub fn reserve(&self, bytes: Option<usize>) -> Result<BodyReservation, TakeInError> {
        let (max, bytes) = (self.config.max_body, bytes.unwrap_or(self.config.max_body));
        if bytes > max {
            return Err(TakeInError::Body { max });
        }
        let before = self.reading.fetch_add(bytes, Ordering::Relaxed);
        let reserved = BodyReservation { reading: Arc::clone(&self.reading), bytes };
        match before.saturating_add(bytes) > self.config.max_bytes {
            true => Err(TakeInError::Full),
            false => Ok(reserved),
        }
    }

    /// Where a request is; none if it is not known, or no longer.
    ///
    /// # Errors
    /// If the queue cannot be read, or too many ask.
    pub async fn status(&self, id: DeferredId) -> Result<Option<DeferredStatus>, DeferError> {
        /// One of those who ask.
        struct StatusLook<'a>(&'a AtomicUsize);
        impl Drop for StatusLook<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let Some(handle) = self.handle() else { return Ok(None) };
        let before = self.looking.fetch_add(1, Ordering::Relaxed);
        let _look = StatusLook(&self.looking);
        match before < LOOKING_MAX {
            true => handle.status(id).await,
            false => Err(DeferError::Busy),
        }
    }

    /// Takes a request in; it is kept when this returns.
    ///
    /// # Errors
    /// If there is no room for it, or the queue cannot be written.
    pub async fn take_in(&self, request: DeferredRequest, now: Time) -> Result<(), TakeInError> {
        let handle = self.handle().ok_or(TakeInError::Closed)?;
        let line = request.key.clone();
        let change = QueueChange::Accept(Box::new(request));
        match handle.change(change, now).await.map_err(TakeInError::Store)? {
            QueueReply::Done => {
                self.index.taken_in(&line);
                Ok(())
            }
            QueueReply::Full | QueueReply::NotOurs => Err(TakeInError::Full),
        }
    }
}
