//! The charges of one request, and what "all or nothing" means.
//!
//! [`crate::Limiter`] hands a [`ChargeSet`] to a [`crate::Store`], which answers with
//! one [`Decision`] for each charge. [`decide_together`] decides a set over its
//! states; a store that can lend and swap states need only implement [`States`].
//!
//! Invariants: [`Denial`] alone knows which denials deny a request. Denied by
//! one means that none is charged, but for limits that count rejected requests
//! and for shadow limits, which decide on their own. A request that names one
//! key twice is charged twice, one after the other. The charges of a node's share and
//! of a penalty follow that of their limit and deny as one with it.
//!
//! Deliberately not here: where states are kept, which rules apply, and what a reply looks like.

use std::hash::{DefaultHasher, Hasher};

use smallvec::SmallVec;
use tollgate_core::{Change, Charge, Decision, Key, Micros, Mode, Operation, State, StateRef, Time, decide};

/// Most requests meet no more limits than this; more cost some allocations, and
/// room for more would be copied for all.
pub const CHARGES_USUAL: usize = 2;

/// Charges up to which the keys of a set are compared each with each, to find those that are equal.
pub(crate) const COMPARED_MAX: usize = 16;

/// A list of bytes holds so many where its length and pointer would be.
pub(crate) const FLAGS_INLINE: usize = 16;

/// A flag for each charge of a set, or none if none is set.
pub type ChargeFlags = SmallVec<[bool; FLAGS_INLINE]>;

/// One decision for each charge of a set, in the same order.
pub type Decisions = SmallVec<[Decision; CHARGES_USUAL]>;

/// The charges of one request, decided together.
#[derive(Debug, Default)]
pub struct ChargeSet<'a> {
    /// What to charge.
    pub charges: SmallVec<[Charge<'a>; CHARGES_USUAL]>,
    /// Some quota passes without a charge, so that the others deny nothing.
    pub quota_passes: bool,
    /// Another part of the request is denied, so that this one takes nothing
    /// but what counts anyway.
    pub is_denied_elsewhere: bool,
}

impl<'a> ChargeSet<'a> {
    /// The charge that is all of its request, if there is one.
    pub(crate) fn only(&self) -> Option<&Charge<'a>> {
        match self.charges.as_slice() {
            [charge] if !self.is_denied_elsewhere => Some(charge),
            _ => None,
        }
    }

    /// Whether these decisions deny the request.
    pub fn is_denied(&self, decisions: &[Decision]) -> bool {
        self.is_denied_elsewhere || self.denial(decisions.iter().map(Some)).is_denied()
    }

    /// Which of these decisions deny the request; one that is not known yet
    /// denies nothing.
    pub fn denial<'d>(&self, decisions: impl Iterator<Item = Option<&'d Decision>>) -> Denial {
        let mut verdicts: SmallVec<[(Mode, bool); CHARGES_USUAL]> = SmallVec::new();
        for (charge, decision) in self.charges.iter().zip(decisions) {
            let denies = decision.is_some_and(|decision| decision.verdict.is_deny());
            match verdicts.last_mut() {
                Some(limit) if charge.follows_its_limit() => limit.1 |= denies,
                Some(_) | None => verdicts.push((charge.mode, denies)),
            }
        }
        Denial::new(verdicts.into_iter(), self.quota_passes)
    }
}

/// Which denials deny a request: that of any enforced limit, and those of
/// quotas if no quota passes. Limits in shadow mode deny nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Denial {
    by_limits: bool,
    by_quotas: bool,
}

impl Denial {
    /// The denial that comes of these: the mode of each limit, and whether it
    /// denies. `quota_passes` if some quota passes that is not among them.
    pub(crate) fn new(limits: impl Iterator<Item = (Mode, bool)>, quota_passes: bool) -> Self {
        let (mut by_limits, mut any_quota, mut quota_passes) = (false, false, quota_passes);
        for (mode, denies) in limits {
            let denies = denies && !mode.is_shadow();
            if mode.is_quota() {
                any_quota = true;
                quota_passes |= !denies;
            } else {
                by_limits |= denies;
            }
        }
        Self { by_limits, by_quotas: any_quota && !quota_passes }
    }

    /// The denial of a request that only one limit is asked about.
    pub(crate) const fn by_limits(by_limits: bool) -> Self {
        Self { by_limits, by_quotas: false }
    }

    /// Whether the request is denied.
    pub const fn is_denied(self) -> bool {
        self.by_limits || self.by_quotas
    }

    /// Whether a limit of this mode that denies has a part in it.
    pub const fn is_by(self, mode: Mode) -> bool {
        match mode {
            Mode::Enforce => self.by_limits,
            Mode::Quota => self.by_quotas,
            Mode::Shadow | Mode::ShadowQuota => false,
        }
    }
}

/// The states of a set's charges, held still while they are decided.
///
/// ```
/// use tollgate_core::{Change, Charge, Key, Limit, Micros, Mode, Operation, Shape, State, StateRef, Time};
/// use tollgate_limiter::ChargeSet;
/// use tollgate_limiter::charge_set::{States, decide_together};
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
/// let mut set = ChargeSet::default();
/// set.charges.push(Charge { descriptor: 0, rule: None, key, mode, operation, cost: 1 });
/// let mut states = One(None);
/// assert!(!decide_together(&set, &mut states, Time::EPOCH)[0].verdict.is_deny());
/// assert!(decide_together(&set, &mut states, Time::EPOCH)[0].verdict.is_deny());
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
pub trait States {
    /// The state of charge number `charge`, if there is one.
    fn get(&self, charge: usize) -> Option<StateRef<'_>>;

    /// Makes a change to it, and hands back what was there before. Keeping it
    /// tells the store that the key is in use.
    fn change(&mut self, charge: usize, change: Change, now: Time) -> Option<State>;
}

/// Decides all charges of `set` over `states`.
pub fn decide_together(set: &ChargeSet<'_>, states: &mut impl States, now: Time) -> Decisions {
    let mut decisions = Decisions::new();
    let mut undo: SmallVec<[(usize, Change); CHARGES_USUAL]> = SmallVec::new();
    for (index, charge) in set.charges.iter().enumerate() {
        let state = states.get(index);
        let (decision, change) = match state.and_then(|state| charge.rewound(state, now)) {
            None => charge.decide(state, now),
            Some(rewound) => {
                // A denial does not undo this: it is only what the clock did.
                drop(states.change(index, Change::Put(rewound), now));
                charge.decide(states.get(index), now)
            }
        };
        decisions.push(decision);
        // A penalty is only asked yet, and what the clock did is not undone.
        let is_change = change != Change::Keep && !charge.is_penalty();
        let before = states.change(index, change, now);
        if is_change {
            undo.push((index, before.map_or(Change::Remove, Change::Put)));
        }
    }
    let struck = struck(set, &decisions);
    // A single charge that is denied has taken what it should already.
    let is_alone = set.charges.len() == 1 && !set.is_denied_elsewhere;
    if !is_alone && set.is_denied(&decisions) {
        for (index, change) in undo.into_iter().rev() {
            drop(states.change(index, change, now));
        }
        tell_denied(set, states, &mut decisions, now);
    }
    for index in struck {
        let Some((charge, decision)) = set.charges.get(index).zip(decisions.get_mut(index)) else { continue };
        let (after, change) = charge.strike(states.get(index), now);
        *decision = after;
        drop(states.change(index, change, now));
    }
    decisions
}

/// The penalties whose limit denies, unless they do already.
fn struck(set: &ChargeSet<'_>, decisions: &[Decision]) -> SmallVec<[usize; CHARGES_USUAL]> {
    let denies = |index: usize| decisions.get(index).is_some_and(|decision| decision.verdict.is_deny());
    let is_limit = |index: &usize| set.charges.get(*index).is_some_and(|charge| !charge.follows_its_limit());
    let is_struck = |index: &usize| {
        let may = set.charges.get(*index).is_some_and(Charge::may_strike);
        let limit = (0..*index).rfind(is_limit).unwrap_or(*index);
        may && !denies(*index) && (limit..*index).any(denies)
    };
    (0..set.charges.len()).filter(is_struck).collect()
}

/// Counts what counts although the request is denied, and tells of the others
/// what is there.
fn tell_denied(set: &ChargeSet<'_>, states: &mut impl States, decisions: &mut Decisions, now: Time) {
    for ((index, charge), decision) in set.charges.iter().enumerate().zip(&mut *decisions) {
        if charge.is_penalty() {
            continue;
        }
        if counts_anyway(charge) {
            let (counted, change) = charge.decide(states.get(index), now);
            *decision = counted;
            drop(states.change(index, change, now));
        } else if !decision.verdict.is_deny() {
            // It would have passed, and is not charged: tell what is there.
            let (as_it_is, _) = decide(states.get(index), charge.limit(), now, Operation::Peek, 0);
            *decision = Decision { verdict: decision.verdict, soft: decision.soft, ..as_it_is };
        }
    }
    let blocks = blocks(set, states, now);
    for ((charge, decision), block) in set.charges.iter().zip(decisions).zip(blocks) {
        if !charge.is_penalty() {
            decision.blocked_for = block;
        }
    }
}

/// How long each charge keeps the request from passing, now that the request is denied and `states` are what was
/// kept of it. Charges on one counter are found by sorting and asked together, once: a request may have
/// hundreds of them.
fn blocks(set: &ChargeSet<'_>, states: &impl States, now: Time) -> SmallVec<[Micros; CHARGES_USUAL]> {
    let mut blocks: SmallVec<[Micros; CHARGES_USUAL]> = SmallVec::from_elem(Micros::ZERO, set.charges.len());
    let mut order: SmallVec<[AskingCharge<'_>; CHARGES_USUAL]> = set
        .charges
        .iter()
        .enumerate()
        .filter(|(_, charge)| is_asking(charge) && !charge.is_penalty())
        .map(|(index, charge)| AskingCharge {
            fingerprint: fingerprint(&charge.key, &set.charges),
            index,
            charge,
        })
        .collect();
    order.sort_unstable_by_key(|asking| (asking.fingerprint, asking.index));
    for together in order.chunk_by(|one, next| one.is_on_counter_of(next)) {
        let Some(first) = together.first() else { continue };
        let block = blocked_for(together, states.get(first.index), now);
        for asking in together {
            if let Some(own) = blocks.get_mut(asking.index) {
                *own = block;
            }
        }
    }
    blocks
}

/// A charge that may deny its request, and where it stands in the set.
struct AskingCharge<'a> {
    fingerprint: u64,
    index: usize,
    charge: &'a Charge<'a>,
}

impl AskingCharge<'_> {
    fn is_on_counter_of(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint && self.charge.key == other.charge.key
    }
}

/// Equal for equal keys of a set, so that they come together when sorted: the place of the first such key, or, where
/// comparing each with each would take longer, a hash. Another key with that hash, which 64 bits hardly let happen,
/// would make the wait that is told too short, and the request would be denied once more.
fn fingerprint(key: &Key<'_>, charges: &[Charge<'_>]) -> u64 {
    if charges.len() <= COMPARED_MAX {
        let first = charges.iter().position(|charge| charge.key == *key);
        return first.and_then(|first| u64::try_from(first).ok()).unwrap_or(u64::MAX);
    }
    let mut hasher = DefaultHasher::new();
    key.write(|bytes| hasher.write(bytes));
    hasher.finish()
}

/// How long charges on one counter, whose state is this, keep the request from passing.
fn blocked_for(together: &[AskingCharge<'_>], state: Option<StateRef<'_>>, now: Time) -> Micros {
    if let [AskingCharge { charge, .. }] = together {
        let (again, _) = decide(state, charge.limit(), now, Operation::Peek, charge.step().1);
        return again.verdict.blocked_for();
    }
    // Several charges on one counter pass together or not at all. From the
    // time on at which the counter is as good as new nothing gets better, and
    // what passes at some time passes at any later one.
    let passes_after = |span: Micros| all_pass(together, state, now + span);
    let reset_after =
        |charge: &Charge<'_>| decide(state, charge.limit(), now, Operation::Peek, 0).0.reset_after;
    let resets = together.iter().map(|asking| reset_after(asking.charge));
    let (mut early, mut late) = (0, resets.max().unwrap_or(Micros::ZERO).get());
    if !passes_after(Micros::new(late)) {
        return Micros::MAX;
    }
    while early < late {
        let middle = early + (late - early) / 2;
        if passes_after(Micros::new(middle)) {
            late = middle;
        } else {
            early = middle + 1;
        }
    }
    Micros::new(late)
}

/// Whether these charges, which share a counter, pass one after the other.
fn all_pass(charges: &[AskingCharge<'_>], state: Option<StateRef<'_>>, now: Time) -> bool {
    let mut state = state.map(StateRef::to_state);
    charges.iter().all(|asking| {
        let before = state.as_ref().map(State::as_ref);
        let (decision, change) = Charge { operation: Operation::Check, ..*asking.charge }.decide(before, now);
        match change {
            Change::Keep => {}
            Change::Put(after) => state = Some(after),
            Change::Remove => state = None,
        }
        !decision.verdict.is_deny()
    })
}

/// Whether a charge may deny the request.
const fn is_asking(charge: &Charge<'_>) -> bool {
    !charge.mode.is_shadow() && matches!(charge.step().0, Operation::Check | Operation::Peek)
}

/// Whether a charge stands although the request is denied. What was reported
/// or given back has happened, whatever else is true of the request, and a
/// penalty is about denials.
pub fn counts_anyway(charge: &Charge<'_>) -> bool {
    charge.is_penalty()
        || charge.mode.is_shadow()
        || charge.limit().counts_rejected()
        || matches!(charge.step().0, Operation::Report | Operation::Refund)
}
