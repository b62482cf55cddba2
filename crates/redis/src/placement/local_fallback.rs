//! Decides without the store while no server can be asked.
//!
//! After each reply of the store, [`LocalFallback`] puts the states that the
//! store now has into a mirror, which is a memory store. During an outage each
//! limit does its `on_store_error`; with `local` it goes on in the mirror, by
//! the same algorithm, from what this node last saw. Where the node knows
//! nothing of a key, because it never saw it or what it saw has faded, the limit
//! is divided by the nodes that were alive when the outage began.
//!
//! Invariants: the mirror runs on the store's clock as far as this node knows it,
//! so that clocks may differ by minutes. The estimate is never behind, so that
//! nothing is denied longer than the store would. A state is only read by the
//! limit that wrote it: shares have keys of their own.
//!
//! Deliberately not here: adding local charges to the store once it is back.
//! Every node would add its own, and an outage would use the limit up.

use std::sync::atomic::{AtomicI64, Ordering};

use smallvec::SmallVec;
use tollgate_core::{
    Charge, Decision, Key, Limit, Micros, OnStoreError, Operation, Shape, State, Time, Verdict, decide,
};
use tollgate_limiter::store::{CHARGES_USUAL, ChargeSet, Decisions};
use tollgate_limiter::{Capacity, MemoryStore, Usage};

use super::multi_slot::{ChargeIndexes, DecidedBy, MultiSlotCheck};

/// The `retry_after` where a request can only pass once the store is back.
const DENY_RETRY_AFTER: Micros = Micros::SECOND;

/// Marks the key of a share; no rule has so many limits.
const SHARE_ORDINAL: u32 = 1 << 31;

/// What this node knows of an outage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    /// How long the server has been given up.
    pub(crate) age: Micros,
    /// How many nodes were alive when it began, this one included.
    pub(crate) nodes: u32,
}

/// Decides without the store.
#[derive(Debug)]
pub(crate) struct LocalFallback {
    mirror: MemoryStore,
    /// How far the store's clock is ahead of this process's, in µs.
    ahead_us: AtomicI64,
}

impl LocalFallback {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self { mirror: MemoryStore::new(capacity), ahead_us: AtomicI64::new(0) }
    }

    /// The store's clock when this process's shows `now`.
    pub(crate) fn store_time(&self, now: Time) -> Time {
        let ahead = self.ahead_us.load(Ordering::Relaxed);
        Time::new(now.get().saturating_add_signed(ahead))
    }

    /// Learns from a call sent at our `sent`, which the store decided at its
    /// `decided`.
    pub(crate) fn learn_clock(&self, sent: Time, decided: Time) {
        // The store read its clock after we read ours, so that this is at
        // least the difference.
        let ahead = i64::try_from(decided.get()).unwrap_or(0) - i64::try_from(sent.get()).unwrap_or(0);
        if self.ahead_us.load(Ordering::Relaxed) != ahead {
            self.ahead_us.store(ahead, Ordering::Relaxed);
        }
    }

    /// Notes what the store now has under a charge's key.
    pub(crate) fn learn(&self, charge: &Charge<'_>, state: Option<State>, now: Time) {
        self.mirror.put(&charge.key, state, now);
    }

    /// What the mirror holds.
    pub(crate) fn usage(&self) -> Usage {
        self.mirror.usage()
    }

    /// Drops expired states.
    pub(crate) fn sweep(&self, now: Time) {
        self.mirror.sweep(now);
    }

    /// Drops the state of a key; whether there was one.
    pub(crate) fn reset(&self, key: &Key<'_>) -> bool {
        self.mirror.forget(&share_key(key, key.limit));
        self.mirror.forget(key)
    }

    /// What the mirror says of a request that is denied and counts nowhere.
    pub(crate) fn peek(&self, charge_set: &ChargeSet<'_>, now: Time) -> Decisions {
        let look = |charge: &Charge<'_>| match charge.is_penalty() {
            true => Operation::Peek,
            false => charge.operation,
        };
        let charges = charge_set.charges.iter().map(|charge| Charge { operation: look(charge), ..*charge });
        let charges = charges.collect();
        let denied = ChargeSet { charges, is_denied_elsewhere: true, ..ChargeSet::default() };
        self.mirror.decide(&denied, now)
    }

    /// How long a charge that was counted would be denied now, as far as the
    /// mirror knows.
    pub(crate) fn blocked_for(&self, charge: &Charge<'_>, now: Time) -> Micros {
        let again = Charge { operation: Operation::Peek, ..*charge };
        let again = ChargeSet { charges: smallvec::smallvec![again], ..ChargeSet::default() };
        self.mirror.decide(&again, now).first().map_or(Micros::ZERO, |decision| decision.blocked_for)
    }

    /// Decides without the store. `now` is on the store's clock.
    pub(crate) fn check(&self, charge_set: &ChargeSet<'_>, now: Time, outage: Outage) -> Decisions {
        let is_local = |charge: &Charge<'_>| charge.limit().on_store_error() == OnStoreError::Local;
        if charge_set.charges.iter().all(is_local) {
            return self.go_on(charge_set, now, outage);
        }
        let mut check = MultiSlotCheck::new(charge_set);
        let (local, fixed): (ChargeIndexes, ChargeIndexes) =
            check.open().into_iter().partition(|index| charge_set.charges.get(*index).is_some_and(is_local));
        let decided: Decisions =
            check.part(&fixed).charges.iter().map(|charge| allow_or_deny(charge, now)).collect();
        check.settle(&fixed, &decided, DecidedBy::Fallback);
        let decided = self.go_on(&check.part(&local), now, outage);
        check.settle(&local, &decided, DecidedBy::Fallback);
        check.finish().0
    }

    /// Goes on in the mirror, with this node's share where it knows nothing.
    fn go_on(&self, charge_set: &ChargeSet<'_>, now: Time, outage: Outage) -> Decisions {
        if outage.nodes <= 1 {
            return self.mirror.decide(charge_set, now);
        }
        let shares: SmallVec<[Option<Limit>; CHARGES_USUAL]> = charge_set
            .charges
            .iter()
            .map(|charge| {
                // Whoever is denied here is denied everywhere, so that a penalty is not divided.
                let is_divided = !charge.is_penalty() && !self.knows(charge, now, outage);
                is_divided.then(|| share(charge.limit(), outage.nodes))
            })
            .collect();
        let charges = charge_set.charges.iter().zip(&shares).map(|(charge, share)| match share {
            Some(limit) => Charge { key: share_key(&charge.key, limit), ..*charge },
            None => *charge,
        });
        let shared = ChargeSet { charges: charges.collect(), ..*charge_set };
        let mut decisions = self.mirror.decide(&shared, now);
        for ((charge, share), decision) in charge_set.charges.iter().zip(&shares).zip(&mut decisions) {
            if share.is_some() {
                *decision = of_the_whole(charge, *decision, now);
            }
        }
        decisions
    }

    /// Whether this node knows something of a key that still matters.
    fn knows(&self, charge: &Charge<'_>, now: Time, outage: Outage) -> bool {
        let limit = charge.limit();
        let fades_in = limit.window().max(Micros::new(limit.hard_span_parts().0));
        let look = Charge { operation: Operation::Peek, cost: 0, ..*charge };
        let look = ChargeSet { charges: smallvec::smallvec![look], ..ChargeSet::default() };
        outage.age < fades_in && self.mirror.decide(&look, now).iter().any(|decision| decision.used > 0)
    }
}

/// The key of this node's share of a limit.
fn share_key<'a>(key: &Key<'a>, share: &'a Limit) -> Key<'a> {
    Key { limit: share, ordinal: key.ordinal | SHARE_ORDINAL, ..*key }
}

/// The share that one of several nodes has of a limit, at least 1.
fn share(limit: &Limit, nodes: u32) -> Limit {
    let part = |whole: u32| if whole == 0 { 0 } else { (whole / nodes).max(1) };
    let shape = match limit.shape() {
        Shape::TokenBucket { burst, refill } => Shape::TokenBucket { burst: part(burst), refill },
        // One leaves at once and `burst` wait behind it.
        Shape::LeakyBucket { burst, max_wait } => {
            Shape::LeakyBucket { burst: part(burst.saturating_add(1)).saturating_sub(1), max_wait }
        }
        Shape::FixedWindow | Shape::SlidingLog | Shape::SlidingCounter | Shape::SlidingBuckets { .. } => {
            limit.shape()
        }
    };
    let share = Limit::new(part(limit.count()), limit.window(), shape);
    let share = match limit.exceed_percent() {
        0 => share,
        percent => share.and_then(|share| share.soft(percent)),
    };
    // Rounding can leave a bucket that takes too long to fill for a limit.
    share.map_or(*limit, |share| {
        share.counting_rejected(limit.counts_rejected()).with_postpaid(limit.is_postpaid())
    })
}

/// A decision by a share, told in numbers of the whole limit.
fn of_the_whole(charge: &Charge<'_>, by_share: Decision, now: Time) -> Decision {
    let (unused, _) = decide(None, charge.limit(), now, Operation::Peek, charge.cost);
    let used = unused.limit.saturating_sub(by_share.remaining);
    let decision = Decision { limit: unused.limit, used, ..by_share };
    // More than the share, but not more than the limit.
    if decision.verdict == (Verdict::Deny { retry_after: None }) && !unused.verdict.is_deny() {
        let verdict = Verdict::Deny { retry_after: Some(DENY_RETRY_AFTER) };
        return Decision { verdict, blocked_for: DENY_RETRY_AFTER, ..decision };
    }
    decision
}

/// The decision of a limit with `on_store_error: allow` or `deny`.
fn allow_or_deny(charge: &Charge<'_>, now: Time) -> Decision {
    if charge.is_penalty() {
        return charge.decide(None, now).0;
    }
    let (unused, _) = decide(None, charge.limit(), now, Operation::Peek, 0);
    let is_deny = charge.limit().on_store_error() == OnStoreError::Deny;
    // Reports and refunds tell what has happened, and a cost of 0 takes nothing.
    let (operation, cost) = charge.step();
    let takes = matches!(operation, Operation::Check | Operation::Peek) && cost > 0;
    if is_deny && takes {
        let verdict = Verdict::Deny { retry_after: Some(DENY_RETRY_AFTER) };
        let blocked_for = DENY_RETRY_AFTER;
        return Decision { verdict, blocked_for, remaining: 0, used: unused.limit, ..unused };
    }
    Decision { verdict: Verdict::Allow, ..unused }
}

#[cfg(test)]
mod tests;
