//! The thread that a queue lives on, and how it is asked.
//!
//! Whoever answers callers must not wait for a disk, so a thread does. Changes that come while it
//! writes are written together, so that many callers share an fsync.
//!
//! Invariant: a caller that is told yes is told after the write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::{Notify, oneshot};
use tollgate_core::Time;

use crate::error::DeferError;
use crate::id::DeferredId;
use crate::queue::{DeferQueue, QueueChange, QueueReply, QueueSize, TakenRequests};
use crate::request::{DeferredEnd, DeferredStatus};

/// Callers that may wait for the thread; more are told that it is busy.
const JOBS_MAX: usize = 4_096;
/// Changes that are written together.
const BATCH_MAX: usize = 256;

/// What the thread is asked.
enum QueueJob {
    Change(QueueChange, Time, oneshot::Sender<Result<QueueReply, DeferError>>),
    Take(Time, oneshot::Sender<Result<TakenRequests, DeferError>>),
    GiveUp(oneshot::Sender<Result<(), DeferError>>),
    Status(DeferredId, oneshot::Sender<Result<Option<DeferredStatus>, DeferError>>),
}

/// What happened to requests of this process, since its start.
#[derive(Debug, Default)]
pub struct DeferCounters {
    /// Taken in.
    pub accepted: AtomicU64,
    /// Not taken in, because the queue was full or could not be written.
    pub rejected: AtomicU64,
    /// Attempts that failed and are repeated.
    pub retried: AtomicU64,
    /// Answered by the upstream.
    pub done: AtomicU64,
    /// Given up.
    pub failed: AtomicU64,
    /// Not sent in time.
    pub expired: AtomicU64,
    waiting: AtomicU64,
    waiting_bytes: AtomicU64,
}

impl DeferCounters {
    /// How much waits, when it was last looked at.
    pub fn size(&self) -> QueueSize {
        let (requests, bytes) = (&self.waiting, &self.waiting_bytes);
        QueueSize { requests: requests.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
    }

    fn set_size(&self, size: QueueSize) {
        self.waiting.store(size.requests, Ordering::Relaxed);
        self.waiting_bytes.store(size.bytes, Ordering::Relaxed);
    }

    fn count(&self, change: &QueueChange, reply: QueueReply) {
        let counter = match (change, reply) {
            (QueueChange::Accept(_), QueueReply::Done) => &self.accepted,
            (QueueChange::Accept(_), QueueReply::Full | QueueReply::NotOurs) => &self.rejected,
            (QueueChange::Retry(..), QueueReply::Done) => &self.retried,
            (QueueChange::Finish(_, _, end), QueueReply::Done) => match **end {
                DeferredEnd::Done(_) => &self.done,
                DeferredEnd::Failed { .. } => &self.failed,
                DeferredEnd::Expired => &self.expired,
            },
            (QueueChange::Start(_) | QueueChange::Retry(..) | QueueChange::Finish(..), _) => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Asks a queue. Clones ask the same; the thread ends with the last of them.
#[derive(Debug, Clone)]
pub struct DeferHandle {
    jobs: SyncSender<QueueJob>,
    counters: Arc<DeferCounters>,
    accepted: Arc<Notify>,
}

impl DeferHandle {
    /// Starts the thread.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(queue: impl DeferQueue + 'static) -> Result<Self, DeferError> {
        let (jobs, waiting) = sync_channel(JOBS_MAX);
        let (counters, accepted) = (Arc::<DeferCounters>::default(), Arc::new(Notify::new()));
        let mut thread = QueueThread {
            queue: Box::new(queue),
            counters: Arc::clone(&counters),
            accepted: Arc::clone(&accepted),
            is_well: true,
        };
        let builder = std::thread::Builder::new().name("tollgate-defer".into());
        builder.spawn(move || thread.run(&waiting)).map_err(DeferError::store)?;
        Ok(Self { jobs, counters, accepted })
    }

    async fn ask<T>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, DeferError>>) -> QueueJob,
    ) -> Result<T, DeferError> {
        let (answer, answered) = oneshot::channel();
        self.jobs.try_send(job(answer)).map_err(|_| DeferError::Busy)?;
        answered.await.unwrap_or(Err(DeferError::Busy))
    }

    /// Makes a change; it is durable when this returns.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn change(&self, change: QueueChange, now: Time) -> Result<QueueReply, DeferError> {
        let is_accept = matches!(change, QueueChange::Accept(_));
        let changed = self.ask(|answer| QueueJob::Change(change, now, answer)).await;
        if changed.is_err() && is_accept {
            self.counters.rejected.fetch_add(1, Ordering::Relaxed);
        }
        changed
    }

    /// What this process is to send from now on.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn take(&self, now: Time) -> Result<TakenRequests, DeferError> {
        self.ask(|answer| QueueJob::Take(now, answer)).await
    }

    /// This process sends no more, and another one may begin.
    ///
    /// # Errors
    /// If nobody could be told.
    pub async fn give_up(&self) -> Result<(), DeferError> {
        self.ask(QueueJob::GiveUp).await
    }

    /// Where a request is; none if it is not known, or no longer.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn status(&self, id: DeferredId) -> Result<Option<DeferredStatus>, DeferError> {
        self.ask(|answer| QueueJob::Status(id, answer)).await
    }

    /// Waits until this process has taken a request in.
    pub async fn accepted(&self) {
        self.accepted.notified().await;
    }

    /// What happened since the start.
    pub fn counters(&self) -> &DeferCounters {
        &self.counters
    }
}

struct QueueThread {
    queue: Box<dyn DeferQueue>,
    counters: Arc<DeferCounters>,
    accepted: Arc<Notify>,
    is_well: bool,
}

/// A change that somebody waits for.
type WaitingChange = (QueueChange, oneshot::Sender<Result<QueueReply, DeferError>>);

impl QueueThread {
    fn run(&mut self, jobs: &Receiver<QueueJob>) {
        while let Ok(first) = jobs.recv() {
            let mut changes: Vec<WaitingChange> = Vec::new();
            let mut now = Time::EPOCH;
            let mut others = Vec::new();
            for job in std::iter::once(first).chain(jobs.try_iter()).take(BATCH_MAX) {
                match job {
                    QueueJob::Change(change, at, answer) => {
                        now = now.max(at);
                        changes.push((change, answer));
                    }
                    other @ (QueueJob::Take(..) | QueueJob::GiveUp(_) | QueueJob::Status(..)) => {
                        others.push(other)
                    }
                }
            }
            self.change(changes, now);
            for job in others {
                self.look(job);
            }
        }
    }

    fn change(&mut self, changes: Vec<WaitingChange>, now: Time) {
        if changes.is_empty() {
            return;
        }
        let (changes, answers): (Vec<QueueChange>, Vec<_>) = changes.into_iter().unzip();
        let applied = self.queue.apply(&changes, now);
        self.note(applied.as_ref().err());
        // Nobody needs an answer that nobody waits for any more.
        match applied {
            Ok(replies) => {
                for ((change, reply), answer) in changes.iter().zip(replies).zip(answers) {
                    self.counters.count(change, reply);
                    drop(answer.send(Ok(reply)));
                }
                if changes.iter().any(|change| matches!(change, QueueChange::Accept(_))) {
                    self.accepted.notify_one();
                }
            }
            Err(error) => {
                let text = error.to_string();
                for answer in answers {
                    drop(answer.send(Err(DeferError::store(text.clone()))));
                }
            }
        }
    }

    fn look(&mut self, job: QueueJob) {
        match job {
            QueueJob::Take(now, answer) => {
                let taken = self.queue.take(now);
                self.note(taken.as_ref().err());
                if let Ok(size) = self.queue.size() {
                    self.counters.set_size(size);
                }
                drop(answer.send(taken));
            }
            QueueJob::GiveUp(answer) => drop(answer.send(self.queue.give_up())),
            QueueJob::Status(id, answer) => drop(answer.send(self.queue.status(id))),
            QueueJob::Change(..) => {}
        }
    }

    /// Tells when the queue stops working, and when it works again.
    fn note(&mut self, error: Option<&DeferError>) {
        match error {
            Some(error) if self.is_well => {
                tracing::warn!(%error, "requests are denied instead of deferred until it works again");
            }
            None if !self.is_well => tracing::info!("requests are deferred again"),
            Some(_) | None => {}
        }
        self.is_well = error.is_none();
    }
}

#[cfg(test)]
mod tests;
