//! Many checks at once: what each costs most is a line of memory that is in no cache.
//!
//! One check after the other waits for one line after the other, because a lock ends what a processor does
//! ahead. A batch takes the locks of all shards that it needs, then touches all slots, whose lines are fetched
//! side by side, and then decides. It never waits while it holds a lock: if somebody else has one of them, it lets go
//! of all and decides one check after the other, so that no two batches wait for each other in a circle.
//!
//! Invariant: the decisions are those of one check after the other.
//!
//! Deliberately not here: all or nothing. The checks of a batch have nothing to do with each other.

use std::hint::black_box;

use smallvec::SmallVec;
use tollgate_core::{Charge, Decision, PlainBucket, Time};

use super::shard_lock::ShardGuard;
use super::table::Table;
use super::{MemoryStore, SHARDS_MAX};

/// Checks that are decided under the same locks. A processor has hardly more lines on their way at once, and others
/// wait for these locks meanwhile.
const TOGETHER_MAX: usize = 32;

/// The locked shards of a batch.
struct LockedShards<'a> {
    tables: SmallVec<[ShardGuard<'a, Table>; TOGETHER_MAX]>,
    /// By shard, the place of its table; [`NOT_LOCKED`] if it is none of the batch.
    places: [u8; SHARDS_MAX],
}

const NOT_LOCKED: u8 = u8::MAX;

impl<'a> LockedShards<'a> {
    /// Locks the shards of these keys, each once; none if somebody else has one.
    fn lock(store: &'a MemoryStore, hashes: &[u64]) -> Option<Self> {
        let mut locked = Self { tables: SmallVec::new(), places: [NOT_LOCKED; SHARDS_MAX] };
        for hash in hashes {
            let shard = store.shard_of(*hash);
            let place = locked.places.get_mut(shard)?;
            if *place == NOT_LOCKED {
                *place = u8::try_from(locked.tables.len()).ok()?;
                locked.tables.push(store.shard(shard).table.try_lock()?);
            }
        }
        Some(locked)
    }

    /// The table of a key of the batch.
    #[inline]
    fn table(&mut self, store: &MemoryStore, hash: u64) -> &mut Table {
        let place = self.places.get(store.shard_of(hash)).copied().unwrap_or(NOT_LOCKED);
        self.tables.get_mut(usize::from(place)).expect("a batch locks the shards of all its keys")
    }
}

/// What is asked of each key of a batch, by its number.
pub(crate) trait BatchedCharges {
    /// The short way, if this charge has one.
    fn plain_bucket(&self, at: usize) -> Option<&PlainBucket>;
    /// The charge.
    fn charge(&self, at: usize) -> Charge<'_>;
}

impl MemoryStore {
    /// Decides a charge for each hash, one after the other, and hands out the decisions in that order, with
    /// their numbers, while nothing is locked.
    pub(crate) fn decide_batch(
        &self,
        hashes: &[u64],
        charges: &(impl BatchedCharges + ?Sized),
        now: Time,
        mut decided: impl FnMut(usize, Decision),
    ) {
        let mut decisions: SmallVec<[Decision; TOGETHER_MAX]> = SmallVec::new();
        for (part, hashes) in hashes.chunks(TOGETHER_MAX).enumerate() {
            let first = part * TOGETHER_MAX;
            match LockedShards::lock(self, hashes) {
                Some(mut locked) => {
                    black_box(
                        hashes.iter().fold(0, |sum, hash| sum ^ locked.table(self, *hash).touch(*hash)),
                    );
                    for (at, hash) in hashes.iter().enumerate() {
                        let (table, at) = (locked.table(self, *hash), first + at);
                        let checked =
                            charges.plain_bucket(at).and_then(|bucket| table.check_one(*hash, bucket, now));
                        decisions
                            .push(checked.unwrap_or_else(|| table.decide(*hash, &charges.charge(at), now)));
                    }
                }
                None => {
                    let one =
                        |(at, hash): (usize, &u64)| self.decide_hash(*hash, &charges.charge(first + at), now);
                    decisions.extend(hashes.iter().enumerate().map(one));
                }
            }
            for (at, decision) in decisions.drain(..).enumerate() {
                decided(first + at, decision);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Capacity;

    #[test]
    fn a_batch_locks_each_shard_once_and_waits_for_none() {
        let store = MemoryStore::new(Capacity::default());
        let shard = |number: u64| number << 56 | 1;
        let hashes = [shard(255), shard(0), shard(7), shard(255) | 2, shard(0) | 4];
        let locked = LockedShards::lock(&store, &hashes).expect("nobody has any");
        assert_eq!(locked.tables.len(), 3);
        assert!(LockedShards::lock(&store, &[shard(8), shard(7)]).is_none(), "somebody has one");
        assert!(store.shard(8).table.try_lock().is_some(), "what it had taken it let go");
        drop(locked);
        assert!(LockedShards::lock(&store, &hashes).is_some());
    }
}
