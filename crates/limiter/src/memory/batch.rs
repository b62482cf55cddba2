//! Many checks at once: what each costs most is a line of memory that is in no cache.
//!
//! One check after the other waits for one line after the other, because a lock ends what a processor does
//! ahead. A batch locks all shards that it needs, in their order as requests with several
//! charges do, then touches all slots, whose lines are fetched side by side, and then decides.
//!
//! Invariant: the decisions are those of one check after the other.
//!
//! Deliberately not here: all or nothing. The checks of a batch have nothing to do with each other.

use std::hint::black_box;

use parking_lot::MutexGuard;
use smallvec::SmallVec;
use tollgate_core::{Charge, Decision, Time};

use super::table::Table;
use super::{MemoryStore, SHARDS_MAX};

/// Checks that are decided under the same locks. More lines than this are hardly fetched side by side, 64 gained
/// nothing, and others wait for these locks meanwhile.
const TOGETHER_MAX: usize = 16;
const WORDS: usize = SHARDS_MAX / 64;

/// The shards of a batch: a bit for each.
#[derive(Default)]
struct ShardBits([u64; WORDS]);

impl ShardBits {
    fn insert(&mut self, shard: usize) {
        if let Some(word) = self.0.get_mut(shard / 64) {
            *word |= 1 << (shard % 64);
        }
    }

    /// All of them, ascending.
    fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let rest = |word: &u64| (*word & (*word - 1) != 0).then_some(*word & word.wrapping_sub(1));
            let words = std::iter::successors((*word != 0).then_some(*word), rest);
            words.map(move |word| index * 64 + usize::try_from(word.trailing_zeros()).unwrap_or(0))
        })
    }

    /// How many are below this one.
    fn rank(&self, shard: usize) -> usize {
        let (index, bit) = (shard / 64, shard % 64);
        let below = self.0.iter().take(index).map(|word| word.count_ones()).sum::<u32>();
        let within = self.0.get(index).map_or(0, |word| (word & ((1 << bit) - 1)).count_ones());
        usize::try_from(below + within).unwrap_or(usize::MAX)
    }
}

impl MemoryStore {
    /// Decides a charge for each hash, one after the other, and hands out the decisions in that order, with
    /// their numbers, while nothing is locked.
    pub(crate) fn decide_batch<'a>(
        &self,
        hashes: &[u64],
        charge: impl Fn(usize) -> Charge<'a>,
        now: Time,
        mut decided: impl FnMut(usize, Decision),
    ) {
        let mut decisions: SmallVec<[Decision; TOGETHER_MAX]> = SmallVec::new();
        for (part, hashes) in hashes.chunks(TOGETHER_MAX).enumerate() {
            let first = part * TOGETHER_MAX;
            let mut shards = ShardBits::default();
            hashes.iter().for_each(|hash| shards.insert(self.shard_of(*hash)));
            let mut tables: SmallVec<[MutexGuard<'_, Table>; TOGETHER_MAX]> =
                shards.iter().map(|shard| self.lock(shard)).collect();
            let touched = hashes.iter().filter_map(|hash| {
                tables.get(shards.rank(self.shard_of(*hash))).map(|table| table.touch(*hash))
            });
            black_box(touched.fold(0, |sum, word| sum ^ word));
            for (at, hash) in hashes.iter().enumerate() {
                if let Some(table) = tables.get_mut(shards.rank(self.shard_of(*hash))) {
                    decisions.push(table.decide(*hash, &charge(first + at), now));
                }
            }
            drop(tables);
            for (at, decision) in decisions.drain(..).enumerate() {
                decided(first + at, decision);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_come_in_their_order_and_know_their_place() {
        let mut bits = ShardBits::default();
        for shard in [255, 0, 63, 64, 63, 130] {
            bits.insert(shard);
        }
        let all: Vec<usize> = bits.iter().collect();
        assert_eq!(all, [0, 63, 64, 130, 255]);
        assert!(all.iter().enumerate().all(|(place, shard)| bits.rank(*shard) == place));
    }
}
