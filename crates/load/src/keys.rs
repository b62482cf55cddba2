//! Which key comes next: uniform, or Zipf.
//!
//! The numbers are the same in every run with the same seed, so that runs can be compared.

use std::sync::Arc;

use crate::plan::KeySpace;

/// How keys are distributed; made once, shared by all connections.
#[derive(Debug, Clone)]
pub(crate) enum KeyDistribution {
    Uniform {
        count: u32,
    },
    /// The share of all keys up to this one, of 2^53.
    Zipf {
        shares: Arc<[u64]>,
    },
}

/// Draws from a distribution.
#[derive(Debug)]
pub(crate) struct KeySource {
    state: u64,
    distribution: KeyDistribution,
}

impl KeyDistribution {
    pub(crate) fn new(keys: KeySpace) -> Self {
        match keys.zipf {
            None => Self::Uniform { count: keys.count },
            Some(exponent) => Self::Zipf { shares: shares(keys.count, exponent) },
        }
    }
}

/// A share of everything.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// The n-th key comes in proportion to `1 / n^exponent`.
#[expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    reason = "a distribution is made of fractions, and each is below 2^53"
)]
fn shares(count: u32, exponent: f64) -> Arc<[u64]> {
    let weights = || (1..=count).map(|n| f64::from(n).powf(-exponent));
    let all: f64 = weights().sum();
    let mut sum = 0.0;
    let up_to = weights().map(|weight| {
        sum += weight;
        (sum / all * WHOLE) as u64
    });
    up_to.collect()
}

impl KeySource {
    pub(crate) fn new(distribution: KeyDistribution, seed: u64) -> Self {
        Self { state: seed, distribution }
    }

    /// The next key, from 0.
    pub(crate) fn draw(&mut self) -> u32 {
        let random = self.random();
        match &self.distribution {
            KeyDistribution::Uniform { count } => {
                let scaled = (u128::from(random) * u128::from(*count)) >> 64;
                u32::try_from(scaled).unwrap_or(0)
            }
            KeyDistribution::Zipf { shares } => {
                let (point, last) = (random >> 11, shares.len().saturating_sub(1));
                let index = shares.partition_point(|share| *share <= point).min(last);
                u32::try_from(index).unwrap_or(0)
            }
        }
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014): equal in all bits, and fast.
    const fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(keys: KeySpace) -> Vec<u32> {
        let mut counts = vec![0; usize::try_from(keys.count).unwrap()];
        let mut drawer = KeySource::new(KeyDistribution::new(keys), 1);
        for _ in 0..1_000_000 {
            counts[usize::try_from(drawer.draw()).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn all_keys_come_equally_often() {
        let counts = drawn(KeySpace { count: 10, zipf: None, seed: 0 });
        // Ten standard deviations are 3,000.
        assert!(counts.iter().all(|count| (97_000..=103_000).contains(count)), "{counts:?}");
    }

    #[test]
    fn by_zipf_the_second_comes_half_as_often_as_the_first() {
        let counts = drawn(KeySpace { count: 4, zipf: Some(1.0), seed: 0 });
        // 12, 6, 4 and 3 of 25.
        for (count, expected) in counts.iter().zip([480_000_u32, 240_000, 160_000, 120_000]) {
            assert!(count.abs_diff(expected) < 5_000, "{counts:?}");
        }
    }

    #[test]
    fn one_key_is_always_the_same() {
        for zipf in [None, Some(1.2)] {
            assert_eq!(drawn(KeySpace { count: 1, zipf, seed: 0 }), [1_000_000]);
        }
    }
}
