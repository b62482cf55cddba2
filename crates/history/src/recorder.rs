//! Counting while decisions are made.
//!
//! A sink calls [`Recorder::record`], or [`RecorderBatch::record_keyed`] where the name of a key
//! would first have to be put together, on the path of a decision; every 15 seconds a timer calls [`Recorder::flush`] and writes what it
//! returns. `thread_counts` hold the counts of each thread, which `name_index` finds; `name_filter` chooses
//! which names get a series; `label_cache` gives them the labels of the last flush.
//!
//! Invariants:
//! - Counting never waits: a shard that is locked is skipped, and if all are, plain
//!   atomics count the request without its name.
//! - All requests and all decisions are counted exactly, whatever their names.
//! - Memory is bounded by [`Caps`], whatever names clients make up.
//!
//! Deliberately not here: the clock and the timer; `now` is an argument.

mod label_cache;
mod name_filter;
mod name_index;
mod thread_counts;

use std::cell::Cell as ThreadCell;
use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use spin::mutex::{SpinMutex, SpinMutexGuard};
use tollgate_core::{Micros, Outcome, Time};

use crate::counts::OUTCOMES;
use crate::flush::{Flush, FlushId, InstanceId, TrafficCounts};
use crate::label::Label;
use crate::route::cut;
use crate::tier::minute_of;
use label_cache::LabelCache;
pub use name_filter::{Caps, NameFilter};
use thread_counts::{CountedName, ThreadCounts, ThreadMinute};

/// How often to flush: what a crash loses at most.
pub const FLUSH_EVERY_S: u64 = 15;

/// How often threads are drained for a peek, because each time costs them a moment.
const PEEK_EVERY: Micros = Micros::SECOND;

/// Threads that count at once without sharing a shard.
const SHARDS: usize = 16;

/// Requests with one outcome.
#[derive(Debug, Clone, Copy)]
pub struct RequestCount<'a> {
    /// Its route: a template, or else the path as [`crate::route::normalise`] gives it.
    pub route: Option<&'a str>,
    /// What became of it.
    pub outcome: Outcome,
    /// How many of the same.
    pub count: u64,
}

/// Decisions of one rule.
#[derive(Debug, Clone, Copy)]
pub struct DecisionCount<'a> {
    /// The domain of the rule; empty for limits that callers bring along.
    pub domain: &'a str,
    /// The rule's name, which no other rule of the domain has.
    pub rule: &'a str,
    /// The key that was charged.
    pub key: Option<&'a str>,
    /// What it decided.
    pub outcome: Outcome,
    /// How many of the same.
    pub count: u64,
}

/// The name of a key. Its text is only asked for if the key is new to a thread in a minute since the last flush.
pub trait KeyText {
    /// A number that stands for it, of those that are as good as random; then it is not hashed once more.
    fn number(&self) -> Option<u64> {
        None
    }

    /// Tells one key from another. What differs here may have the same text: it is counted together.
    fn identify(&self, hasher: &mut impl Hasher);

    /// Appends the text.
    fn write(&self, text: &mut String);
}

impl KeyText for &str {
    #[inline]
    fn identify(&self, hasher: &mut impl Hasher) {
        hasher.write(self.as_bytes());
    }

    fn write(&self, text: &mut String) {
        text.push_str(self);
    }
}

/// A rule, as decisions about it are counted.
#[derive(Debug, Clone, Copy)]
pub struct RuleName<'a> {
    /// Its domain; empty for limits that callers bring along.
    pub domain: &'a str,
    /// Its name, which no other rule of the domain has.
    pub name: &'a str,
    /// A number that stands for domain and name and for no others in this process: it is quicker to hash. A rule
    /// may get another number at any time.
    pub number: Option<u64>,
}

impl<'a> RuleName<'a> {
    /// A rule that is told by its name.
    pub const fn new(domain: &'a str, name: &'a str) -> Self {
        Self { domain, name, number: None }
    }
}

/// A decision of one rule about a key whose name is written when it is needed.
#[derive(Debug, Clone, Copy)]
pub struct KeyedDecision<'a, K> {
    /// The rule.
    pub rule: RuleName<'a>,
    /// The key that was charged.
    pub key: K,
    /// What it decided.
    pub outcome: Outcome,
}

/// The counts of one thread, on cache lines of their own.
///
/// A lock that is let go by a plain write: nobody ever sleeps for it, as whoever counts takes another one,
/// and a flush holds it for a moment.
#[derive(Debug, Default)]
#[repr(align(128))]
struct RecorderShard {
    counts: SpinMutex<ThreadCounts>,
}

impl RecorderShard {
    /// Takes what was counted.
    fn take(&self) -> ThreadCounts {
        loop {
            match self.counts.try_lock() {
                Some(mut counts) => return std::mem::take(&mut *counts),
                // A thread counts something just now.
                None => std::thread::yield_now(),
            }
        }
    }
}

/// What was counted while every shard was locked.
#[derive(Debug, Default)]
struct OverflowCounts {
    requests: [AtomicU64; OUTCOMES],
    decisions: [AtomicU64; OUTCOMES],
}

impl OverflowCounts {
    fn add(counters: &[AtomicU64; OUTCOMES], outcome: Outcome, count: u64) {
        for (slot, counter) in Outcome::ALL.into_iter().zip(counters) {
            if slot == outcome {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    fn drain_into(&self, counts: &mut TrafficCounts, minute: u32) {
        for (counters, label) in [(&self.requests, Label::Requests), (&self.decisions, Label::Decisions)] {
            for (outcome, counter) in Outcome::ALL.into_iter().zip(counters) {
                let count = counter.swap(0, Ordering::Relaxed);
                if count > 0 {
                    counts.add(minute, label.clone(), outcome, count);
                }
            }
        }
    }
}

/// What only a flush touches.
#[derive(Debug)]
struct FlushState {
    filter: NameFilter,
    labels: LabelCache,
    /// Drained from the threads, and not flushed yet.
    drained: TrafficCounts,
    drained_at: Time,
    seq: u64,
}

/// Counts decisions of one process.
#[derive(Debug)]
pub struct Recorder {
    instance: InstanceId,
    hasher: foldhash::fast::RandomState,
    shards: Box<[RecorderShard]>,
    overflow: OverflowCounts,
    flush: Mutex<FlushState>,
}

impl Recorder {
    /// A recorder for this process, which has counted nothing yet.
    pub fn new(instance: InstanceId, caps: Caps) -> Self {
        Self {
            instance,
            hasher: foldhash::fast::RandomState::default(),
            shards: (0..SHARDS).map(|_| RecorderShard::default()).collect(),
            overflow: OverflowCounts::default(),
            flush: Mutex::new(FlushState {
                filter: NameFilter::new(caps),
                labels: LabelCache::default(),
                drained: TrafficCounts::default(),
                drained_at: Time::from_secs(0),
                seq: 0,
            }),
        }
    }

    /// Counts a request: towards all requests and towards its route.
    pub fn request(&self, request: &RequestCount<'_>, now: Time) {
        self.record(Some(request), None, now);
    }

    /// Counts a decision: towards all decisions, its rule, and its key.
    pub fn decision(&self, decision: &DecisionCount<'_>, now: Time) {
        self.record(None, Some(decision), now);
    }

    /// Counts a request and a decision about it, at little more than the cost of one.
    pub fn record(
        &self,
        request: Option<&RequestCount<'_>>,
        decision: Option<&DecisionCount<'_>>,
        now: Time,
    ) {
        self.start_batch().record(request, decision, now);
    }

    /// Makes ready to count several in a row. A flush waits until it is dropped.
    #[inline]
    pub fn start_batch(&self) -> RecorderBatch<'_> {
        RecorderBatch { recorder: self, counts: self.free_counts() }
    }

    #[inline]
    fn add_request(&self, minute: Option<&mut ThreadMinute>, request: &RequestCount<'_>) {
        let RequestCount { route, outcome, count } = *request;
        match (minute, route) {
            (Some(minute), Some(route)) => {
                minute.add(&CountedName::route(route, &self.hasher), outcome, count);
            }
            (Some(minute), None) => minute.add_request(outcome, count),
            (None, _) => OverflowCounts::add(&self.overflow.requests, outcome, count),
        }
    }

    /// Counts that no thread has locked, this thread's own first.
    fn free_counts(&self) -> Option<SpinMutexGuard<'_, ThreadCounts>> {
        let own = own_shard();
        let free = self.shards.get(own).and_then(|shard| shard.counts.try_lock());
        free.or_else(|| self.shards.iter().find_map(|shard| shard.counts.try_lock()))
    }

    /// Everything since the last flush, under the next id.
    ///
    /// Append it until it is written. A flush without counts is worth writing, too:
    /// it says that nothing came, which is not the same as no process counting.
    pub fn flush(&self, now: Time) -> Flush {
        let mut state = self.flush.lock();
        self.drain(&mut state, now);
        state.seq += 1;
        let id = FlushId { instance: self.instance, seq: state.seq };
        Flush { id, counts: std::mem::take(&mut state.drained) }
    }

    /// What the next flush would have, as of less than a second ago.
    pub fn peek(&self, now: Time) -> Flush {
        let mut state = self.flush.lock();
        if now.since(state.drained_at) >= PEEK_EVERY {
            self.drain(&mut state, now);
        }
        let id = FlushId { instance: self.instance, seq: state.seq + 1 };
        Flush { id, counts: state.drained.clone() }
    }

    /// Moves what the threads have counted, as far as it gets a series.
    fn drain(&self, state: &mut FlushState, now: Time) {
        let minute = minute_of(now);
        let mut counts = TrafficCounts::default();
        counts.mark_up(minute);
        for shard in &self.shards {
            shard.take().drain_into(&mut counts, &state.labels);
        }
        self.overflow.drain_into(&mut counts, minute);
        state.filter.choose(&mut counts, minute);
        state.labels.keep(&counts);
        state.drained.merge_all(counts);
        state.drained_at = now;
    }

    /// How many names have a series now.
    pub fn tracked(&self) -> usize {
        self.flush.lock().filter.tracked()
    }
}

/// Counts several in a row, for which counts of a thread are locked once.
#[derive(Debug)]
pub struct RecorderBatch<'a> {
    recorder: &'a Recorder,
    /// None if all are locked.
    counts: Option<SpinMutexGuard<'a, ThreadCounts>>,
}

impl RecorderBatch<'_> {
    /// As [`Recorder::record`].
    pub fn record(
        &mut self,
        request: Option<&RequestCount<'_>>,
        decision: Option<&DecisionCount<'_>>,
        now: Time,
    ) {
        let Self { recorder, counts } = self;
        let mut minute = counts.as_mut().and_then(|counts| counts.minute(minute_of(now)));
        if let Some(request) = request {
            recorder.add_request(minute.as_deref_mut(), request);
        }
        let Some(DecisionCount { domain, rule, key, outcome, count }) = decision else { return };
        let rule = RuleName::new(domain, rule);
        match (minute, key) {
            (Some(minute), Some(key)) => {
                minute.add(&CountedName::key(rule, cut(key), &recorder.hasher), *outcome, *count);
            }
            (Some(minute), None) => {
                minute.add(&CountedName::rule(rule, &recorder.hasher), *outcome, *count);
            }
            (None, _) => OverflowCounts::add(&recorder.overflow.decisions, *outcome, *count),
        }
    }

    /// The same of one decision about a key whose name is written when it is needed.
    #[inline]
    pub fn record_keyed<K: KeyText>(
        &mut self,
        request: Option<&RequestCount<'_>>,
        decision: KeyedDecision<'_, K>,
        now: Time,
    ) {
        let Self { recorder, counts } = self;
        let KeyedDecision { rule, key, outcome } = decision;
        let name = CountedName::key(rule, key, &recorder.hasher);
        let mut minute = counts.as_mut().and_then(|counts| counts.minute(minute_of(now)));
        if let Some(request) = request {
            recorder.add_request(minute.as_deref_mut(), request);
        }
        match minute {
            Some(minute) => minute.add(&name, outcome, 1),
            None => OverflowCounts::add(&recorder.overflow.decisions, outcome, 1),
        }
    }

    /// Has the line of memory fetched that [`Self::record_keyed`] will look at for a key of this number, of the rule of
    /// that number.
    #[inline]
    pub fn prefetch(&self, rule: u64, key: u64) {
        if let Some(counts) = &self.counts {
            counts.prefetch(thread_counts::hash_of_key(thread_counts::hash_of_rule(rule), key));
        }
    }
}

/// The shard that this thread tries first: threads take turns when they start.
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
