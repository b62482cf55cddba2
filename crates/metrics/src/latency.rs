//! How long calls take, by thread, in fixed buckets.
//!
//! [`super::Metrics`] adds one time for each call; pages and `StatsD` read sums.
//!
//! Invariant: adding never waits and never allocates.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::Micros;

use super::counters::{Striped, own_stripes_for};

/// Upper ends of the buckets, in µs. Holds every bound of [`OURS_US`], of
/// [`REFERENCE`] in seconds and in milliseconds, and every whole millisecond
/// up to 10, which is what timers of `StatsD` tell.
const BOUNDS_US: [u64; 29] = [
    5, 10, 25, 50, 100, 250, 500, 1_000, 2_000, 2_500, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000,
    10_000, 15_000, 20_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000,
];

/// The buckets of our own series: from what a decision in memory takes to
/// what no caller waits for.
pub(super) const OURS_US: [u64; 14] =
    [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000];

/// The buckets of the reference's series, in thousandths of its unit: the
/// usual ones of Prometheus clients, 0.005 to 10.
pub(super) const REFERENCE_MILLI: [u64; 11] = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

/// Times of one kind of call.
#[derive(Debug)]
pub(super) struct Latency {
    stripes: Striped<LatencyStripe>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct LatencyStripe {
    buckets: [AtomicU64; BOUNDS_US.len()],
    above: AtomicU64,
    sum_us: AtomicU64,
}

/// Times up to some instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Times {
    /// By bucket; the last is for what is above all bounds.
    counts: [u64; BOUNDS_US.len() + 1],
    /// All together.
    pub(super) sum_us: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { counts: [0; BOUNDS_US.len() + 1], sum_us: 0 }
    }
}

impl Latency {
    pub(super) fn new() -> Self {
        Self { stripes: Striped::new(own_stripes_for(1)) }
    }

    /// Adds one time.
    #[cfg(test)]
    fn add(&self, time: Micros) {
        self.add_each(time, 1);
    }

    /// Adds the time of each of so many calls.
    pub(super) fn add_each(&self, time: Micros, calls: u64) {
        let (stripe, ownership) = self.stripes.of_thread();
        let bucket = BOUNDS_US.partition_point(|bound| *bound < time.get());
        ownership.add(stripe.buckets.get(bucket).unwrap_or(&stripe.above), calls);
        ownership.add(&stripe.sum_us, time.get().wrapping_mul(calls));
    }

    /// All times added.
    pub(super) fn times(&self) -> Times {
        let mut times = Times::default();
        for stripe in self.stripes.iter() {
            let counters = stripe.buckets.iter().chain([&stripe.above]);
            for (count, counter) in times.counts.iter_mut().zip(counters) {
                *count += counter.load(Ordering::Relaxed);
            }
            times.sum_us = times.sum_us.wrapping_add(stripe.sum_us.load(Ordering::Relaxed));
        }
        times
    }
}

impl Times {
    /// How many.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many took at most `bound_us`, which is one of the bounds.
    pub(super) fn up_to(&self, bound_us: u64) -> u64 {
        let within = BOUNDS_US.iter().zip(&self.counts).take_while(|(bound, _)| **bound <= bound_us);
        within.map(|(_, count)| count).sum()
    }

    /// What has come since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for (count, before) in since.counts.iter_mut().zip(&before.counts) {
            *count = count.saturating_sub(*before);
        }
        since.sum_us = self.sum_us.wrapping_sub(before.sum_us);
        since
    }

    /// By whole milliseconds, how many took so long: exact below ten, above
    /// that the middle of a bucket stands for all in it.
    pub(super) fn by_millis(&self) -> BTreeMap<u64, u64> {
        let mut by_millis = BTreeMap::new();
        let mut low_us = 0;
        let highs_us = BOUNDS_US.into_iter().chain(BOUNDS_US.last().copied());
        for (high_us, count) in highs_us.zip(self.counts) {
            let millis = if high_us <= 10_000 { low_us / 1_000 } else { (low_us + high_us) / 2_000 };
            low_us = high_us;
            if count > 0 {
                *by_millis.entry(millis).or_default() += count;
            }
        }
        by_millis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(of: &[u64]) -> Times {
        let latency = Latency::new();
        for us in of {
            latency.add(Micros::new(*us));
        }
        latency.times()
    }

    #[test]
    fn bounds_are_sorted_and_hold_every_bound_that_is_shown() {
        assert!(BOUNDS_US.is_sorted());
        let in_seconds = REFERENCE_MILLI.map(|milli| milli * 1_000);
        let shown = OURS_US.iter().chain(&REFERENCE_MILLI).chain(&in_seconds);
        assert!(shown.clone().count() == 36 && shown.clone().all(|bound| BOUNDS_US.contains(bound)));
    }

    #[test]
    fn a_time_at_a_bound_is_within_it() {
        let times = times(&[5, 6, 100_000, 100_001, u64::MAX / 2]);
        assert_eq!((times.up_to(5), times.up_to(10), times.up_to(100_000)), (1, 2, 3));
        assert_eq!((times.up_to(250_000), times.up_to(10_000_000), times.count()), (4, 4, 5));
    }

    #[test]
    fn times_since_an_instant_are_those_after_it() {
        let latency = Latency::new();
        latency.add(Micros::new(7));
        let before = latency.times();
        latency.add(Micros::new(7));
        latency.add(Micros::new(900));
        let since = latency.times().since(&before);
        assert_eq!((since.count(), since.sum_us), (2, 907));
    }

    #[test]
    fn timers_tell_whole_milliseconds() {
        let times = times(&[3, 999, 1_500, 2_600, 2_400, 9_999, 12_000, 60_000_000]);
        let by_millis: Vec<_> = times.by_millis().into_iter().collect();
        assert_eq!(by_millis, [(0, 2), (1, 1), (2, 2), (9, 1), (12, 1), (10_000, 1)]);
    }
}
