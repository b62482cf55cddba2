//! How long to wait before a call is made again: exponential back-off with full jitter.
//!
//! The wait before retry `n` is drawn evenly from zero to `base` × 2ⁿ, at most `longest`. What a server
//! asks for comes first and in full; chance is only ever added to it.

use std::time::Duration;

use fastrand::Rng;

/// How often and how patiently a call is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait is at most this; each further one may be twice as long.
    pub base: Duration,
    /// No wait is drawn from more than this.
    pub longest: Duration,
    /// Retries after the first call; 0 for none.
    pub retries: u32,
}

impl Backoff {
    /// The most that retry number `retry`, from 0, waits by chance.
    pub fn ceiling(&self, retry: u32) -> Duration {
        let factor = 1_u32.checked_shl(retry).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.longest)
    }

    /// The wait before retry number `retry`, from 0: what the server `told`, and by chance some more.
    pub fn wait(&self, retry: u32, told: Option<Duration>, rng: &mut Rng) -> Duration {
        told.unwrap_or_default().saturating_add(jitter(self.ceiling(retry), rng))
    }
}

/// Any span from zero to `most`, all alike.
pub(crate) fn jitter(most: Duration, rng: &mut Rng) -> Duration {
    let most_us = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(rng.u64(..=most_us))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BACKOFF: Backoff =
        Backoff { base: Duration::from_millis(20), longest: Duration::from_secs(1), retries: 3 };

    #[test]
    fn the_ceiling_doubles_up_to_the_longest() {
        let ceilings: Vec<u128> = (0..8).map(|retry| BACKOFF.ceiling(retry).as_millis()).collect();
        assert_eq!(ceilings, [20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        assert_eq!(BACKOFF.ceiling(u32::MAX), BACKOFF.longest);
    }

    proptest! {
        #[test]
        fn a_wait_is_never_shorter_than_told_nor_longer_than_the_ceiling_more(
            retry in 0_u32..40, told_ms in prop::option::of(0_u64..100_000), seed: u64,
        ) {
            let told = told_ms.map(Duration::from_millis);
            let wait = BACKOFF.wait(retry, told, &mut fastrand::Rng::with_seed(seed));
            let least = told.unwrap_or_default();
            prop_assert!(wait >= least && wait <= least + BACKOFF.ceiling(retry));
        }
    }

    /// Full jitter: a tenth of a thousand draws falls into each tenth of the range, give or take.
    #[test]
    fn waits_are_spread_over_the_whole_range() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut tenths = [0_u32; 10];
        for _ in 0..1_000 {
            let wait = jitter(Duration::from_micros(999), &mut rng);
            tenths[usize::try_from(wait.as_micros() / 100).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (60..=140).contains(count)), "{tenths:?}");
    }
}
