//! What the store counts about itself, for metrics and health.
//!
//! Every part of the store adds to one [`Stats`]; whoever renders metrics reads
//! it whenever it likes.
//!
//! Invariant: adding is one relaxed atomic addition, so that counting costs
//! nothing that could be measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Trouble;

/// Round trips are counted by powers of two: up to 2 µs, 4 µs, … 65 ms, more.
pub const ROUND_TRIP_BUCKETS: usize = 17;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the store counts about itself.
#[derive(Debug, Default)]
pub struct Stats {
    /// Requests decided.
    pub requests: Counter,
    /// Of these, with at least one limit decided without the store.
    pub degraded: Counter,
    /// Of these, answered from the memory of denials alone.
    pub denials_remembered: Counter,
    /// Connections made.
    pub connections: Counter,
    /// Times that a server was given up for a while.
    pub opened: Counter,
    /// Servers that are given up right now: `opened` less `closed`.
    pub closed: Counter,
    /// Scripts sent again because a server had forgotten them.
    pub script_loads: Counter,
    /// Charges given back because another server denied.
    pub given_back: Counter,
    /// States thrown away because they were not ours or not readable.
    pub mended: Counter,
    /// Calls followed to another server of a cluster.
    pub redirects: Counter,
    troubles: [Counter; Trouble::ALL.len()],
    round_trips: [Counter; ROUND_TRIP_BUCKETS],
    round_trip_sum_us: Counter,
}

impl Stats {
    /// How many calls came to nothing for this reason.
    pub fn troubles(&self, trouble: Trouble) -> u64 {
        self.slot(trouble).map_or(0, Counter::get)
    }

    /// Whether some server is given up right now.
    pub fn is_degraded(&self) -> bool {
        self.opened.get() > self.closed.get()
    }

    /// Round trips as (upper bound in µs, how many of these or shorter ones);
    /// the last has no bound.
    pub fn round_trips(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let mut sum = 0;
        self.round_trips.iter().enumerate().map(move |(index, counter)| {
            sum += counter.get();
            let is_last = index + 1 == ROUND_TRIP_BUCKETS;
            ((!is_last).then(|| 2_u64 << index), sum)
        })
    }

    /// The sum of all round trips, in µs.
    pub fn round_trip_sum_us(&self) -> u64 {
        self.round_trip_sum_us.get()
    }

    pub(crate) fn note_trouble(&self, trouble: Trouble) {
        if let Some(counter) = self.slot(trouble) {
            counter.add(1);
        }
    }

    pub(crate) fn note_round_trip(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.round_trip_sum_us.add(us);
        // 2 µs and less have no more than one bit after the first is cut off.
        let bits = (u64::BITS - us.saturating_sub(1).leading_zeros()).saturating_sub(1);
        let index = usize::try_from(bits).unwrap_or(usize::MAX).min(ROUND_TRIP_BUCKETS - 1);
        if let Some(counter) = self.round_trips.get(index) {
            counter.add(1);
        }
    }

    fn slot(&self, trouble: Trouble) -> Option<&Counter> {
        let index = Trouble::ALL.iter().position(|other| *other == trouble)?;
        self.troubles.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_counted_under_the_bound_that_holds_them() {
        for (us, bound) in [(0, 2), (2, 2), (3, 4), (4, 4), (5, 8), (65_536, 65_536)] {
            let stats = Stats::default();
            stats.note_round_trip(Duration::from_micros(us));
            let first = stats.round_trips().find(|(_, sum)| *sum > 0);
            assert_eq!(first, Some((Some(bound), 1)), "{us}");
        }
        let stats = Stats::default();
        stats.note_round_trip(Duration::from_secs(100));
        assert_eq!(stats.round_trips().find(|(_, sum)| *sum > 0), Some((None, 1)));
    }

    #[test]
    fn troubles_are_counted_by_kind() {
        let stats = Stats::default();
        stats.note_trouble(Trouble::Other);
        for trouble in Trouble::ALL {
            assert_eq!(stats.troubles(trouble), u64::from(trouble == Trouble::Other));
        }
    }
}
