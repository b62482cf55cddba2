//! The circuit breaker of a server.
//!
//! [`super::server`] reports how each call ended. Some timeouts in a row, or one
//! failure that is sure to last, open the breaker: from then on no request waits
//! for the server. Instead of a half-open state that lets a request through, one
//! task probes the server with back-off, and closes the breaker when it is back.
//!
//! Invariant: an open breaker has a prober, or the next call starts one; only a
//! probe that succeeds closes it.
//!
//! Deliberately not here: what a probe is, and what requests do meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Timeouts in a row that open the breaker. One slow reply is no reason, and
/// under load five come within a millisecond of each other.
const FAILURES_TO_OPEN: u32 = 5;
/// How long until the first probe.
const BACK_OFF_FIRST: Duration = Duration::from_millis(50);
/// The longest back-off: the store must be used again within 3 s of its return.
const BACK_OFF_MAX: Duration = Duration::from_millis(800);

/// Closed, or open with or without a prober.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker {
    is_open: AtomicBool,
    failures: AtomicU32,
    is_probed: AtomicBool,
    opened_at: Mutex<Option<Instant>>,
}

impl CircuitBreaker {
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

    /// The server left so many requests without a reply; whether this opened the
    /// breaker.
    pub(crate) fn failed(&self, requests: u32) -> bool {
        let failures = self.failures.fetch_add(requests, Ordering::Relaxed).saturating_add(requests);
        failures >= FAILURES_TO_OPEN && self.open()
    }

    /// Opens it; whether it was closed.
    pub(crate) fn open(&self) -> bool {
        let was_closed = !self.is_open.swap(true, Ordering::AcqRel);
        if was_closed {
            *self.opened_at.lock() = Some(Instant::now());
        }
        was_closed
    }

    /// How long it has been open; zero if it is closed.
    pub(crate) fn open_for(&self) -> Duration {
        let opened_at = self.is_open().then(|| *self.opened_at.lock()).flatten();
        opened_at.map_or(Duration::ZERO, |opened_at| opened_at.elapsed())
    }

    /// Closes it; whether it was open.
    pub(crate) fn close(&self) -> bool {
        self.failures.store(0, Ordering::Relaxed);
        self.is_open.swap(false, Ordering::AcqRel)
    }

    /// Makes the caller the prober, if there is none.
    pub(crate) fn claim_probe(&self) -> bool {
        !self.is_probed.load(Ordering::Relaxed) && !self.is_probed.swap(true, Ordering::AcqRel)
    }

    /// The prober is gone.
    pub(crate) fn release_probe(&self) {
        self.is_probed.store(false, Ordering::Release);
    }
}

/// How long to wait before this attempt: twice as long each time, up to the
/// longest, with up to half as much again of jitter, so that the nodes of a
/// fleet do not probe at the same instant.
pub(crate) fn back_off(attempt: u32) -> Duration {
    let steady = BACK_OFF_FIRST.saturating_mul(2_u32.saturating_pow(attempt)).min(BACK_OFF_MAX);
    let jitter_us = fastrand::u64(0..=u64::try_from(steady.as_micros() / 2).unwrap_or(0));
    steady + Duration::from_micros(jitter_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
        let breaker = CircuitBreaker::default();
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
        let breaker = CircuitBreaker::default();
        assert!(breaker.claim_probe());
        assert!(!breaker.claim_probe());
        breaker.release_probe();
        assert!(breaker.claim_probe());
    }

    #[test]
    fn back_off_stays_short_enough_for_the_promise() {
        for attempt in [0, 1, 5, 100] {
            let wait = back_off(attempt);
            assert!(wait >= BACK_OFF_FIRST && wait <= BACK_OFF_MAX + BACK_OFF_MAX / 2, "{wait:?}");
        }
        assert!(BACK_OFF_MAX * 3 / 2 + Duration::from_secs(1) < Duration::from_secs(3));
    }
}
