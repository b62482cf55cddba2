//! Many checks at once: what each costs most is a line of memory that is in no cache.
//!
//! One check after the other waits for one line after the other. A batch first tells the processor which lines it
//! will need (a prefetch, which nobody waits for), so that they come side by side. Then it checks one key after the
//! other. Each shard is locked for a moment at a time, so that batches of several threads do not keep each other off.
//!
//! Invariants: the decisions are those of one check after the other, because that is what is done; fetching ahead
//! changes nothing, and waits for nobody.
//!
//! Deliberately not here: all or nothing. The checks of a batch have nothing to do with each other.

use smallvec::SmallVec;
use tollgate_core::{Charge, Decision, PlainBucket, Time};

use super::MemoryStore;

/// Keys that are fetched ahead together. What comes first must still be in the cache when it is checked.
const TOGETHER_MAX: usize = 64;

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
    #[inline]
    pub(crate) fn decide_batch(
        &self,
        hashes: impl IntoIterator<Item = u64>,
        charges: &(impl BatchedCharges + ?Sized),
        now: Time,
        mut decided: impl FnMut(usize, Decision),
    ) {
        let (mut hashes, mut first) = (hashes.into_iter(), 0);
        let mut part: SmallVec<[u64; TOGETHER_MAX]> = SmallVec::new();
        loop {
            part.clear();
            for hash in hashes.by_ref().take(TOGETHER_MAX) {
                self.prefetch(hash);
                part.push(hash);
            }
            if part.is_empty() {
                return;
            }
            for (at, hash) in part.iter().enumerate() {
                let at = first + at;
                let bucket = charges.plain_bucket(at);
                // In a statement of its own, at whose end the shard is let go: `decided` may ask the store again.
                let check = bucket.and_then(|bucket| self.check_one(*hash, bucket, now));
                match bucket.zip(check) {
                    Some((bucket, check)) => decided(at, bucket.decision(check)),
                    None => decided(at, self.decide_any(*hash, charges.charge(at), now)),
                }
            }
            first += part.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use tollgate_core::{Key, Limit, Mode, Operation};

    use super::*;

    /// Long beside any check on any machine.
    const PATIENCE: Duration = Duration::from_secs(30);

    struct OneOf(Limit);

    impl BatchedCharges for OneOf {
        fn plain_bucket(&self, _: usize) -> Option<&PlainBucket> {
            self.0.plain_bucket()
        }

        fn charge(&self, _: usize) -> Charge<'_> {
            let key = Key { domain: "", entries: &[], shared: &[], limit: &self.0, ordinal: 0 };
            let (mode, operation) = (Mode::Enforce, Operation::Check);
            Charge { descriptor: 0, rule: None, key, mode, operation, cost: 1 }
        }
    }

    /// Keys that are new, and keys that are known and take the short way.
    #[test]
    fn whoever_is_told_a_decision_may_ask_the_store_again() {
        let store = MemoryStore::default();
        let charges = OneOf(Limit::per_hour(2).build().unwrap());
        let now = Time::from_secs(1_800_000_000);
        let hashes: Vec<u64> = (1..=100_u64).map(|key| store.hash_of(&key)).collect();
        for _ in 0..2 {
            let mut free = 0;
            store.decide_batch(hashes.iter().copied(), &charges, now, |at, _| {
                free += usize::from(store.shard(store.shard_of(hashes[at])).table.try_lock().is_some());
            });
            assert_eq!(free, hashes.len());
        }
    }

    /// One by one and in a batch, over either kind of check; a denial is answered while somebody else has the shard.
    #[test]
    fn a_key_that_was_denied_is_only_read() {
        let limits = [
            Limit::per_hour(1).build().unwrap(),
            Limit::new(1, tollgate_core::Micros::from_secs(60), tollgate_core::Shape::FixedWindow).unwrap(),
        ];
        let now = Time::from_secs(1_800_000_000);
        for (charges, is_batch) in
            limits.into_iter().map(OneOf).flat_map(|one| [(OneOf(one.0), true), (one, false)])
        {
            let store = MemoryStore::default();
            let hash = store.hash_of(&1);
            let check = || store.decide_hash(hash, &charges.charge(0), now).verdict.is_deny();
            assert!(!check());
            if is_batch {
                store.decide_batch([hash], &charges, now, |_, decision| assert!(decision.verdict.is_deny()));
            } else {
                assert!(check());
            }
            let held = store.lock(store.shard_of(hash));
            let (said, heard) = mpsc::channel();
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut are_denied = check();
                    store.prefetch(hash);
                    store.decide_batch([hash], &charges, now, |_, decision| {
                        are_denied &= decision.verdict.is_deny();
                    });
                    said.send(are_denied).unwrap();
                });
                let answer = heard.recv_timeout(PATIENCE);
                // Before anything is said of it, so that a thread that waits for the lock ends.
                drop(held);
                assert_eq!(answer, Ok(true));
            });
            store.forget_hash(hash);
            assert!(!check());
        }
    }

    /// They have one half of the hash in common, and so one note; the copy is of one of them.
    #[test]
    fn keys_with_half_of_a_hash_in_common_do_not_answer_for_each_other() {
        let (store, now) = (MemoryStore::default(), Time::from_secs(1_800_000_000));
        let charges = OneOf(Limit::per_hour(1).build().unwrap());
        let denied = store.hash_of(&1);
        let other = denied ^ 1 << 40;
        let is_denied = |hash, now| store.decide_hash(hash, &charges.charge(0), now).verdict.is_deny();
        assert_eq!(store.shard_of(denied), store.shard_of(other));
        assert_eq!([denied, denied, other].map(|hash| is_denied(hash, now)), [false, true, false]);
        for _ in 0..3 {
            assert_eq!([other, denied].map(|hash| is_denied(hash, now)), [true, true]);
            assert!(store.forget_hash(other));
            assert_eq!([denied, other].map(|hash| is_denied(hash, now)), [true, false]);
        }
        let later = now + tollgate_core::Micros::from_secs(3_600);
        assert_eq!([denied, other].map(|hash| is_denied(hash, later)), [false, false]);
    }

    /// A batch that began while another thread has a shard goes on once that is free.
    #[test]
    fn a_batch_waits_for_a_shard_only_when_its_turn_has_come() {
        const KEYS: u64 = 200;
        let store = MemoryStore::default();
        let charges = OneOf(Limit::per_hour(1).build().unwrap());
        let now = Time::from_secs(1_800_000_000);
        let hashes: Vec<u64> = (1..=KEYS).map(|key| store.hash_of(&key)).collect();
        let last = *hashes.last().unwrap();
        let (said, heard) = mpsc::channel();
        thread::scope(|scope| {
            let held = store.lock(store.shard_of(last));
            store.prefetch(last);
            let batch = scope.spawn(|| {
                let mut allowed = 0;
                store.decide_batch(hashes.iter().copied(), &charges, now, |at, decision| {
                    allowed += u64::from(!decision.verdict.is_deny());
                    if at == 0 {
                        said.send(()).unwrap();
                    }
                });
                allowed
            });
            if store.shard_of(hashes[0]) != store.shard_of(last) {
                heard.recv().unwrap();
            }
            drop(held);
            assert_eq!(batch.join().unwrap(), KEYS);
        });
        let mut denied = 0;
        store.decide_batch(hashes, &charges, now, |_, decision| {
            denied += u64::from(decision.verdict.is_deny());
        });
        assert_eq!(denied, KEYS);
    }
}
