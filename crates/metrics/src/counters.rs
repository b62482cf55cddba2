//! Counters that many threads add to without meeting.
//!
//! [`super::table`] holds one [`StripedCounters`] for each rule. A thread adds to a stripe
//! of its own as far as there are enough; a reader sums the stripes up.
//!
//! Invariants: adding never waits and never allocates; a stripe fills whole
//! cache lines, so that two rules, and two threads, do not share one.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tollgate_core::Outcome;

use super::hits::HitCounts;

/// More stripes than this cost memory and save nothing that can be measured.
const STRIPES_MAX: usize = 8;
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
    pub(super) fn add_hits(&self, hits: &HitCounts) {
        add(&self.rejected_hits, hits.total_hits.saturating_sub(hits.within_limit));
        add(&self.over_limit, hits.over_limit);
        add(&self.remembered, hits.remembered);
        add(&self.near_limit, hits.near_limit);
        add(&self.within_limit, hits.within_limit);
        add(&self.shadow_mode, hits.shadow_mode);
        add(&self.negative_hits, hits.negative_hits);
    }

    pub(super) fn add_outcome(&self, outcome: impl Into<Option<Outcome>>) {
        if let Some(outcome) = outcome.into() {
            add(self.of(outcome), 1);
        }
    }

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

/// Adding nothing would still fetch the line and lock it.
fn add(counter: &AtomicU64, by: u64) {
    if by > 0 {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

/// The counters of one rule, for all threads.
#[derive(Debug)]
pub(super) struct StripedCounters {
    /// Invariant: a power of two of them, at least one.
    stripes: Box<[CounterStripe]>,
}

impl StripedCounters {
    /// Counters in as many stripes as [`stripes_for`] says.
    pub(super) fn new(stripes: usize) -> Self {
        let stripes = stripes.max(1).next_power_of_two();
        Self { stripes: (0..stripes).map(|_| CounterStripe::default()).collect() }
    }

    /// Counters that are seldom added to.
    pub(super) fn single() -> Self {
        Self::new(1)
    }

    /// The stripe of this thread.
    #[expect(clippy::indexing_slicing, reason = "masked by the length less one, which is a power of two")]
    pub(super) fn stripe(&self) -> &CounterStripe {
        &self.stripes[thread_number() & (self.stripes.len() - 1)]
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
        self.stripes.iter().map(|stripe| counter(stripe).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// How many stripes each of so many rules gets.
pub(super) fn stripes_for(rules: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut stripes = threads.min(STRIPES_MAX).next_power_of_two();
    while stripes > 1 && stripes * rules * size_of::<CounterStripe>() > BYTES_MAX {
        stripes /= 2;
    }
    stripes
}

/// A number of this thread, given out in the order in which threads first ask.
pub(super) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_add_is_all_there() {
        let counters = StripedCounters::new(4);
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
    fn a_million_rules_get_one_stripe_each() {
        assert_eq!(stripes_for(1_000_000), 1);
        assert!(stripes_for(10) >= 1);
    }
}
