//! How long to wait before the next attempt: exponential back-off with jitter.

use std::time::Duration;

use tollgate_settings::XdsBackoff;

/// Waits that double from the first to the longest, each shortened at random,
/// so that many clients do not come back at one instant.
#[derive(Debug)]
pub(super) struct RetryBackoff {
    backoff: XdsBackoff,
    next: Duration,
}

impl RetryBackoff {
    pub(super) fn new(backoff: &XdsBackoff) -> Self {
        Self { backoff: backoff.clone(), next: backoff.initial }
    }

    /// The next wait without jitter.
    fn step(&mut self) -> Duration {
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(self.backoff.max);
        wait
    }

    pub(super) fn next(&mut self) -> Duration {
        let wait = self.step();
        let most = wait.saturating_mul(self.backoff.random_permille.min(1_000)) / 1_000;
        wait - most.saturating_mul(fastrand::u32(0..1_000)) / 1_000
    }

    /// All went well: starts again.
    pub(super) fn reset(&mut self) {
        self.next = self.backoff.initial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff(random_permille: u32) -> RetryBackoff {
        let (initial, max) = (Duration::from_secs(1), Duration::from_secs(5));
        RetryBackoff::new(&XdsBackoff { initial, max, random_permille })
    }

    #[test]
    fn waits_double_up_to_the_longest_and_start_again_after_a_success() {
        let mut backoff = backoff(0);
        let seconds: Vec<u64> = (0..5).map(|_| backoff.next().as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 5, 5]);
        backoff.reset();
        assert_eq!(backoff.next(), Duration::from_secs(1));
    }

    #[test]
    fn jitter_only_shortens_a_wait() {
        for _ in 0..100 {
            let wait = backoff(500).next();
            assert!(wait > Duration::from_millis(499) && wait <= Duration::from_secs(1), "{wait:?}");
        }
    }
}
