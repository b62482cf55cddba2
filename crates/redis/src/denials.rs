//! Remembers denials, so that who is denied until T does not ask before T.
//!
//! [`crate::RedisStore`] remembers what the store denied, looks here first, and
//! has a key forgotten when something of it is given back or it is reset. A
//! changed rule is not found, for its numbers are part of what is remembered.
//!
//! Invariants: nothing is denied longer than the store said; a limit for which
//! a denied request changes something is not remembered, but for fixed windows,
//! where it changes no decision: that is envoyproxy/ratelimit's local cache.
//! The memory never grows beyond its bytes.
//!
//! Deliberately not here: what other nodes give back; it is seen at T.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use tollgate_core::{Algorithm, Charge, Decision, Key, Operation, Time, Verdict};

/// Keys that compete for the same places.
const WAYS: usize = 4;

/// A key that is denied, and what to say about it.
#[derive(Debug, Clone, Copy, Default)]
struct Denial {
    /// 0 if there is none.
    key: u64,
    /// The numbers of the limit, and the cost.
    asked: u64,
    until: Time,
    reset_at: Time,
    limit: u64,
    used: u64,
    remaining: u64,
}

/// Denials, in sets of a few places each.
#[derive(Debug)]
pub(crate) struct Denials {
    seed: RandomState,
    sets: Box<[Mutex<[Denial; WAYS]>]>,
    forgotten: AtomicU64,
}

impl Denials {
    /// A memory of at most so many bytes; none if that is too little for any.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let sets = bytes / size_of::<Mutex<[Denial; WAYS]>>();
        let sets: Box<[_]> = (0..sets).map(|_| Mutex::default()).collect();
        (!sets.is_empty()).then(|| Self { seed: RandomState::default(), sets, forgotten: AtomicU64::new(0) })
    }

    /// How often anything was forgotten. What was asked before and is answered
    /// after that may be out of date.
    pub(crate) fn age(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// The decision about a charge that is known to be denied.
    pub(crate) fn recall(&self, charge: &Charge<'_>, now: Time) -> Option<Decision> {
        if !is_remembered(charge) {
            return None;
        }
        let (key, asked) = (self.hash(&charge.key), self.asked(charge));
        let denial =
            *self.set(key)?.lock().iter().find(|denial| denial.key == key && denial.asked == asked)?;
        (now < denial.until).then(|| Decision {
            verdict: Verdict::Deny { retry_after: Some(denial.until.since(now)) },
            limit: denial.limit,
            used: denial.used,
            remaining: denial.remaining,
            reset_after: denial.reset_at.since(now),
            soft: false,
        })
    }

    /// Remembers a decision of the store, made at its `now` and asked for when
    /// the memory had that age.
    pub(crate) fn remember(&self, charge: &Charge<'_>, decision: &Decision, now: Time, age: u64) {
        let Verdict::Deny { retry_after: Some(retry_after) } = decision.verdict else { return };
        if !is_remembered(charge) {
            return;
        }
        let key = self.hash(&charge.key);
        let denial = Denial {
            key,
            asked: self.asked(charge),
            until: now + retry_after,
            reset_at: now + decision.reset_after,
            limit: decision.limit,
            used: decision.used,
            remaining: decision.remaining,
        };
        let Some(set) = self.set(key) else { return };
        let mut places = set.lock();
        if self.age() != age {
            return;
        }
        // Its own place, or that of whoever is free soonest.
        let own = places.iter().position(|place| place.key == key);
        let soonest =
            || places.iter().enumerate().min_by_key(|(_, place)| place.until).map(|(index, _)| index);
        if let Some(place) = own.or_else(soonest).and_then(|index| places.get_mut(index)) {
            *place = denial;
        }
    }

    /// Forgets a key, and what is on its way about any.
    pub(crate) fn forget(&self, key: &Key<'_>) {
        let key = self.hash(key);
        let Some(set) = self.set(key) else { return };
        let mut places = set.lock();
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        for place in places.iter_mut().filter(|place| place.key == key) {
            *place = Denial::default();
        }
    }

    fn set(&self, key: u64) -> Option<&Mutex<[Denial; WAYS]>> {
        let sets = u64::try_from(self.sets.len()).ok()?;
        self.sets.get(usize::try_from(key % sets).ok()?)
    }

    fn hash(&self, key: &Key<'_>) -> u64 {
        let mut hasher = self.seed.build_hasher();
        key.write(|bytes| hasher.write(bytes));
        hasher.finish().max(1)
    }

    /// What a denial depends on besides the state. In a fixed window that
    /// counts rejected requests, whatever costs anything is denied.
    fn asked(&self, charge: &Charge<'_>) -> u64 {
        let limit = charge.limit();
        let cost = if limit.counts_rejected() { 1 } else { charge.cost };
        self.seed.hash_one((cost, limit.hard_capacity(), limit.capacity(), limit.count(), limit.shape()))
    }
}

fn is_remembered(charge: &Charge<'_>) -> bool {
    let changes_nothing =
        !charge.limit().counts_rejected() || charge.limit().algorithm() == Algorithm::FixedWindow;
    charge.operation == Operation::Check && charge.cost > 0 && changes_nothing
}

#[cfg(test)]
mod tests;
