//! Decides without the store while no server can be asked.
//!
//! After each reply of the store, [`LocalFallback`] puts the states that the
//! store now has into a mirror, which is a memory store. During an outage each
//! limit does its `on_store_error`. With `local` two counters must both have
//! room, by the same algorithm: the limit's in the mirror, which goes on from what
//! this node last saw, and that of this node's share, which begins unused. The
//! share is the limit divided by the nodes that were alive when the store was last
//! asked; it alone bounds what all nodes admit together, however long it takes.
//!
//! Invariants: the mirror runs on the store's clock as far as this node knows it,
//! so that clocks may differ by minutes. The estimate is never behind, so that
//! nothing is denied longer than the store would. A share has a key of its own,
//! which no reply of the store overwrites. All nodes' shares together are no more
//! than the limit, or one for each node.
//!
//! Deliberately not here: adding local charges to the store once it is back.
//! Every node would add its own, and an outage would use the limit up.

use std::sync::atomic::{AtomicI64, Ordering};

use smallvec::SmallVec;
use tollgate_core::{
    Charge, Decision, Key, Limit, Micros, OnStoreError, Operation, Shape, State, Time, Verdict, decide,
};
use tollgate_limiter::charge_set::{CHARGES_USUAL, ChargeSet, Decisions};
use tollgate_limiter::{Capacity, MemoryStore, Usage};

use super::multi_slot::{ChargeIndexes, DecidedBy, MultiSlotCheck};

/// The `retry_after` where a request can only pass once the store is back.
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
        self.mirror.forget(&key.share(key.limit));
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

    /// Decides without the store, as one of `nodes`. `now` is on the store's clock.
    pub(crate) fn check(&self, charge_set: &ChargeSet<'_>, now: Time, nodes: u32) -> Decisions {
        let is_local = |charge: &Charge<'_>| charge.limit().on_store_error() == OnStoreError::Local;
        if charge_set.charges.iter().all(is_local) {
            return self.go_on(charge_set, now, nodes);
        }
        let mut check = MultiSlotCheck::new(charge_set);
        let (local, fixed): (ChargeIndexes, ChargeIndexes) =
            check.open().into_iter().partition(|index| charge_set.charges.get(*index).is_some_and(is_local));
        let decided: Decisions =
            check.part(&fixed).charges.iter().map(|charge| allow_or_deny(charge, now)).collect();
        check.settle(&fixed, &decided, DecidedBy::Fallback);
        let decided = self.go_on(&check.part(&local), now, nodes);
        check.settle(&local, &decided, DecidedBy::Fallback);
        check.finish().0
    }

    /// Goes on in the mirror, within this node's share.
    fn go_on(&self, charge_set: &ChargeSet<'_>, now: Time, nodes: u32) -> Decisions {
        if nodes <= 1 {
            return self.mirror.decide(charge_set, now);
        }
        let shares: SmallVec<[Option<Limit>; CHARGES_USUAL]> = charge_set
            .charges
            .iter()
            // Whoever is denied here is denied everywhere, so that a penalty is not divided.
            .map(|charge| (!charge.is_penalty()).then(|| share(charge.limit(), nodes)))
            .collect();
        let mut shared = ChargeSet { charges: SmallVec::new(), ..*charge_set };
        for (charge, share) in charge_set.charges.iter().zip(&shares) {
            let share = share.as_ref().map(|share| Charge { key: charge.key.share(share), ..*charge });
            if share.is_none_or(|share| share.follows_its_limit()) {
                shared.charges.push(*charge);
            }
            shared.charges.extend(share);
        }
        let mut decided = self.mirror.decide(&shared, now).into_iter();
        let mut decisions = Decisions::new();
        for (charge, share) in charge_set.charges.iter().zip(&shares) {
            let unused = || decide(None, charge.limit(), now, Operation::Peek, charge.cost).0;
            let is_alone = share.is_some() && charge.mode.is_shadow();
            let whole = if is_alone { Some(unused()) } else { decided.next() };
            let by_share = share.and_then(|_| decided.next());
            decisions.extend(whole.map(|whole| by_share.map_or(whole, |by_share| stricter(whole, by_share))));
        }
        decisions
    }
}

/// The share that one of several nodes has of a limit: each of its numbers divided
/// and rounded down, but at least 1.
fn share(limit: &Limit, nodes: u32) -> Limit {
    let part = |whole: u32| if whole == 0 { 0 } else { (whole / nodes).max(1) };
    let with = |shape| Limit::new(part(limit.count()), limit.window(), shape);
    // Rounding can leave a bucket that takes too long to fill for a limit; a smaller one does not.
    let halves = |burst: u32| std::iter::successors(Some(burst), |burst| (*burst > 1).then_some(burst / 2));
    let share = match limit.shape() {
        Shape::TokenBucket { burst, refill } => {
            halves(part(burst)).find_map(|burst| with(Shape::TokenBucket { burst, refill }).ok())
        }
        // One leaves at once and `burst` wait behind it.
        Shape::LeakyBucket { burst, max_wait } => halves(part(burst.saturating_add(1)))
            .find_map(|room| with(Shape::LeakyBucket { burst: room.saturating_sub(1), max_wait }).ok()),
        Shape::FixedWindow | Shape::SlidingLog | Shape::SlidingCounter | Shape::SlidingBuckets { .. } => {
            with(limit.shape()).ok()
        }
    };
    let Some(share) = share else { return *limit };
    // A share that was rounded up to 1 has less than the limit's percentage on top.
    let room = (limit.hard_capacity() / u64::from(nodes)).max(1);
    let percent = match share.capacity() {
        1 => u32::try_from((room - 1) * 100).unwrap_or(u32::MAX).min(limit.exceed_percent()),
        _ => limit.exceed_percent(),
    };
    let share = share.soft(percent).unwrap_or(share);
    share.counting_rejected(limit.counts_rejected()).with_postpaid(limit.is_postpaid())
}

/// What the limit and this node's share of it say together, in numbers of the limit.
fn stricter(whole: Decision, mut share: Decision) -> Decision {
    // More than the share, but not more than the limit.
    let is_never = |decision: &Decision| decision.verdict == Verdict::Deny { retry_after: None };
    if is_never(&share) && !is_never(&whole) {
        share.verdict = Verdict::Deny { retry_after: Some(DENY_RETRY_AFTER) };
    }
    if share.blocked_for == Micros::MAX && whole.blocked_for < Micros::MAX {
        share.blocked_for = DENY_RETRY_AFTER;
    }
    let rank = |verdict: &Verdict| match *verdict {
        Verdict::Allow => (0, Micros::ZERO),
        Verdict::Delay { wait } => (1, wait),
        Verdict::Deny { .. } => (2, verdict.blocked_for()),
    };
    let remaining = whole.remaining.min(share.remaining);
    Decision {
        verdict: [whole.verdict, share.verdict].into_iter().max_by_key(rank).unwrap_or(whole.verdict),
        limit: whole.limit,
        used: whole.used.max(whole.limit.saturating_sub(remaining)),
        remaining,
        reset_after: whole.reset_after.max(share.reset_after),
        soft: whole.soft || share.soft,
        blocked_for: whole.blocked_for.max(share.blocked_for),
    }
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
