//! Opens the place, writes what was counted, and answers questions.
//!
//! A timer calls [`Keeper::write`] on a thread that may wait; questions go through
//! [`Keeper::ask`], a few at a time, on such threads too. A place that cannot be
//! used is tried again with every write, and what was counted waits meanwhile.
//!
//! Invariant: one flush is written after the other, in their order, each until it
//! is written; what the engine has is asked for only where it is whole.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;
use tollgate_core::{Micros, Time};
use tollgate_history::engine::Engine;
use tollgate_history::{Bounds, Error, History, Label};

use super::counting::Counting;
use super::place::Place;
use super::queue::Queue;
use super::status::KeeperStatus;
use tollgate_settings::{KeyNames, Secret};

/// The history of any engine.
pub type Kept = History<Box<dyn Engine>>;

/// Questions at a time: each may take a core for a moment.
const ASKING_MAX: usize = 4;
/// So long a question waits for its turn.
const TURN_MAX: Duration = Duration::from_secs(5);
/// So long an answer may take; the largest history takes a fraction.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// So often a question is asked again while others write to the same history.
const TRIES: usize = 4;
/// A question is answered from counts that are at most so old.
const FRESH: Micros = Micros::SECOND;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unanswered {
    /// Nothing is remembered.
    #[error("history is turned off")]
    Off,
    /// The place cannot be used.
    #[error("history is not kept at the moment: {reason}")]
    Closed {
        /// Why not, and what to do.
        reason: String,
    },
    /// Too many ask at once.
    #[error("too many questions at once")]
    Busy,
    /// It takes too long.
    #[error("the answer takes too long")]
    Slow,
    /// The engine gave up.
    #[error("the history could not be read; the log has the reason")]
    Broken,
    /// The history says why.
    #[error("{}", .0.full())]
    History(#[from] Error),
}

/// What is written how far.
#[derive(Default)]
struct Writing {
    queue: Queue,
    written: u64,
    failures: u64,
    /// Why the last attempt failed; none if it did not.
    failure: Option<String>,
    last: Time,
}

/// Keeps the history of this process.
pub struct Keeper {
    counting: Arc<Counting>,
    place: Place,
    bounds: Bounds,
    /// What key names are hashed with, if they are.
    salt: Option<Secret>,
    keys: KeyNames,
    kept: RwLock<Option<Kept>>,
    writing: Mutex<Writing>,
    asking: Arc<Semaphore>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("place", &format_args!("{}", self.place)).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Keeps history as settings say; opens nothing yet.
    pub fn new(place: Place, settings: &tollgate_settings::HistorySettings, counting: Arc<Counting>) -> Self {
        Self {
            counting,
            place,
            bounds: settings.bounds,
            salt: (settings.keys == KeyNames::Hashed).then(|| settings.salt.clone()),
            keys: settings.keys,
            kept: RwLock::new(None),
            writing: Mutex::default(),
            asking: Arc::new(Semaphore::new(ASKING_MAX)),
        }
    }

    /// What counts decisions.
    pub const fn counting(&self) -> &Arc<Counting> {
        &self.counting
    }

    /// Where it is kept.
    pub(crate) const fn place(&self) -> &Place {
        &self.place
    }

    /// Opens the place, and says where history is kept or why it is not.
    pub fn open(&self) {
        let mut writing = self.writing.lock();
        match guarded(|| self.open_kept()) {
            Ok(()) => tracing::info!("history is kept in {}", self.place),
            Err(error) => self.failed(&mut writing, &error),
        }
    }

    /// Writes what was counted since the last time. Not for a thread that answers
    /// callers: the disk may take its time.
    pub fn write(&self, now: Time) {
        self.write_on(&mut self.writing.lock(), now);
    }

    /// Answers a question from what was counted until a moment ago.
    ///
    /// # Errors
    /// If there is no answer in time, or none at all.
    pub async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        now: Time,
        question: impl Fn(&Kept) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Unanswered> {
        let turn = tokio::time::timeout(TURN_MAX, Arc::clone(&self.asking).acquire_owned());
        let Ok(Ok(turn)) = turn.await else { return Err(Unanswered::Busy) };
        let own = Arc::clone(self);
        let answering = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            own.freshen(now);
            own.answer(question)
        });
        match tokio::time::timeout(ANSWER_MAX, answering).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Unanswered::Broken),
            Err(_) => Err(Unanswered::Slow),
        }
    }

    fn answer<T>(&self, question: impl Fn(&Kept) -> Result<T, Error>) -> Result<T, Unanswered> {
        let mut tries = 1..=TRIES;
        loop {
            let is_last = tries.next().is_none();
            if let Some(history) = self.kept.write().as_mut() {
                history.refresh()?;
            }
            match self.kept.read().as_ref().map(&question) {
                Some(Err(Error::Moved)) if !is_last => {}
                Some(answer) => return answer.map_err(Unanswered::from),
                None => return Err(Unanswered::Closed { reason: self.why_closed() }),
            }
        }
    }

    /// How it is doing, after a look whether a place that could not be used can be now.
    pub fn look(&self, now: Time) -> KeeperStatus {
        self.freshen(now);
        self.status()
    }

    /// How it is doing. It may wait for a write.
    pub fn status(&self) -> KeeperStatus {
        let (history, read_error) = match self.kept.read().as_ref().map(History::status) {
            Some(Ok(status)) => (Some(status), None),
            Some(Err(error)) => (None, Some(error.full())),
            None => (None, None),
        };
        let writing = self.writing.lock();
        let lost = writing.queue.lost();
        KeeperStatus {
            place: self.place.to_string(),
            keys: self.keys.name(),
            is_open: history.is_some(),
            error: writing.failure.clone().or(read_error),
            tracked: self.counting.recorder().tracked(),
            written_flushes: writing.written,
            waiting_flushes: writing.queue.len(),
            failures: writing.failures,
            lost_flushes: lost.flushes,
            lost_requests: lost.requests,
            history,
        }
    }

    fn why_closed(&self) -> String {
        self.writing.lock().failure.clone().unwrap_or_else(|| "it is not open yet".to_owned())
    }

    /// Writes what was counted, unless that has just happened or keeps failing.
    fn freshen(&self, now: Time) {
        let mut writing = self.writing.lock();
        if now.since(writing.last) < FRESH {
            return;
        }
        // While it keeps failing, flushes are not made more often for it.
        if writing.failure.is_some() {
            writing.last = now;
            if let Err(error) = guarded(|| self.write_all(&mut writing, now)) {
                return self.failed(&mut writing, &error);
            }
        }
        self.write_on(&mut writing, now);
    }

    fn write_on(&self, writing: &mut Writing, now: Time) {
        let mut flush = self.counting.recorder().flush(now);
        if let Some(salt) = &self.salt {
            flush.tally.rename_keys(|name| Label::hashed(name, salt.expose()));
        }
        writing.last = now;
        if writing.queue.push(flush) {
            let lost = writing.queue.lost();
            tracing::warn!(
                requests = lost.requests,
                "history lost what it could not write in time; this many requests are missing in it"
            );
        }
        match guarded(|| self.write_all(writing, now)) {
            Ok(()) => {
                if writing.failure.take().is_some() {
                    tracing::info!("history is kept again in {}", self.place);
                }
            }
            Err(error) => self.failed(writing, &error),
        }
    }

    fn write_all(&self, writing: &mut Writing, now: Time) -> Result<(), Error> {
        if self.kept.read().is_none() {
            self.open_kept()?;
        }
        let mut kept = self.kept.write();
        let Some(history) = kept.as_mut() else { return Ok(()) };
        while let Some(flush) = writing.queue.first() {
            history.append(flush)?;
            writing.queue.pop();
            writing.written += 1;
        }
        history.maintain(now)
    }

    fn open_kept(&self) -> Result<(), Error> {
        let opened = History::open(self.place.engine()?, self.bounds)?;
        *self.kept.write() = Some(opened);
        Ok(())
    }

    /// Notes a failure, and tells it if it is a new one.
    fn failed(&self, writing: &mut Writing, error: &Error) {
        writing.failures += 1;
        if !matches!(error, Error::Corrupt { .. }) && self.kept.read().is_some() {
            // An engine that has failed once may have to be opened again. If it can be, what it has is
            // there to be asked for, though nothing can be added.
            drop(guarded(|| {
                *self.kept.write() = None;
                self.open_kept()
            }));
        }
        let told = format!("{}; {}", error.full(), self.place.fix(error));
        if writing.failure.as_ref() != Some(&told) {
            tracing::error!("history is not kept, and limiting goes on: {told}");
        }
        writing.failure = Some(told);
    }
}

/// A damaged file may make the engine panic, which must end neither the thread nor the server.
fn guarded(work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it gave up");
        Err(Error::Engine { source: words.to_owned().into() })
    })
}
