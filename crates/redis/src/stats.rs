//! What the store counts about itself, for metrics and health.
//!
//! All parts of the store add to one [`Stats`]; the metrics page reads it.
//!
//! Invariant: adding is one relaxed atomic addition, which is too cheap to be
//! measured.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::{FailureReport, StoreFailure};

/// Round trips are counted by powers of two: up to 2 µs, 4 µs, … 65 ms, more.
pub const ROUND_TRIP_BUCKETS: usize = 17;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct StatsCounter(AtomicU64);

impl StatsCounter {
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
    pub requests: StatsCounter,
    /// Of these, with at least one limit decided without the store.
    pub degraded: StatsCounter,
    /// Of these, answered from the memory of denials alone.
    pub denials_remembered: StatsCounter,
    /// Connections made.
    pub connections: StatsCounter,
    /// Circuit breakers opened.
    pub opened: StatsCounter,
    /// Circuit breakers closed again; `opened` less this are open now.
    pub closed: StatsCounter,
    /// Scripts sent again because a server had forgotten them.
    pub script_loads: StatsCounter,
    /// Charges given back because another server denied.
    pub given_back: StatsCounter,
    /// States discarded because they could not be read.
    pub discarded: StatsCounter,
    /// Redirections followed in a cluster.
    pub redirects: StatsCounter,
    nodes: AtomicU32,
    node_list: Mutex<Vec<StoreNode>>,
    /// The server that could last not be asked, and why.
    outage: Mutex<Option<(String, FailureReport)>>,
    failures: [StatsCounter; StoreFailure::ALL.len()],
    round_trips: [StatsCounter; ROUND_TRIP_BUCKETS],
    round_trip_sum_us: StatsCounter,
}

/// A node that shares the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreNode {
    /// The host's name, and what tells it from others on that host.
    pub name: String,
    /// How long ago its last heartbeat was when this node last asked.
    pub age: Duration,
    /// It is this one.
    pub is_this: bool,
}

impl Stats {
    /// Calls that failed for this reason.
    pub fn failures(&self, failure: StoreFailure) -> u64 {
        self.failure_counter(failure).map_or(0, StatsCounter::get)
    }

    /// Whether some circuit breaker is open right now.
    pub fn is_degraded(&self) -> bool {
        self.opened.get() > self.closed.get()
    }

    /// Which server cannot be asked and why, in its own words; none if all can.
    pub fn outage(&self) -> Option<String> {
        let outage = self.is_degraded().then(|| self.outage.lock().clone()).flatten();
        outage.map(|(server, report)| format!("{server}: {report}"))
    }

    /// What the server or the system said about the outage; empty if nothing.
    pub(crate) fn outage_said(&self) -> Box<str> {
        self.outage.lock().as_ref().map(|(_, report)| report.said.clone()).unwrap_or_default()
    }

    pub(crate) fn set_outage(&self, server: String, report: FailureReport) {
        *self.outage.lock() = Some((server, report));
    }

    /// How many nodes shared the store when it was last asked, this one included;
    /// 0 if that is not known.
    pub fn nodes(&self) -> u32 {
        self.nodes.load(Ordering::Relaxed)
    }

    /// These nodes, or the first hundred of them.
    pub fn node_list(&self) -> Vec<StoreNode> {
        self.node_list.lock().clone()
    }

    pub(crate) fn set_nodes(&self, count: u32, nodes: Vec<StoreNode>) {
        self.nodes.store(count, Ordering::Relaxed);
        *self.node_list.lock() = nodes;
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

    pub(crate) fn note_failure(&self, failure: StoreFailure) {
        if let Some(counter) = self.failure_counter(failure) {
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

    fn failure_counter(&self, failure: StoreFailure) -> Option<&StatsCounter> {
        let index = StoreFailure::ALL.iter().position(|other| *other == failure)?;
        self.failures.get(index)
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
    fn failures_are_counted_by_reason() {
        let stats = Stats::default();
        stats.note_failure(StoreFailure::Other);
        for failure in StoreFailure::ALL {
            assert_eq!(stats.failures(failure), u64::from(failure == StoreFailure::Other));
        }
    }
}
