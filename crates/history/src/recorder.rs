//! Counting while decisions are made.
//!
//! A sink calls [`Recorder::request`] and [`Recorder::decision`] on the path of a
//! decision; every 15 seconds a timer calls [`Recorder::flush`] and writes what
//! it gives. In between, `cells` hold the counts of each thread; `filter` chooses
//! which names get a series, and `names` gives them the labels of the last flush.
//!
//! Invariants:
//! - Whoever counts never waits: a cell that is in use is passed over, and if
//!   all are, plain atomics count the request without its name.
//! - All requests and all decisions are counted exactly, whatever the names.
//! - Memory is bounded by [`Caps`], whoever makes up names.
//!
//! Deliberately not here: the clock and the timer; `now` is an argument.

mod cells;
mod filter;
mod names;

use std::cell::Cell as ThreadCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tollgate_core::Time;

use crate::counts::OUTCOMES;
use crate::flush::{Flush, FlushName, Instance, Tally};
use crate::label::Label;
use crate::tier::minute_of;
use cells::{Cells, Name};
pub use filter::{Caps, Filter};
use names::Names;
use tollgate_core::Outcome;

/// How often to flush: what a crash loses at most.
pub const FLUSH_EVERY_S: u64 = 15;

/// Cells for this many threads at once; more share them.
const SHARDS: usize = 16;

/// A request that was answered.
///
/// ```
/// use tollgate_history::{RequestCount, Outcome};
/// let asked = RequestCount { route: Some("/cart"), outcome: Outcome::Allowed, count: 1 };
/// assert_eq!(asked.count, 1);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RequestCount<'a> {
    /// Its route: a template, or else the path as [`crate::route::normalise`] gives it.
    pub route: Option<&'a str>,
    /// What became of it.
    pub outcome: Outcome,
    /// How many of the same.
    pub count: u64,
}

/// A rule's word about a request.
///
/// ```
/// use tollgate_history::{Outcome, DecisionCount};
/// let ruled = DecisionCount { rule: "checkout", key: Some("user_id=42"), outcome: Outcome::Denied, count: 1 };
/// assert_eq!(ruled.rule, "checkout");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct DecisionCount<'a> {
    /// The rule's name.
    pub rule: &'a str,
    /// The key that was charged, in clear or hashed as the operator wants it.
    pub key: Option<&'a str>,
    /// What the rule said.
    pub outcome: Outcome,
    /// How many of the same.
    pub count: u64,
}

/// Keeps each thread's cells away from the others' cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    cells: Mutex<Cells>,
}

/// What was counted while every cell was in use.
#[derive(Debug, Default)]
struct Overflow {
    requests: [AtomicU64; OUTCOMES],
    decisions: [AtomicU64; OUTCOMES],
}

impl Overflow {
    fn add(counters: &[AtomicU64; OUTCOMES], outcome: Outcome, count: u64) {
        for (slot, counter) in Outcome::ALL.into_iter().zip(counters) {
            if slot == outcome {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    fn drain_into(&self, tally: &mut Tally, minute: u32) {
        for (counters, label) in [(&self.requests, Label::Requests), (&self.decisions, Label::Decisions)] {
            for (outcome, counter) in Outcome::ALL.into_iter().zip(counters) {
                let count = counter.swap(0, Ordering::Relaxed);
                if count > 0 {
                    tally.add(minute, label.clone(), outcome, count);
                }
            }
        }
    }
}

/// The part of a recorder that only a flush touches.
#[derive(Debug)]
struct Flusher {
    filter: Filter,
    names: Names,
    seq: u64,
}

/// Counts decisions of one process.
///
/// ```
/// use tollgate_core::Time;
/// use tollgate_history::{RequestCount, Caps, Instance, Outcome, Recorder};
/// let recorder = Recorder::new(Instance::random(), Caps::default());
/// let now = Time::from_secs(1_800_000_000);
/// recorder.request(&RequestCount { route: Some("/cart"), outcome: Outcome::Allowed, count: 1 }, now);
/// let flush = recorder.flush(now);
/// assert_eq!(flush.name.seq, 1);
/// ```
#[derive(Debug)]
pub struct Recorder {
    instance: Instance,
    hasher: foldhash::fast::RandomState,
    shards: Box<[Shard]>,
    overflow: Overflow,
    flusher: Mutex<Flusher>,
}

impl Recorder {
    /// A recorder for this process, which has counted nothing yet.
    pub fn new(instance: Instance, caps: Caps) -> Self {
        Self {
            instance,
            hasher: foldhash::fast::RandomState::default(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            overflow: Overflow::default(),
            flusher: Mutex::new(Flusher { filter: Filter::new(caps), names: Names::default(), seq: 0 }),
        }
    }

    /// Counts a request: towards all requests and towards its route.
    pub fn request(&self, asked: &RequestCount<'_>, now: Time) {
        self.record(Some(asked), None, now);
    }

    /// Counts a decision: towards all decisions, its rule, and its key.
    pub fn decision(&self, ruled: &DecisionCount<'_>, now: Time) {
        self.record(None, Some(ruled), now);
    }

    /// Counts a request and a decision about it, for little more than one of them.
    pub fn record(&self, asked: Option<&RequestCount<'_>>, ruled: Option<&DecisionCount<'_>>, now: Time) {
        let minute = minute_of(now);
        let mut cells = self.free_cells();
        if let Some(RequestCount { route, outcome, count }) = asked {
            let name = Name::request(*route, &self.hasher);
            let added = cells.as_mut().is_some_and(|cells| cells.add(minute, &name, *outcome, *count));
            if !added {
                Overflow::add(&self.overflow.requests, *outcome, *count);
            }
        }
        if let Some(DecisionCount { rule, key, outcome, count }) = ruled {
            let name = Name::decision(rule, *key, &self.hasher);
            let added = cells.as_mut().is_some_and(|cells| cells.add(minute, &name, *outcome, *count));
            if !added {
                Overflow::add(&self.overflow.decisions, *outcome, *count);
            }
        }
    }

    /// Cells that nobody uses just now, this thread's own first; none if all are in use.
    fn free_cells(&self) -> Option<MutexGuard<'_, Cells>> {
        let own = own_shard();
        let free = self.shards.get(own).and_then(|shard| shard.cells.try_lock());
        free.or_else(|| self.shards.iter().find_map(|shard| shard.cells.try_lock()))
    }

    /// Everything since the last flush, under the next name.
    ///
    /// Write it until it is written, and only then flush again. A flush without
    /// counts is worth writing too: it says that nothing came, which is not the
    /// same as nobody being there.
    pub fn flush(&self, now: Time) -> Flush {
        let mut flusher = self.flusher.lock();
        let minute = minute_of(now);
        let mut tally = Tally::default();
        tally.was_up(minute);
        for shard in &self.shards {
            let fresh = Cells::default();
            let full = std::mem::replace(&mut *shard.cells.lock(), fresh);
            full.drain_into(&mut tally, &flusher.names);
        }
        self.overflow.drain_into(&mut tally, minute);
        flusher.filter.choose(&mut tally, minute);
        flusher.names.keep(&tally);
        flusher.seq += 1;
        Flush { name: FlushName { instance: self.instance, seq: flusher.seq }, tally }
    }

    /// How many names have a series now.
    pub fn tracked(&self) -> usize {
        self.flusher.lock().filter.tracked()
    }
}

/// Which cells this thread tries first: threads take turns when they start.
fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: ThreadCell<usize> = const { ThreadCell::new(usize::MAX) };
    }
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        own.get()
    })
}

#[cfg(test)]
mod tests;
