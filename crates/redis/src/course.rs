//! A request on its way through several places: servers, slots, this process.
//!
//! Where a request's charges cannot be decided in one step, they are decided
//! part by part, always in the same order of places. A [`Course`] knows what is
//! decided so far and what that means for the next part, so that in the end the
//! request is decided all or nothing.
//!
//! Invariants: once the request is denied, later parts take nothing that does
//! not count anyway; what earlier parts took is named by [`Course::to_give_back`].
//! Because everybody goes the same way round, whoever is denied at one place
//! is so because others hold it who get further: no two requests ever deny
//! each other for nothing.
//!
//! Deliberately not here: where the places are, and who asks them.

use smallvec::SmallVec;
use tollgate_core::{Decision, Operation};
use tollgate_limiter::store::{CHARGES_USUAL, ChargeSet, Decisions, counts_anyway};

/// Numbers of charges in their batch.
pub(crate) type Picks = SmallVec<[usize; CHARGES_USUAL]>;

/// What became of one charge.
#[derive(Debug, Clone, Copy)]
struct Settled {
    decision: Decision,
    degraded: bool,
    /// It took its cost where it can be given back.
    took: bool,
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Course<'b, 'a> {
    batch: &'b ChargeSet<'a>,
    settled: SmallVec<[Option<Settled>; CHARGES_USUAL]>,
}

impl<'b, 'a> Course<'b, 'a> {
    pub(crate) fn new(batch: &'b ChargeSet<'a>) -> Self {
        Self { batch, settled: smallvec::smallvec![None; batch.charges.len()] }
    }

    /// The charges that are not settled, by number.
    pub(crate) fn open(&self) -> Picks {
        (0..self.settled.len()).filter(|charge| self.decision(*charge).is_none()).collect()
    }

    /// These charges as a batch of their own, as the others leave them.
    pub(crate) fn part(&self, picks: &[usize]) -> ChargeSet<'a> {
        ChargeSet {
            charges: picks.iter().filter_map(|pick| self.batch.charges.get(*pick)).copied().collect(),
            quota_passes: self.batch.quota_passes || self.hope_beside(picks),
            is_denied_elsewhere: self.is_denied(),
        }
    }

    /// What was decided of these charges.
    pub(crate) fn settle(&mut self, picks: &[usize], decisions: &[Decision], how: How) {
        // A part that is denied has taken nothing.
        let took = how == How::Taken && !self.part(picks).is_denied(decisions);
        for (pick, decision) in picks.iter().zip(decisions) {
            if let Some(settled) = self.settled.get_mut(*pick) {
                *settled = Some(Settled { decision: *decision, degraded: how == How::Degraded, took });
            }
        }
    }

    /// Whether what is settled refuses the request, whatever else comes.
    pub(crate) fn is_denied(&self) -> bool {
        if self.batch.is_denied_elsewhere {
            return true;
        }
        let (mut any_quota, mut quota_passes) = (false, self.batch.quota_passes);
        for (index, charge) in self.batch.charges.iter().enumerate() {
            let decision = self.decision(index);
            let denies =
                decision.is_some_and(|decision| decision.verdict.is_deny()) && !charge.mode.is_shadow();
            if charge.mode.is_quota() {
                any_quota = true;
                quota_passes |= !denies;
            } else if denies {
                return true;
            }
        }
        any_quota && !quota_passes
    }

    /// What was taken although the request is denied in the end.
    pub(crate) fn to_give_back(&self) -> Picks {
        if !self.is_denied() {
            return Picks::new();
        }
        let is_due = |(index, settled): (usize, &Option<Settled>)| {
            let charge = self.batch.charges.get(index)?;
            let settled = settled.filter(|settled| settled.took)?;
            let took = charge.operation == Operation::Check
                && charge.cost > 0
                && !settled.decision.verdict.is_deny()
                && !counts_anyway(charge);
            took.then_some(index)
        };
        self.settled.iter().enumerate().filter_map(is_due).collect()
    }

    /// The charge would have passed and is not charged: tells what is there.
    pub(crate) fn gave_back(&mut self, pick: usize, as_it_is: Decision) {
        if let Some(Some(settled)) = self.settled.get_mut(pick) {
            let Decision { verdict, soft, .. } = settled.decision;
            settled.decision = Decision { verdict, soft, ..as_it_is };
            settled.took = false;
        }
    }

    /// All decisions, and which of them were made without the store.
    pub(crate) fn finish(self) -> (Decisions, SmallVec<[bool; CHARGES_USUAL]>) {
        let settled = self.settled.into_iter().flatten();
        let (decisions, degraded): (Decisions, SmallVec<[bool; CHARGES_USUAL]>) =
            settled.map(|settled| (settled.decision, settled.degraded)).unzip();
        let is_whole = !degraded.contains(&true);
        (decisions, if is_whole { SmallVec::new() } else { degraded })
    }

    fn decision(&self, charge: usize) -> Option<Decision> {
        self.settled.get(charge).copied().flatten().map(|settled| settled.decision)
    }

    /// Whether a quota outside of this part may still let the request pass.
    fn hope_beside(&self, picks: &[usize]) -> bool {
        self.batch.charges.iter().enumerate().any(|(index, charge)| {
            let denies = || self.decision(index).is_some_and(|decision| decision.verdict.is_deny());
            charge.mode.is_quota() && !picks.contains(&index) && (charge.mode.is_shadow() || !denies())
        })
    }
}

/// How charges were decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// By the store, where they can be given back.
    Taken,
    /// By the store, or from memory of it, with nothing to give back.
    Kept,
    /// Without the store.
    Degraded,
}
