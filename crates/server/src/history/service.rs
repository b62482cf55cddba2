//! Opens the history, writes what was counted, and answers queries.
//!
//! A timer calls [`HistoryService::write`] on a thread that may block; queries go through
//! [`HistoryService::query`], a few at a time, on such threads, too. A location that
//! cannot be used is tried again with every write, and flushes wait meanwhile.
//!
//! Invariants: flushes are written one after the other, in their order, each until it is
//! written. A query writes nothing: it reads the tables, the flushes that wait, and what
//! was counted since the last flush, each exactly once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use tokio::sync::Semaphore;
use tollgate_core::Time;
use tollgate_history::query::{HistoryReader, RuleFilter};
use tollgate_history::{Bounds, Error, History, retry_stale};
use tollgate_settings::KeyNames;

use super::decision_counter::DecisionCounter;
use super::flush_queue::FlushQueue;
use super::location::HistoryLocation;
use super::status::HistoryServiceStatus;

/// Queries at a time: each may take a core for a moment.
const QUERIES_MAX: usize = 4;
/// How long a query waits for its turn.
const TURN_MAX: Duration = Duration::from_secs(5);
/// How long a query may take; on the largest history it takes a fraction.
const QUERY_MAX: Duration = Duration::from_secs(10);

/// Why a query has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryQueryError {
    /// Nothing is counted.
    #[error("history is turned off")]
    Off,
    /// The location cannot be used.
    #[error("history is not kept at the moment: {reason}")]
    Closed {
        /// Why not, and what to do.
        reason: String,
    },
    /// Too many queries wait.
    #[error("too many questions at once")]
    Busy,
    /// It takes too long.
    #[error("the answer takes too long")]
    Slow,
    /// The tables panicked.
    #[error("the history could not be read; the log has the reason")]
    Broken,
    /// The history says why.
    #[error("{}", .0.full())]
    History(#[from] Error),
}

/// What a write touches.
#[derive(Default)]
struct WriterState {
    queue: FlushQueue,
    written: u64,
    failures: u64,
    /// Requests refused because they were ahead of the store's clock.
    future_requests: u64,
    /// Why the last write failed; none if it did not.
    failure: Option<String>,
}

/// The history of this process.
pub struct HistoryService {
    counter: Arc<DecisionCounter>,
    location: HistoryLocation,
    bounds: Bounds,
    keys: KeyNames,
    /// Locked after `writer`, if both are. None while the location cannot be used.
    history: RwLock<Option<Box<dyn History>>>,
    writer: Mutex<WriterState>,
    queries: Arc<Semaphore>,
}

impl fmt::Debug for HistoryService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = format_args!("{}", self.location);
        f.debug_struct("HistoryService").field("location", &location).finish_non_exhaustive()
    }
}

impl HistoryService {
    /// A history as settings say; opens nothing yet.
    pub fn new(location: HistoryLocation, settings: &tollgate_settings::HistorySettings) -> Self {
        Self {
            counter: Arc::new(DecisionCounter::new(settings)),
            location,
            bounds: settings.bounds,
            keys: settings.keys,
            history: RwLock::new(None),
            writer: Mutex::default(),
            queries: Arc::new(Semaphore::new(QUERIES_MAX)),
        }
    }

    /// What counts decisions.
    pub const fn counter(&self) -> &Arc<DecisionCounter> {
        &self.counter
    }

    /// Where it is kept.
    pub(crate) const fn location(&self) -> &HistoryLocation {
        &self.location
    }

    /// Opens the location, and logs where history is kept or why it is not.
    pub fn open(&self) {
        let mut writer = self.writer.lock();
        match self.open_history() {
            Ok(()) => tracing::info!("history is kept in {}", self.location),
            Err(error) => self.failed(&mut writer, &error),
        }
    }

    /// Writes what was counted since the last time. Not for a thread that answers
    /// callers: it waits for the disk or for Redis.
    pub fn write(&self, now: Time) {
        let mut writer = self.writer.lock();
        if writer.queue.push(self.counter.flush(now)) {
            let lost = writer.queue.lost();
            tracing::warn!(
                requests = lost.requests,
                "history lost what it could not write in time; this many requests are missing in it"
            );
        }
        match self.write_queue(&mut writer, now) {
            Ok(()) => {
                if writer.failure.take().is_some() {
                    tracing::info!("history is kept again in {}", self.location);
                }
            }
            Err(error) => self.failed(&mut writer, &error),
        }
    }

    /// Writes for the last time, and says what is lost if that fails.
    pub fn finish(&self, now: Time) {
        self.write(now);
        let writer = self.writer.lock();
        let requests: u64 = writer.queue.iter().map(|flush| flush.counts.requests()).sum();
        if let (Some(failure), 1..) = (&writer.failure, requests) {
            tracing::warn!(requests, "history loses what could not be written: {failure}");
        }
    }

    /// Answers a query from what was counted until a moment ago.
    ///
    /// # Errors
    /// If there is no result in time, or none at all.
    pub async fn query<R: Send + 'static>(
        self: &Arc<Self>,
        now: Time,
        query: impl Fn(&HistoryReader<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, HistoryQueryError> {
        let turn = tokio::time::timeout(TURN_MAX, Arc::clone(&self.queries).acquire_owned());
        let Ok(Ok(turn)) = turn.await else { return Err(HistoryQueryError::Busy) };
        let own = Arc::clone(self);
        let running = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            retry_stale(|| own.read(now, &query))
        });
        match tokio::time::timeout(QUERY_MAX, running).await {
            Ok(Ok(Ok(Some(result)))) => Ok(result),
            Ok(Ok(Ok(None))) => Err(HistoryQueryError::Closed { reason: self.why_closed() }),
            Ok(Ok(Err(error))) => Err(error.into()),
            Ok(Err(_)) => Err(HistoryQueryError::Broken),
            Err(_) => Err(HistoryQueryError::Slow),
        }
    }

    /// The result of a query; none if the history is not open.
    fn read<R>(
        &self,
        now: Time,
        query: impl Fn(&HistoryReader<'_>) -> Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        // Locked before the history, as a write does, so that a flush is in the queue or in the tables.
        let writer = self.writer.lock();
        let mut history = self.history.write();
        let Some(open) = history.as_mut() else { return Ok(None) };
        open.refresh()?;
        let history = RwLockWriteGuard::downgrade(history);
        let Some(open) = history.as_ref() else { return Ok(None) };
        let mut reader = open.reader()?;
        for flush in writer.queue.iter() {
            if !open.is_written(flush.id)? {
                reader.add_unwritten(flush);
            }
        }
        reader.add_unwritten(&self.counter.peek(now));
        drop(writer);
        query(&reader).map(Some)
    }

    /// Erases a key of the rules that the filter takes; returns how many series it had. What
    /// was counted until now is written before, so that it is erased, too.
    ///
    /// # Errors
    /// If the history cannot be written.
    pub async fn forget_key(
        self: &Arc<Self>,
        key: &str,
        filter: RuleFilter,
        now: Time,
    ) -> Result<usize, HistoryQueryError> {
        let (own, key) = (Arc::clone(self), self.counter.key_name(key));
        let running = tokio::task::spawn_blocking(move || {
            own.write(now);
            let has_failed = own.writer.lock().failure.is_some();
            let mut history = own.history.write();
            match history.as_mut().filter(|_| !has_failed) {
                Some(open) => open.forget(&|label| filter.takes_key(label, &key)).map(Some),
                None => Ok(None),
            }
        });
        match running.await {
            Ok(Ok(Some(count))) => Ok(count),
            Ok(Ok(None)) => Err(HistoryQueryError::Closed { reason: self.why_closed() }),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(HistoryQueryError::Broken),
        }
    }

    /// Whether it can be written and queried.
    pub(crate) fn is_open(&self) -> bool {
        self.history.read().is_some()
    }

    /// How it is doing. It may wait for a write.
    pub fn status(&self, now: Time) -> HistoryServiceStatus {
        let writer = self.writer.lock();
        let status = |open: &dyn History| {
            let mut reader = open.reader()?;
            // One that is written already changes nothing here, and Redis need not be asked.
            writer.queue.iter().for_each(|flush| reader.add_unwritten(flush));
            reader.add_unwritten(&self.counter.peek(now));
            reader.status()
        };
        let (history, read_error) = match self.history.read().as_deref().map(status) {
            Some(Ok(status)) => (Some(status), None),
            Some(Err(error)) => (None, Some(error.full())),
            None => (None, None),
        };
        let lost = writer.queue.lost();
        HistoryServiceStatus {
            place: self.location.to_string(),
            keys: self.keys.name(),
            is_open: history.is_some(),
            error: writer.failure.clone().or(read_error),
            tracked: self.counter.tracked(),
            written_flushes: writer.written,
            waiting_flushes: writer.queue.len(),
            failures: writer.failures,
            lost_flushes: lost.flushes,
            lost_requests: lost.requests,
            future_requests: writer.future_requests,
            history,
        }
    }

    fn why_closed(&self) -> String {
        self.writer.lock().failure.clone().unwrap_or_else(|| "it is not open yet".to_owned())
    }

    fn write_queue(&self, writer: &mut WriterState, now: Time) -> Result<(), Error> {
        if self.history.read().is_none() {
            self.open_history()?;
        }
        let mut history = self.history.write();
        let Some(history) = history.as_mut() else { return Ok(()) };
        let clock = history.clock(now)?;
        loop {
            let future = writer.queue.refuse_future(clock);
            if future > 0 {
                writer.future_requests += future;
                tracing::warn!(
                    requests = future,
                    "history refused counts that are more than 5 minutes ahead of the store's clock; \
                     is the clock of this machine right?"
                );
            }
            let Some(flush) = writer.queue.first() else { break };
            history.append(flush)?;
            writer.queue.pop();
            writer.written += 1;
        }
        history.maintain(now)
    }

    fn open_history(&self) -> Result<(), Error> {
        let opened = self.location.open(self.bounds)?;
        let damaged = opened.reader()?.status()?.damaged;
        if damaged > 0 {
            tracing::warn!(
                damaged,
                "parts of the history are damaged; their counts are lost, or counted without a name"
            );
        }
        *self.history.write() = Some(opened);
        Ok(())
    }

    /// Notes a failure, and logs it if it is a new one.
    fn failed(&self, writer: &mut WriterState, error: &Error) {
        writer.failures += 1;
        if !matches!(error, Error::Corrupt { .. }) && self.history.read().is_some() {
            // A database that has failed once may have to be opened again. If that works, it can
            // still be read, though nothing can be added.
            *self.history.write() = None;
            drop(self.open_history());
        }
        let failure = format!("{}; {}", error.full(), self.location.fix(error));
        if writer.failure.as_ref() != Some(&failure) {
            tracing::error!("cannot store the history; limits still hold: {failure}");
        }
        writer.failure = Some(failure);
    }
}
