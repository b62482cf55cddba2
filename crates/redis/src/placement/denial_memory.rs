//! Remembers denials: a caller that is denied until T is denied until T without
//! asking the store.
//!
//! [`crate::RedisStore`] looks here first, notes what the store denies, and
//! drops a key when it is reset or something is given back. A changed rule
//! finds nothing, because a limit's numbers are part of the record.
//!
//! Invariants: nothing is denied longer than the store said, also if the clock
//! steps back. Limits that count
//! rejected requests are not remembered, except fixed windows, where the count
//! changes no decision; envoyproxy/ratelimit's local cache does the same. Of a limit
//! with a penalty only the block is remembered. The
//! memory never grows beyond its bytes.
//!
//! Deliberately not here: refunds on other nodes; they are noticed at T.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use tollgate_core::{Algorithm, Charge, Decision, Key, Micros, Operation, Time, Verdict};

/// Records in a set; a key has one set.
const WAYS: usize = 4;

/// Threads and replies may be that much out of order.
const STEP_BACK_MAX: Micros = Micros::SECOND;

/// The record of a denied key.
#[derive(Debug, Clone, Copy, Default)]
struct DenialRecord {
    /// 0 if there is none.
    key: u64,
    /// A hash of the limit's numbers and the cost.
    terms: u64,
    /// When the store said so.
    since: Time,
    until: Time,
    reset_at: Time,
    limit: u64,
    used: u64,
    remaining: u64,
}

/// Denials, set-associative as a processor's cache.
#[derive(Debug)]
pub(crate) struct DenialMemory {
    seed: RandomState,
    sets: Box<[Mutex<[DenialRecord; WAYS]>]>,
    version: AtomicU64,
}

impl DenialMemory {
    /// A memory of at most so many bytes; none if that is too little for any.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let sets = bytes / size_of::<Mutex<[DenialRecord; WAYS]>>();
        let sets: Box<[_]> = (0..sets).map(|_| Mutex::default()).collect();
        (!sets.is_empty()).then(|| Self { seed: RandomState::default(), sets, version: AtomicU64::new(0) })
    }

    /// Counts how often a key was forgotten. A reply to a call that was sent
    /// at an older version may be out of date.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The decision for a charge that is known to be denied.
    pub(crate) fn recall(&self, charge: &Charge<'_>, now: Time) -> Option<Decision> {
        if !is_remembered(charge) {
            return None;
        }
        let (key, terms) = (self.hash(&charge.key), self.terms(charge));
        let denial =
            *self.set(key)?.lock().iter().find(|denial| denial.key == key && denial.terms == terms)?;
        // A denial from a time to come was noted while the clock was ahead.
        (denial.since <= now + STEP_BACK_MAX && now < denial.until).then(|| Decision {
            verdict: Verdict::Deny { retry_after: Some(denial.until.since(now)) },
            limit: denial.limit,
            used: denial.used,
            remaining: denial.remaining,
            reset_after: denial.reset_at.since(now),
            soft: false,
            blocked_for: denial.until.since(now),
        })
    }

    /// Remembers a decision that the store made at its `now`, in a call sent at
    /// this version.
    pub(crate) fn remember(&self, charge: &Charge<'_>, decision: &Decision, now: Time, version: u64) {
        let Verdict::Deny { retry_after: Some(retry_after) } = decision.verdict else { return };
        if !is_remembered(charge) {
            return;
        }
        let key = self.hash(&charge.key);
        let denial = DenialRecord {
            key,
            terms: self.terms(charge),
            since: now,
            until: now + retry_after,
            reset_at: now + decision.reset_after,
            limit: decision.limit,
            used: decision.used,
            remaining: decision.remaining,
        };
        let Some(set) = self.set(key) else { return };
        let mut records = set.lock();
        if self.version() != version {
            return;
        }
        // Its own record, or the one that expires first.
        let own = records.iter().position(|record| record.key == key);
        let first_to_expire =
            || records.iter().enumerate().min_by_key(|(_, record)| record.until).map(|(index, _)| index);
        if let Some(record) = own.or_else(first_to_expire).and_then(|index| records.get_mut(index)) {
            *record = denial;
        }
    }

    /// Forgets a key, and ignores all replies that are under way.
    pub(crate) fn forget(&self, key: &Key<'_>) {
        let key = self.hash(key);
        let Some(set) = self.set(key) else { return };
        let mut records = set.lock();
        self.version.fetch_add(1, Ordering::AcqRel);
        for record in records.iter_mut().filter(|record| record.key == key) {
            *record = DenialRecord::default();
        }
    }

    fn set(&self, key: u64) -> Option<&Mutex<[DenialRecord; WAYS]>> {
        let sets = u64::try_from(self.sets.len()).ok()?;
        self.sets.get(usize::try_from(key % sets).ok()?)
    }

    fn hash(&self, key: &Key<'_>) -> u64 {
        let mut hasher = self.seed.build_hasher();
        key.write(|bytes| hasher.write(bytes));
        hasher.finish().max(1)
    }

    /// What a denial depends on besides the state. A full fixed window that
    /// counts rejected requests denies every cost.
    fn terms(&self, charge: &Charge<'_>) -> u64 {
        let limit = charge.limit();
        if charge.is_penalty() {
            return self.seed.hash_one(limit.penalty());
        }
        let cost = if limit.counts_rejected() { 1 } else { charge.cost };
        self.seed.hash_one((cost, limit.hard_capacity(), limit.capacity(), limit.count(), limit.shape()))
    }
}

fn is_remembered(charge: &Charge<'_>) -> bool {
    // Every denial of a limit with a penalty has to be counted, until it blocks.
    if charge.limit().penalty().is_some() {
        return charge.is_penalty() && charge.operation == Operation::Check;
    }
    let changes_nothing =
        !charge.limit().counts_rejected() || charge.limit().algorithm() == Algorithm::FixedWindow;
    // A postpaid limit takes whatever it is charged, so that only a check of
    // cost 0 could be remembered, which costs no more than a look.
    charge.step().0 == Operation::Check && charge.cost > 0 && changes_nothing
}

#[cfg(test)]
mod tests;
