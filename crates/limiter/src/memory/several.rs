//! Several charges of one request, decided under the locks of all their shards.
//!
//! [`MemoryStore::decide`] comes here with every set but that of a single charge. Nearly all of them pass: every key is
//! known, and every charge takes something. Then nothing has to be undone and nobody told of a denial, and each
//! state is replaced where it lies. All else is decided by [`decide_together`].
//!
//! Invariants: shards are locked in their order, so that two sets never wait for each other. Where everything
//! passes, decisions and states are those of [`decide_together`]; a property holds both beside each other.

use smallvec::SmallVec;
use tollgate_core::{Change, State, StateRef, Time};

use super::MemoryStore;
use super::shard_lock::ShardGuard;
use super::table::{CellChange, Table};
use crate::charge_set::{CHARGES_USUAL, COMPARED_MAX, ChargeSet, Decisions, States, decide_together};

impl MemoryStore {
    pub(super) fn decide_several(&self, hashes: &[u64], set: &ChargeSet<'_>, now: Time) -> Decisions {
        let mut shards: SmallVec<[usize; CHARGES_USUAL]> =
            hashes.iter().map(|hash| self.shard_of(*hash)).collect();
        shards.sort_unstable();
        shards.dedup();
        let tables = shards.iter().map(|shard| self.lock(*shard)).collect();
        let mut locked = LockedShards { store: self, hashes, shards, tables };
        locked.take_all(set, now).unwrap_or_else(|| {
            let decisions = decide_together(set, &mut locked, now);
            for (shard, table) in locked.shards.iter().zip(&locked.tables) {
                self.note_slots(self.shard(*shard), table);
            }
            decisions
        })
    }
}

/// The shards of a set, locked.
struct LockedShards<'a> {
    store: &'a MemoryStore,
    hashes: &'a [u64],
    shards: SmallVec<[usize; CHARGES_USUAL]>,
    tables: SmallVec<[ShardGuard<'a, Table>; CHARGES_USUAL]>,
}

impl LockedShards<'_> {
    /// Takes what all charges ask for, if every one passes; else none, and nothing has changed.
    fn take_all(&mut self, set: &ChargeSet<'_>, now: Time) -> Option<Decisions> {
        if set.is_denied_elsewhere || set.charges.len() > COMPARED_MAX {
            return None;
        }
        let mut decisions = Decisions::new();
        let mut changes: SmallVec<[CellChange; CHARGES_USUAL]> = SmallVec::new();
        for (index, charge) in set.charges.iter().enumerate() {
            let (hash, table) = self.place(index)?;
            // The second charge of a key is decided over what the first has left.
            if self.hashes.get(..index)?.contains(&hash) {
                return None;
            }
            let change = self.tables.get(table)?.take(hash, charge, now)?;
            decisions.push(change.decision);
            changes.push(change);
        }
        for (index, change) in changes.into_iter().enumerate() {
            let (hash, table) = self.place(index)?;
            self.tables.get_mut(table)?.put_words(change.at, hash, change.words);
        }
        Some(decisions)
    }

    /// The hash of a charge and the place of its table among the locked ones.
    fn place(&self, charge: usize) -> Option<(u64, usize)> {
        let hash = *self.hashes.get(charge)?;
        let table = self.shards.binary_search(&self.store.shard_of(hash)).ok()?;
        Some((hash, table))
    }
}

impl States for LockedShards<'_> {
    fn get(&self, charge: usize) -> Option<StateRef<'_>> {
        let (hash, table) = self.place(charge)?;
        let table = self.tables.get(table)?;
        table.state(table.find(hash)?)
    }

    fn change(&mut self, charge: usize, change: Change, now: Time) -> Option<State> {
        let (hash, table) = self.place(charge)?;
        self.tables.get_mut(table)?.change(hash, change, now)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use tollgate_core::{Charge, Entry, Key, Limit, Micros, Mode, Operation, Refill, Shape};

    use super::*;

    /// States in a map by the name of a key and the number of its limit.
    struct MapStates<'a> {
        keys: Vec<(usize, usize)>,
        states: &'a mut HashMap<(usize, usize), State>,
    }

    impl States for MapStates<'_> {
        fn get(&self, charge: usize) -> Option<StateRef<'_>> {
            self.states.get(&self.keys[charge]).map(State::as_ref)
        }

        fn change(&mut self, charge: usize, change: Change, _: Time) -> Option<State> {
            let key = self.keys[charge];
            match change {
                Change::Keep => None,
                Change::Put(state) => self.states.insert(key, state),
                Change::Remove => self.states.remove(&key),
            }
        }
    }

    const NAMES: [&str; 3] = ["ann", "bob", "eve"];
    const MODES: [Mode; 4] = [Mode::Enforce, Mode::Shadow, Mode::Quota, Mode::ShadowQuota];
    const OPERATIONS: [Operation; 5] =
        [Operation::Check, Operation::Check, Operation::Peek, Operation::Report, Operation::Refund];

    fn limits() -> Vec<Limit> {
        let hourly = |count, shape| Limit::new(count, Micros::from_secs(3_600), shape).unwrap();
        let bucket = Shape::TokenBucket { burst: 9, refill: Refill::Smooth };
        vec![
            hourly(7, bucket),
            hourly(5, bucket).counting_rejected(true),
            hourly(5, bucket).soft(40).unwrap(),
            hourly(6, Shape::FixedWindow),
            hourly(6, Shape::SlidingCounter),
            hourly(6, Shape::LeakyBucket { burst: 3, max_wait: None }),
            hourly(6, Shape::SlidingLog),
            hourly(6, bucket).with_postpaid(true),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn sets_that_pass_are_decided_as_all_others(
            sets in prop::collection::vec(
                (
                    prop::collection::vec((0..3_usize, 0..8_usize, 0..4_usize, 0..5_usize, 0..3_u64), 2..5),
                    0..2_000_u64,
                    any::<bool>(),
                ),
                1..40,
            ),
            [is_plain, is_steady] in any::<[bool; 2]>(),
        ) {
            let (limits, store) = (limits(), MemoryStore::default());
            let mut states = HashMap::new();
            // In the midst of an hour, at whose end windows run out.
            let mut now = Time::from_secs(1_800_001_800);
            for (charges, pause_s, is_denied_elsewhere) in sets {
                // A clock that goes back and forth, and then by seconds: a table may have dropped what has run out, and a
                // map has not.
                let pause = Micros::from_secs(if is_steady { pause_s } else { pause_s % 4 });
                let is_back = !is_steady && pause_s % 3 == 0;
                now = if is_back { Time::new(now.get() - pause.get()) } else { now + pause };
                let entries: Vec<[Entry<'_>; 1]> =
                    charges.iter().map(|charge| [Entry { key: "user", value: NAMES[charge.0] }]).collect();
                let mut set = ChargeSet { is_denied_elsewhere: is_denied_elsewhere && !is_plain, ..ChargeSet::default() };
                for (index, ((_, limit, mode, operation, cost), entries)) in charges.iter().zip(&entries).enumerate() {
                    let (mode, operation, cost) = match is_plain {
                        true => (Mode::Enforce, Operation::Check, 1),
                        false => (MODES[*mode], OPERATIONS[*operation], *cost),
                    };
                    let key = Key { domain: "shop", entries, shared: &[], limit: &limits[*limit], ordinal: u32::try_from(*limit).unwrap() };
                    set.charges.push(Charge { descriptor: index, rule: None, key, mode, operation, cost });
                }
                let keys = charges.iter().map(|charge| (charge.0, charge.1)).collect();
                let expected = decide_together(&set, &mut MapStates { keys, states: &mut states }, now);
                let hashes: Vec<u64> = set.charges.iter().map(|charge| store.hash(&charge.key)).collect();
                prop_assert_eq!(store.decide_several(&hashes, &set, now), expected, "{:?} at {:?}", set, now);
            }
        }
    }
}
