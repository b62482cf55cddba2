//! How long to wait before the next attempt.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use tollgate_settings::Backoff;

/// Waits that double from the first to the longest, each with a random part
/// taken off, so that many clients do not come back at one instant.
#[derive(Debug)]
pub(super) struct Waits {
    backoff: Backoff,
    next: Duration,
}

impl Waits {
    pub(super) fn new(backoff: &Backoff) -> Self {
        Self { backoff: backoff.clone(), next: backoff.initial }
    }

    /// The next wait, without its random part.
    fn step(&mut self) -> Duration {
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(self.backoff.max);
        wait
    }

    pub(super) fn next(&mut self) -> Duration {
        let wait = self.step();
        let most = wait.saturating_mul(self.backoff.random_permille.min(1_000)) / 1_000;
        wait - part(most, random_permille())
    }

    /// All went well: starts again.
    pub(super) fn reset(&mut self) {
        self.next = self.backoff.initial;
    }
}

fn part(of: Duration, permille: u32) -> Duration {
    of.saturating_mul(permille) / 1_000
}

/// From 0 to 999. Only fairness depends on it, so that the seed of a hash map will do.
fn random_permille() -> u32 {
    u32::try_from(RandomState::new().build_hasher().finish() % 1_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(random_permille: u32) -> Waits {
        let (initial, max) = (Duration::from_secs(1), Duration::from_secs(5));
        Waits::new(&Backoff { initial, max, random_permille })
    }

    #[test]
    fn waits_double_up_to_the_longest_and_start_again_after_a_success() {
        let mut waits = waits(0);
        let seconds: Vec<u64> = (0..5).map(|_| waits.next().as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 5, 5]);
        waits.reset();
        assert_eq!(waits.next(), Duration::from_secs(1));
    }

    #[test]
    fn the_random_part_is_only_taken_off() {
        for _ in 0..100 {
            let wait = waits(500).next();
            assert!(wait > Duration::from_millis(499) && wait <= Duration::from_secs(1), "{wait:?}");
        }
    }
}
