//! Decides without the store while no server can be asked.
//!
//! After each reply of the store, [`LocalFallback`] puts the states that the
//! store now has into a mirror, which is a memory store. During an outage each
//! limit does its `on_store_error`; with `local` it goes on in the mirror, by
//! the same algorithm, from what this node last saw.
//!
//! Invariant: the mirror runs on the store's clock as far as this node knows it,
//! so that clocks may differ by minutes. The estimate is never behind, so that
//! nothing is denied longer than the store would.
//!
//! Deliberately not here: adding local charges to the store once it is back.
//! Every node would add its own, and an outage would use the limit up.

use std::sync::atomic::{AtomicI64, Ordering};

use tollgate_core::{Charge, Decision, Key, Micros, OnStoreError, Operation, State, Time, Verdict, decide};
use tollgate_limiter::store::{ChargeSet, Decisions};
use tollgate_limiter::{Capacity, MemoryStore, Usage};

use super::multi_slot::{ChargeIndexes, DecidedBy, MultiSlotCheck};

/// The `retry_after` of `on_store_error: deny`.
const DENY_RETRY_AFTER: Micros = Micros::SECOND;

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
        self.mirror.forget(key)
    }

    /// What the mirror says of a request that is denied and counts nowhere.
    pub(crate) fn peek(&self, charge_set: &ChargeSet<'_>, now: Time) -> Decisions {
        let charges = charge_set.charges.clone();
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
    pub(crate) fn check(&self, charge_set: &ChargeSet<'_>, now: Time) -> Decisions {
        let is_local = |charge: &Charge<'_>| charge.limit().on_store_error() == OnStoreError::Local;
        if charge_set.charges.iter().all(is_local) {
            return self.mirror.decide(charge_set, now);
        }
        let mut check = MultiSlotCheck::new(charge_set);
        let (local, fixed): (ChargeIndexes, ChargeIndexes) =
            check.open().into_iter().partition(|index| charge_set.charges.get(*index).is_some_and(is_local));
        let decided: Decisions =
            check.part(&fixed).charges.iter().map(|charge| allow_or_deny(charge, now)).collect();
        check.settle(&fixed, &decided, DecidedBy::Fallback);
        let decided = self.mirror.decide(&check.part(&local), now);
        check.settle(&local, &decided, DecidedBy::Fallback);
        check.finish().0
    }
}

/// The decision of a limit with `on_store_error: allow` or `deny`.
fn allow_or_deny(charge: &Charge<'_>, now: Time) -> Decision {
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
