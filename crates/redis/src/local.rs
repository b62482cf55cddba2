//! What this node goes by without the store.
//!
//! After each answer the states that the store now has are put into a mirror:
//! a memory store. While the store cannot be asked, each limit does its
//! `on_store_error`; `local` goes on in the mirror by the same algorithm, from
//! what this node last saw.
//!
//! Invariants: the mirror runs on the store's clock, as far as this node knows
//! it, so that clocks that differ by minutes do no harm; the estimate is never
//! behind, so that nothing is refused longer than the store would.
//!
//! Deliberately not here: giving local charges to the store once it is back.
//! Each node would add its own, and a limit would be used up by an outage.

use std::sync::atomic::{AtomicI64, Ordering};

use tollgate_core::{Charge, Decision, Micros, OnStoreError, Operation, State, Time, Verdict, decide};
use tollgate_limiter::store::{ChargeSet, Decisions};
use tollgate_limiter::{Capacity, MemoryStore, Usage};

use crate::course::{Course, How, Picks};

/// When to ask again where everything is refused until the store is back.
const DENY_RETRY: Micros = Micros::SECOND;

/// What this node goes by without the store.
#[derive(Debug)]
pub(crate) struct Local {
    mirror: MemoryStore,
    /// What to add to this process's clock to get the store's, in µs.
    ahead_us: AtomicI64,
}

impl Local {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self { mirror: MemoryStore::new(capacity), ahead_us: AtomicI64::new(0) }
    }

    /// The store's clock, when this process's shows `now`.
    pub(crate) fn store_time(&self, now: Time) -> Time {
        let ahead = self.ahead_us.load(Ordering::Relaxed);
        Time::new(now.get().saturating_add_signed(ahead))
    }

    /// The store answered at its `answered` what was asked at our `asked`.
    pub(crate) fn learn_clock(&self, asked: Time, answered: Time) {
        // The store read its clock after we read ours, so that this is at
        // least the difference.
        let ahead = i64::try_from(answered.get()).unwrap_or(0) - i64::try_from(asked.get()).unwrap_or(0);
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

    /// Drops what has run out.
    pub(crate) fn sweep(&self, now: Time) {
        self.mirror.sweep(now);
    }

    pub(crate) fn forget(&self, charge_key: &tollgate_core::Key<'_>) -> bool {
        self.mirror.forget(charge_key)
    }

    /// What the mirror says of a request that is refused, and of which nothing
    /// counts anyway.
    pub(crate) fn peek(&self, batch: &ChargeSet<'_>, now: Time) -> Decisions {
        let refused =
            ChargeSet { charges: batch.charges.clone(), is_denied_elsewhere: true, ..ChargeSet::default() };
        self.mirror.decide(&refused, now)
    }

    /// Decides without the store. `now` is the store's clock.
    pub(crate) fn check(&self, batch: &ChargeSet<'_>, now: Time) -> Decisions {
        let is_local = |charge: &Charge<'_>| charge.limit().on_store_error() == OnStoreError::Local;
        if batch.charges.iter().all(is_local) {
            return self.mirror.decide(batch, now);
        }
        let mut course = Course::new(batch);
        let (local, fixed): (Picks, Picks) =
            course.open().into_iter().partition(|pick| batch.charges.get(*pick).is_some_and(is_local));
        let decided: Decisions =
            course.part(&fixed).charges.iter().map(|charge| by_rule(charge, now)).collect();
        course.settle(&fixed, &decided, How::Degraded);
        let decided = self.mirror.decide(&course.part(&local), now);
        course.settle(&local, &decided, How::Degraded);
        course.finish().0
    }
}

/// What a limit says that does not count while its store is away.
fn by_rule(charge: &Charge<'_>, now: Time) -> Decision {
    let (as_new, _) = decide(None, charge.limit(), now, Operation::Peek, 0);
    let is_deny = charge.limit().on_store_error() == OnStoreError::Deny;
    // What is reported or given back has happened, and 0 asks for nothing.
    let asks = matches!(charge.operation, Operation::Check | Operation::Peek) && charge.cost > 0;
    if is_deny && asks {
        let verdict = Verdict::Deny { retry_after: Some(DENY_RETRY) };
        return Decision { verdict, remaining: 0, used: as_new.limit, ..as_new };
    }
    Decision { verdict: Verdict::Allow, ..as_new }
}

#[cfg(test)]
mod tests;
