//! Where state lives.
//!
//! [`crate::Limiter`] hands a [`ChargeSet`] to a [`Store`], which answers with one
//! [`Decision`] for each charge. [`decide_together`] is the one place that
//! knows what "all or nothing" means; a store that can lend and swap states
//! need only implement [`States`].
//!
//! Invariants: denied by one means that none is charged, but for limits that
//! count rejected requests and for shadow limits, which decide on their own;
//! a request that names one key twice is charged twice, one after the other.
//!
//! Deliberately not here: which rules apply, and what a reply looks like.

use smallvec::SmallVec;
use tollgate_core::{Change, Charge, Decision, Key, Operation, State, StateRef, Time, decide};

/// Most requests meet no more limits than this; more cost some allocations, and
/// room for more would be copied for all.
pub const CHARGES_USUAL: usize = 2;

/// One decision for each charge of a batch, in the same order.
///
/// ```
/// use tollgate_core::{Charge, Entry, Key, Limit, Micros, Mode, Operation, Shape, Time};
/// use tollgate_limiter::{ChargeSet, MemoryStore, Store};
///
/// let limit = Limit::new(1, Micros::SECOND, Shape::FixedWindow)?;
/// let entries = [Entry::from(("user_id", "42"))];
/// let key = Key { domain: "shop", entries: &entries, shared: &[], limit: &limit, ordinal: 0 };
/// let mut batch = ChargeSet::default();
/// batch.charges.push(Charge {
///     descriptor: 0,
///     rule: None,
///     key,
///     mode: Mode::Enforce,
///     operation: Operation::Check,
///     cost: 1,
/// });
/// let store = MemoryStore::default();
/// let decisions = store.check(&batch, Time::EPOCH);
/// assert_eq!(decisions.len(), batch.charges.len());
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
pub type Decisions = SmallVec<[Decision; CHARGES_USUAL]>;

/// The charges of one request, decided together.
///
/// ```
/// use tollgate_core::{Charge, Entry, Key, Limit, Micros, Mode, Operation, Shape, Time};
/// use tollgate_limiter::{ChargeSet, MemoryStore, Store};
///
/// let limit = Limit::new(1, Micros::SECOND, Shape::FixedWindow)?;
/// let entries = [Entry::from(("user_id", "42"))];
/// let key = Key { domain: "shop", entries: &entries, shared: &[], limit: &limit, ordinal: 0 };
/// let mut batch = ChargeSet::default();
/// batch.charges.push(Charge {
///     descriptor: 0,
///     rule: None,
///     key,
///     mode: Mode::Enforce,
///     operation: Operation::Check,
///     cost: 1,
/// });
/// let store = MemoryStore::default();
/// assert!(!batch.is_denied(&store.check(&batch, Time::EPOCH)));
/// assert!(batch.is_denied(&store.check(&batch, Time::EPOCH)));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug, Default)]
pub struct ChargeSet<'a> {
    /// What to charge.
    pub charges: SmallVec<[Charge<'a>; CHARGES_USUAL]>,
    /// Some quota passes without a charge, so that the others refuse nothing.
    pub quota_passes: bool,
    /// Another part of the request is refused, so that this one takes nothing
    /// but what counts anyway.
    pub is_refused_elsewhere: bool,
}

impl ChargeSet<'_> {
    /// Whether these decisions refuse the request: any enforced limit denies,
    /// or there are quotas and all of them deny.
    pub fn is_denied(&self, decisions: &[Decision]) -> bool {
        if self.is_refused_elsewhere {
            return true;
        }
        let (mut any_quota, mut quota_passes) = (false, self.quota_passes);
        for (charge, decision) in self.charges.iter().zip(decisions) {
            let denies = decision.verdict.is_deny() && !charge.mode.is_shadow();
            if charge.mode.is_quota() {
                any_quota = true;
                quota_passes |= !denies;
            } else if denies {
                return true;
            }
        }
        any_quota && !quota_passes
    }
}

/// Where state lives.
///
/// ```
/// use tollgate_core::{Charge, Entry, Key, Limit, Micros, Mode, Operation, Shape, Time};
/// use tollgate_limiter::{ChargeSet, MemoryStore, Store};
///
/// let limit = Limit::new(1, Micros::SECOND, Shape::FixedWindow)?;
/// let entries = [Entry::from(("user_id", "42"))];
/// let key = Key { domain: "shop", entries: &entries, shared: &[], limit: &limit, ordinal: 0 };
/// let mut batch = ChargeSet::default();
/// batch.charges.push(Charge {
///     descriptor: 0,
///     rule: None,
///     key,
///     mode: Mode::Enforce,
///     operation: Operation::Check,
///     cost: 1,
/// });
/// let store = MemoryStore::default();
/// store.check(&batch, Time::EPOCH);
/// assert!(store.reset(&key));
/// assert!(!store.reset(&key), "there is nothing left to forget");
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
pub trait Store: Send + Sync {
    /// Decides all charges of a request together, all or nothing.
    fn check(&self, batch: &ChargeSet<'_>, now: Time) -> Decisions;

    /// Forgets a key; whether there was anything to forget.
    fn reset(&self, key: &Key<'_>) -> bool;
}

impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    fn check(&self, batch: &ChargeSet<'_>, now: Time) -> Decisions {
        (**self).check(batch, now)
    }

    fn reset(&self, key: &Key<'_>) -> bool {
        (**self).reset(key)
    }
}

/// What a store that is not in this process answers.
///
/// ```
/// use tollgate_limiter::StoreReply;
/// assert!(StoreReply::default().degraded.is_empty(), "nothing was decided without the store");
/// ```
#[derive(Debug, Default)]
pub struct StoreReply {
    /// When it was decided, on the store's own clock.
    pub now: Time,
    /// One for each charge.
    pub decisions: Decisions,
    /// For each charge, whether it was decided without the store; empty if
    /// none was.
    pub degraded: SmallVec<[bool; CHARGES_USUAL]>,
    /// It was denied from memory of an earlier denial; nothing was asked.
    pub remembered: bool,
}

/// Where state lives, if that is not in this process.
///
/// It always answers: while the store cannot be asked, each limit does its
/// [`tollgate_core::OnStoreError`], and the answer says so.
///
/// ```
/// use tollgate_core::{Key, Time};
/// use tollgate_limiter::{StoreReply, ChargeSet, MemoryStore, RemoteStore, Store};
///
/// /// A store next door, which answers at once.
/// struct NextDoor(MemoryStore);
///
/// impl RemoteStore for NextDoor {
///     async fn check(&self, batch: &ChargeSet<'_>, now: Time) -> StoreReply {
///         StoreReply { now, decisions: self.0.check(batch, now), ..StoreReply::default() }
///     }
///
///     async fn reset(&self, key: &Key<'_>, _: Time) -> bool {
///         self.0.reset(key)
///     }
/// }
/// ```
pub trait RemoteStore: Send + Sync {
    /// Decides all charges of a request together, all or nothing. `now` is
    /// this process's clock; the store may have a better one.
    fn check(&self, batch: &ChargeSet<'_>, now: Time) -> impl Future<Output = StoreReply> + Send;

    /// Forgets a key; whether there was anything to forget. `now` is this
    /// process's clock.
    fn reset(&self, key: &Key<'_>, now: Time) -> impl Future<Output = bool> + Send;
}

/// The states of a batch's charges, held still while they are decided.
///
/// ```
/// use tollgate_core::{Change, State, StateRef, Time};
/// use tollgate_limiter::store::States;
///
/// /// One state for all that is asked.
/// struct One(Option<State>);
///
/// impl States for One {
///     fn get(&self, _: usize) -> Option<StateRef<'_>> {
///         self.0.as_ref().map(State::as_ref)
///     }
///
///     fn change(&mut self, _: usize, change: Change, _: Time) -> Option<State> {
///         match change {
///             Change::Keep => None,
///             Change::Put(state) => self.0.replace(state),
///             Change::Remove => self.0.take(),
///         }
///     }
/// }
/// assert!(One(None).get(0).is_none());
/// ```
pub trait States {
    /// The state of charge number `charge`, if there is one.
    fn get(&self, charge: usize) -> Option<StateRef<'_>>;

    /// Makes a change to it, and hands back what was there before. Keeping it
    /// tells the store that the key is in use.
    fn change(&mut self, charge: usize, change: Change, now: Time) -> Option<State>;
}

/// Decides all charges of `batch` over `states`.
///
/// ```
/// use tollgate_core::{Change, Charge, Key, Limit, Micros, Mode, Operation, Shape, State, StateRef, Time};
/// use tollgate_limiter::ChargeSet;
/// use tollgate_limiter::store::{States, decide_together};
///
/// /// One state for all that is asked.
/// struct One(Option<State>);
///
/// impl States for One {
///     fn get(&self, _: usize) -> Option<StateRef<'_>> {
///         self.0.as_ref().map(State::as_ref)
///     }
///
///     fn change(&mut self, _: usize, change: Change, _: Time) -> Option<State> {
///         match change {
///             Change::Keep => None,
///             Change::Put(state) => self.0.replace(state),
///             Change::Remove => self.0.take(),
///         }
///     }
/// }
///
/// let limit = Limit::new(1, Micros::SECOND, Shape::FixedWindow)?;
/// let key = Key { domain: "shop", entries: &[], shared: &[], limit: &limit, ordinal: 0 };
/// let (mode, operation) = (Mode::Enforce, Operation::Check);
/// let mut batch = ChargeSet::default();
/// batch.charges.push(Charge { descriptor: 0, rule: None, key, mode, operation, cost: 1 });
/// let mut states = One(None);
/// assert!(!decide_together(&batch, &mut states, Time::EPOCH)[0].verdict.is_deny());
/// assert!(decide_together(&batch, &mut states, Time::EPOCH)[0].verdict.is_deny());
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
pub fn decide_together(batch: &ChargeSet<'_>, states: &mut impl States, now: Time) -> Decisions {
    let mut decisions = Decisions::new();
    let mut undo: SmallVec<[(usize, Change); CHARGES_USUAL]> = SmallVec::new();
    for (index, charge) in batch.charges.iter().enumerate() {
        let (decision, change) = decide_one(charge, states.get(index), now);
        decisions.push(decision);
        let is_change = change != Change::Keep;
        let before = states.change(index, change, now);
        if is_change {
            undo.push((index, before.map_or(Change::Remove, Change::Put)));
        }
    }
    // A single charge that is denied has taken what it should already.
    let is_alone = batch.charges.len() == 1 && !batch.is_refused_elsewhere;
    if is_alone || !batch.is_denied(&decisions) {
        return decisions;
    }
    for (index, change) in undo.into_iter().rev() {
        drop(states.change(index, change, now));
    }
    for ((index, charge), decision) in batch.charges.iter().enumerate().zip(&mut decisions) {
        if counts_anyway(charge) {
            let (counted, change) = decide_one(charge, states.get(index), now);
            *decision = counted;
            drop(states.change(index, change, now));
        } else if !decision.verdict.is_deny() {
            // It would have passed, and is not charged: tell what is there.
            let (as_it_is, _) = decide(states.get(index), charge.limit(), now, Operation::Peek, 0);
            *decision = Decision { verdict: decision.verdict, soft: decision.soft, ..as_it_is };
        }
    }
    decisions
}

fn decide_one(charge: &Charge<'_>, state: Option<StateRef<'_>>, now: Time) -> (Decision, Change) {
    decide(state, charge.limit(), now, charge.operation, charge.cost)
}

/// Whether a charge stands although the request is denied. What was reported
/// or given back has happened, whatever else is true of the request.
///
/// ```
/// use tollgate_core::{Charge, Key, Limit, Micros, Mode, Operation, Shape};
/// use tollgate_limiter::store::counts_anyway;
/// let limit = Limit::new(1, Micros::SECOND, Shape::FixedWindow)?;
/// let key = Key { domain: "shop", entries: &[], shared: &[], limit: &limit, ordinal: 0 };
/// let (mode, operation) = (Mode::Enforce, Operation::Check);
/// let check = Charge { descriptor: 0, rule: None, key, mode, operation, cost: 1 };
/// assert!(!counts_anyway(&check));
/// assert!(counts_anyway(&Charge { mode: Mode::Shadow, ..check }));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
pub fn counts_anyway(charge: &Charge<'_>) -> bool {
    charge.mode.is_shadow()
        || charge.limit().counts_rejected()
        || matches!(charge.operation, Operation::Report | Operation::Refund)
}
