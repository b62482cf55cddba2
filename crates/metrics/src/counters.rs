//! Counters that many threads add to without meeting.
//!
//! [`super::table`] holds one [`StripedCounters`] for each rule. The first threads that count have a stripe
//! of their own each, which nobody else writes to: they add by reading and writing, which takes a fraction of
//! the time of an atomic addition. All other threads share one more stripe, and add atomically. A reader sums
//! all stripes up.
//!
//! Invariants: adding never waits and never allocates; a stripe fills whole cache lines, so that two rules,
//! and two threads, do not share one. A thread's number is its own for as long as the process lives, so that
//! a stripe never has two writers that do not know of each other.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tollgate_core::Outcome;

use super::hits::HitCounts;

/// Workers that get a stripe of their own; on a larger machine the others share one.
const STRIPES_MAX: usize = 64;
/// Threads besides the workers that may come first to count something.
const OTHER_THREADS: usize = 2;
/// The stripes of all rules together take at most this much, then there are
/// fewer for each.
const BYTES_MAX: usize = 16 << 20;

/// One thread's counters of one rule: 104 bytes of counters, on 128 so that a
/// processor that fetches lines in pairs shares none either.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct CounterStripe {
    /// All hits but those within the limit: one addition less for most requests.
    rejected_hits: AtomicU64,
    over_limit: AtomicU64,
    remembered: AtomicU64,
    near_limit: AtomicU64,
    within_limit: AtomicU64,
    shadow_mode: AtomicU64,
    negative_hits: AtomicU64,
    allowed: AtomicU64,
    soft: AtomicU64,
    delayed: AtomicU64,
    denied: AtomicU64,
    shadow_denied: AtomicU64,
    degraded: AtomicU64,
}

impl CounterStripe {
    const fn of(&self, outcome: Outcome) -> &AtomicU64 {
        match outcome {
            Outcome::Allowed => &self.allowed,
            Outcome::Soft => &self.soft,
            Outcome::Delayed => &self.delayed,
            Outcome::Denied => &self.denied,
            Outcome::ShadowDenied => &self.shadow_denied,
            Outcome::Degraded => &self.degraded,
        }
    }
}

/// Whether only this thread writes to a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    Own,
    Shared,
}

impl Ownership {
    /// Adds to a counter of such a stripe. Adding nothing would still fetch the line.
    #[inline]
    pub(super) fn add(self, counter: &AtomicU64, by: u64) {
        if by == 0 {
            return;
        }
        match self {
            Self::Own => counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed),
            Self::Shared => {
                counter.fetch_add(by, Ordering::Relaxed);
            }
        }
    }
}

/// The stripe of a thread, to add to.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadStripe<'a> {
    stripe: &'a CounterStripe,
    ownership: Ownership,
}

impl ThreadStripe<'_> {
    pub(super) fn add_hits(self, hits: &HitCounts) {
        let Self { stripe, ownership } = self;
        ownership.add(&stripe.rejected_hits, hits.total_hits.saturating_sub(hits.within_limit));
        ownership.add(&stripe.over_limit, hits.over_limit);
        ownership.add(&stripe.remembered, hits.remembered);
        ownership.add(&stripe.near_limit, hits.near_limit);
        ownership.add(&stripe.within_limit, hits.within_limit);
        ownership.add(&stripe.shadow_mode, hits.shadow_mode);
        ownership.add(&stripe.negative_hits, hits.negative_hits);
    }

    pub(super) fn add_outcome(self, outcome: impl Into<Option<Outcome>>) {
        if let Some(outcome) = outcome.into() {
            self.ownership.add(self.stripe.of(outcome), 1);
        }
    }
}

/// One value for each of the first threads, and one for all others.
#[derive(Debug)]
pub(super) struct Striped<T> {
    own: Box<[T]>,
    shared: T,
}

impl<T: Default> Striped<T> {
    /// For so many threads with a stripe of their own; see [`own_stripes_for`].
    pub(super) fn new(own: usize) -> Self {
        Self { own: (0..own).map(|_| T::default()).collect(), shared: T::default() }
    }
}

impl<T> Striped<T> {
    /// The stripe of this thread.
    #[inline]
    pub(super) fn of_thread(&self) -> (&T, Ownership) {
        match self.own.get(thread_number()) {
            Some(own) => (own, Ownership::Own),
            None => (&self.shared, Ownership::Shared),
        }
    }

    /// All stripes.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.own.iter().chain([&self.shared])
    }
}

/// The counters of one rule, for all threads.
#[derive(Debug)]
pub(super) struct StripedCounters(Striped<CounterStripe>);

impl StripedCounters {
    /// Counters in as many stripes as [`own_stripes_for`] says, and a shared one.
    pub(super) fn new(own: usize) -> Self {
        Self(Striped::new(own))
    }

    /// Counters that are seldom added to.
    pub(super) fn single() -> Self {
        Self::new(0)
    }

    /// The stripe of this thread.
    #[inline]
    pub(super) fn stripe(&self) -> ThreadStripe<'_> {
        let (stripe, ownership) = self.0.of_thread();
        ThreadStripe { stripe, ownership }
    }

    /// What all threads have added.
    pub(super) fn hits(&self) -> HitCounts {
        let within_limit = self.sum(|stripe| &stripe.within_limit);
        HitCounts {
            total_hits: within_limit.wrapping_add(self.sum(|stripe| &stripe.rejected_hits)),
            over_limit: self.sum(|stripe| &stripe.over_limit),
            remembered: self.sum(|stripe| &stripe.remembered),
            near_limit: self.sum(|stripe| &stripe.near_limit),
            within_limit,
            shadow_mode: self.sum(|stripe| &stripe.shadow_mode),
            negative_hits: self.sum(|stripe| &stripe.negative_hits),
        }
    }

    /// How often all threads have met that outcome.
    pub(super) fn outcomes(&self, outcome: Outcome) -> u64 {
        self.sum(|stripe| stripe.of(outcome))
    }

    fn sum(&self, counter: impl Fn(&CounterStripe) -> &AtomicU64) -> u64 {
        self.0.iter().map(|stripe| counter(stripe).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// How many threads get a stripe of their own in the counters of each of so many rules.
pub(super) fn own_stripes_for(rules: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut own = threads.min(STRIPES_MAX) + OTHER_THREADS;
    while own > 0 && (own + 1) * rules * size_of::<CounterStripe>() > BYTES_MAX {
        own /= 2;
    }
    own
}

/// A number of this thread, given out in the order in which threads first ask.
#[inline]
fn thread_number() -> usize {
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    match NUMBER.get() {
        usize::MAX => {
            let number = next_number();
            NUMBER.set(number);
            number
        }
        number => number,
    }
}

#[cold]
fn next_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_add_is_all_there() {
        // Some of the threads below have a stripe of their own and some share one, whatever other tests run.
        let last = std::thread::spawn(thread_number).join().unwrap();
        let counters = StripedCounters::new(last + 4);
        let hits = HitCounts { total_hits: 3, within_limit: 2, ..HitCounts::default() };
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        counters.stripe().add_hits(&hits);
                        counters.stripe().add_outcome(Outcome::Soft);
                    }
                });
            }
        });
        assert_eq!(
            counters.hits(),
            HitCounts { total_hits: 18_000, within_limit: 12_000, ..HitCounts::default() }
        );
        assert_eq!(counters.outcomes(Outcome::Soft), 6_000);
        assert_eq!(counters.outcomes(Outcome::Allowed), 0);
    }

    #[test]
    fn a_stripe_shares_no_cache_line() {
        assert_eq!((size_of::<CounterStripe>(), align_of::<CounterStripe>()), (128, 128));
    }

    #[test]
    fn a_thread_beyond_the_stripes_shares_one() {
        let ownership = |own| StripedCounters::new(own).stripe().ownership;
        assert_eq!(ownership(thread_number() + 1), Ownership::Own);
        assert_eq!(ownership(thread_number()), Ownership::Shared);
        let number = thread_number();
        assert_ne!(std::thread::spawn(thread_number).join().unwrap(), number);
    }

    #[test]
    fn a_million_rules_share_one_stripe_each() {
        assert_eq!(own_stripes_for(1_000_000), 0);
        assert!(own_stripes_for(10) >= 1);
    }
}
