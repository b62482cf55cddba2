//! Counters that many threads add to without meeting.
//!
//! [`super::table`] holds one [`Cells`] for each rule. A thread adds to a line
//! of its own as far as there are lines; whoever reads adds the lines up.
//!
//! Invariants: adding never waits and never allocates; a line fills whole
//! cache lines, so that two rules, and two threads, do not share one.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tollgate_core::Outcome;

use super::tally::Tally;

/// More lines than this cost memory and save nothing that can be measured.
const LINES_MAX: usize = 8;
/// The lines of all rules together take at most this much, then there are
/// fewer lines for each.
const BYTES_MAX: usize = 16 << 20;

/// One thread's counters of one rule: 104 bytes of counters, on 128 so that a
/// processor that fetches lines in pairs shares none either.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Line {
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

impl Line {
    pub(super) fn tally(&self, tally: &Tally) {
        add(&self.rejected_hits, tally.total_hits.saturating_sub(tally.within_limit));
        add(&self.over_limit, tally.over_limit);
        add(&self.remembered, tally.remembered);
        add(&self.near_limit, tally.near_limit);
        add(&self.within_limit, tally.within_limit);
        add(&self.shadow_mode, tally.shadow_mode);
        add(&self.negative_hits, tally.negative_hits);
    }

    pub(super) fn outcome(&self, outcome: impl Into<Option<Outcome>>) {
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
pub(super) struct Cells {
    /// Invariant: a power of two of them, at least one.
    lines: Box<[Line]>,
}

impl Cells {
    /// Counters in as many lines as [`lines_for`] says.
    pub(super) fn new(lines: usize) -> Self {
        let lines = lines.max(1).next_power_of_two();
        Self { lines: (0..lines).map(|_| Line::default()).collect() }
    }

    /// Counters that are seldom added to.
    pub(super) fn single() -> Self {
        Self::new(1)
    }

    /// The line of this thread.
    #[expect(clippy::indexing_slicing, reason = "masked by the length less one, which is a power of two")]
    pub(super) fn here(&self) -> &Line {
        &self.lines[thread_number() & (self.lines.len() - 1)]
    }

    /// What all threads have added.
    pub(super) fn hits(&self) -> Tally {
        let within_limit = self.sum(|line| &line.within_limit);
        Tally {
            total_hits: within_limit.wrapping_add(self.sum(|line| &line.rejected_hits)),
            over_limit: self.sum(|line| &line.over_limit),
            remembered: self.sum(|line| &line.remembered),
            near_limit: self.sum(|line| &line.near_limit),
            within_limit,
            shadow_mode: self.sum(|line| &line.shadow_mode),
            negative_hits: self.sum(|line| &line.negative_hits),
        }
    }

    /// How often all threads have met that outcome.
    pub(super) fn outcomes(&self, outcome: Outcome) -> u64 {
        self.sum(|line| line.of(outcome))
    }

    fn sum(&self, counter: impl Fn(&Line) -> &AtomicU64) -> u64 {
        self.lines.iter().map(|line| counter(line).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// How many lines each of so many rules gets.
pub(super) fn lines_for(rules: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut lines = threads.min(LINES_MAX).next_power_of_two();
    while lines > 1 && lines * rules * size_of::<Line>() > BYTES_MAX {
        lines /= 2;
    }
    lines
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
        let cells = Cells::new(4);
        let tally = Tally { total_hits: 3, within_limit: 2, ..Tally::default() };
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        cells.here().tally(&tally);
                        cells.here().outcome(Outcome::Soft);
                    }
                });
            }
        });
        assert_eq!(cells.hits(), Tally { total_hits: 18_000, within_limit: 12_000, ..Tally::default() });
        assert_eq!(cells.outcomes(Outcome::Soft), 6_000);
        assert_eq!(cells.outcomes(Outcome::Allowed), 0);
    }

    #[test]
    fn a_line_shares_no_cache_line() {
        assert_eq!((size_of::<Line>(), align_of::<Line>()), (128, 128));
    }

    #[test]
    fn a_million_rules_get_one_line_each() {
        assert_eq!(lines_for(1_000_000), 1);
        assert!(lines_for(10) >= 1);
    }
}
