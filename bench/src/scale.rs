//! A simulation behind `docs/scale.md`: how unevenly keys load shards, and what the loss of a shard does.
//!
//! Keys are put on shards by consistent hashing: each shard has many points on a ring, and a key belongs to
//! the first point behind its hash. How often a key is asked follows Zipf's law: the nth comes 1/nˢ as often as
//! the first. Everything is the same in every run, so that a test holds the page to it.
//!
//! Deliberately not here: time, queues and networks; what a shard can do is measured (`docs/performance.md`).
#![expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "shares of a whole, for people to read"
)]

use crate::report::table::MarkdownTable;

/// Keys that are asked for.
const KEYS: u64 = 100_000;
/// Points of each shard on the ring, as many proxies have.
const POINTS: u64 = 128;
/// Zipf's exponents: all alike, popular, very popular.
const EXPONENTS: [f64; 4] = [0.0, 0.8, 1.0, 1.2];
const SHARDS: [usize; 2] = [10, 100];

/// What keys of one exponent do to so many shards.
#[derive(Debug, Clone, Copy)]
struct ShardLoads {
    /// The part of all requests that one key gets.
    hottest_key: f64,
    /// The busiest shard beside the mean.
    busiest: f64,
    /// The same without the hottest key.
    busiest_without_hottest: f64,
    /// The part of keys that move when the busiest shard is lost.
    moved: f64,
    /// The busiest shard after that, beside the mean of before.
    busiest_after_loss: f64,
}

/// What keys of one exponent come to, each at its home.
fn simulate(ring: &Ring, homes: &[usize], exponent: f64) -> ShardLoads {
    let shards = ring.shards;
    let weights: Vec<f64> = (1..=KEYS).map(|rank| (rank as f64).powf(-exponent)).collect();
    let all: f64 = weights.iter().sum();
    let mean = all / shards as f64;
    let load = |lost: Option<usize>, without: usize| {
        let mut loads = vec![0.0; shards];
        for (key, (weight, home)) in weights.iter().zip(homes).enumerate().skip(without) {
            let shard = if Some(*home) == lost { ring.shard(key, lost) } else { *home };
            if let Some(load) = loads.get_mut(shard) {
                *load += weight;
            }
        }
        loads
    };
    let loads = load(None, 0);
    let busiest = index_of_most(&loads);
    let moved = homes.iter().filter(|home| **home == busiest).count();
    ShardLoads {
        hottest_key: weights.first().copied().unwrap_or(0.0) / all,
        busiest: most(&loads) / mean,
        busiest_without_hottest: most(&load(None, 1)) / mean,
        moved: moved as f64 / weights.len() as f64,
        busiest_after_loss: most(&load(Some(busiest), 0)) / mean,
    }
}

/// All of it as the page has it.
pub fn table() -> String {
    let mut table = MarkdownTable::new([
        "shards, and keys by Zipf's law",
        "the hottest key",
        "busiest shard beside the mean",
        "without the hottest key",
        "keys that move if it is lost",
        "busiest shard then",
    ]);
    for shards in SHARDS {
        let ring = Ring::new(shards);
        let homes = ring.homes();
        for exponent in EXPONENTS {
            let loads = simulate(&ring, &homes, exponent);
            table.row([
                format!("{shards} shards, s = {exponent:.1}"),
                format!("{:.2} %", loads.hottest_key * 100.0),
                format!("{:.2}×", loads.busiest),
                format!("{:.2}×", loads.busiest_without_hottest),
                format!("{:.1} %", loads.moved * 100.0),
                format!("{:.2}×", loads.busiest_after_loss),
            ]);
        }
    }
    table.to_string()
}

/// Shards on a ring of hashes.
struct Ring {
    points: Vec<(u64, usize)>,
    shards: usize,
}

impl Ring {
    fn new(shards: usize) -> Self {
        let points =
            |shard: usize| (0..POINTS).map(move |point| (mixed((shard as u64) << 32 | point), shard));
        let mut points: Vec<_> = (0..shards).flat_map(points).collect();
        points.sort_unstable();
        Self { points, shards }
    }

    /// The shards of all keys.
    fn homes(&self) -> Vec<usize> {
        (0..KEYS as usize).map(|key| self.shard(key, None)).collect()
    }

    /// The shard of a key, if one of them is lost.
    fn shard(&self, key: usize, lost: Option<usize>) -> usize {
        let hash = mixed(key as u64 | 1 << 63);
        let from = self.points.partition_point(|(point, _)| *point < hash);
        let round = self.points.iter().skip(from).chain(&self.points);
        round.map(|(_, shard)| *shard).find(|shard| Some(*shard) != lost).unwrap_or(0)
    }
}

/// A hash: the finaliser of splitmix64.
fn mixed(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

fn most(loads: &[f64]) -> f64 {
    loads.iter().copied().fold(0.0, f64::max)
}

fn index_of_most(loads: &[f64]) -> usize {
    let most = most(loads);
    loads.iter().position(|load| *load >= most).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_what_the_simulation_says() {
        let page = include_str!("../../docs/scale.md");
        assert!(page.contains(&table()), "put this into docs/scale.md:\n{}", table());
    }

    #[test]
    fn equal_keys_load_shards_evenly_and_one_key_cannot_be_split() {
        let simulate = |shards, exponent| {
            let ring = Ring::new(shards);
            simulate(&ring, &ring.homes(), exponent)
        };
        let even = simulate(10, 0.0);
        assert!(even.busiest < 1.35 && even.hottest_key < 1e-4, "{even:?}");
        let hot = simulate(100, 1.2);
        assert!(hot.busiest > 100.0 * hot.hottest_key && hot.busiest_after_loss > 15.0, "{hot:?}");
    }
}
