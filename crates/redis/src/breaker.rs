//! Whether a server is worth asking.
//!
//! [`crate::node::Node`] reports what became of each call. Some failures in a
//! row, or one that is sure to last, open the breaker: from then on no request
//! waits for the server, while one prober at a time asks whether it is back.
//!
//! Invariant: an open breaker has a prober, or the next call starts one; only
//! the prober's success closes it.
//!
//! Deliberately not here: what a probe is, and what requests do meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Timeouts in a row that open the breaker. One slow answer is no reason, and
/// under load five come within a millisecond of each other.
pub(crate) const FAILURES_TO_OPEN: u32 = 5;
/// How long until the first probe.
const PROBE_FIRST: Duration = Duration::from_millis(50);
/// Probes come no less often: the store must be back within 3 s of its return.
const PROBE_SLOWEST: Duration = Duration::from_millis(800);

/// Closed, or open with or without a prober.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    is_open: AtomicBool,
    failures: AtomicU32,
    is_probed: AtomicBool,
}

impl Breaker {
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// The server answered.
    pub(crate) fn succeeded(&self) {
        // A load is cheaper than a store that all threads share.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// The server did not answer so many requests; whether this opened the
    /// breaker.
    pub(crate) fn failed(&self, requests: u32) -> bool {
        let failures = self.failures.fetch_add(requests, Ordering::Relaxed).saturating_add(requests);
        failures >= FAILURES_TO_OPEN && self.open()
    }

    /// Opens it; whether it was closed before.
    pub(crate) fn open(&self) -> bool {
        !self.is_open.swap(true, Ordering::AcqRel)
    }

    /// Closes it; whether it was open before.
    pub(crate) fn close(&self) -> bool {
        self.failures.store(0, Ordering::Relaxed);
        self.is_open.swap(false, Ordering::AcqRel)
    }

    /// Becomes the prober, if there is none.
    pub(crate) fn claim_probe(&self) -> bool {
        !self.is_probed.load(Ordering::Relaxed) && !self.is_probed.swap(true, Ordering::AcqRel)
    }

    /// The prober is gone.
    pub(crate) fn release_probe(&self) {
        self.is_probed.store(false, Ordering::Release);
    }
}

/// How long to wait before probe number `probe`: twice as long each time up to
/// the slowest, and each time up to half as much again by chance, so that the
/// nodes of a fleet do not knock together.
pub(crate) fn pause(probe: u32) -> Duration {
    let steady = PROBE_FIRST.saturating_mul(2_u32.saturating_pow(probe)).min(PROBE_SLOWEST);
    let jitter_us = fastrand::u64(0..=u64::try_from(steady.as_micros() / 2).unwrap_or(0));
    steady + Duration::from_micros(jitter_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
        let breaker = Breaker::default();
        for _ in 1..FAILURES_TO_OPEN {
            assert!(!breaker.failed(1));
        }
        breaker.succeeded();
        for _ in 1..FAILURES_TO_OPEN {
            assert!(!breaker.failed(1));
        }
        assert!(!breaker.is_open());
        assert!(breaker.failed(1), "the last one opens it");
        assert!(breaker.is_open());
        assert!(!breaker.failed(1), "and is told once");
        assert!(breaker.close());
        assert!(!breaker.is_open());
    }

    #[test]
    fn one_prober_at_a_time() {
        let breaker = Breaker::default();
        assert!(breaker.claim_probe());
        assert!(!breaker.claim_probe());
        breaker.release_probe();
        assert!(breaker.claim_probe());
    }

    #[test]
    fn probes_slow_down_to_a_pace_that_keeps_the_promise() {
        for probe in [0, 1, 5, 100] {
            let pause = pause(probe);
            assert!(pause >= PROBE_FIRST && pause <= PROBE_SLOWEST + PROBE_SLOWEST / 2, "{pause:?}");
        }
        assert!(PROBE_SLOWEST * 3 / 2 + Duration::from_secs(1) < Duration::from_secs(3));
    }
}
