//! A request whose charges are decided in several steps: in several slots, on
//! several servers, partly from memory.
//!
//! [`MultiSlotCheck`] knows which charges are settled and what that means for
//! the others, so that in the end the request is decided all or nothing.
//!
//! Invariants: once the request is denied, later steps take nothing but what
//! counts anyway; [`MultiSlotCheck::to_give_back`] lists what earlier steps took.
//! Every node asks the slots in the same order, so a request is only denied by
//! others that are further ahead: no two requests deny each other for nothing.
//!
//! Deliberately not here: which slots there are, and who asks them.

use smallvec::SmallVec;
use tollgate_core::{Charge, Decision, Operation};
use tollgate_limiter::charge_set::{CHARGES_USUAL, ChargeFlags, ChargeSet, Decisions, counts_anyway};

/// Indexes of charges in their set.
pub(crate) type ChargeIndexes = SmallVec<[usize; CHARGES_USUAL]>;

/// What decided some charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecidedBy {
    /// A script. What it took can be given back.
    Script,
    /// Envoy's counters or the memory of denials. There is nothing to give back.
    EnvoyOrMemory,
    /// This node, without the store.
    Fallback,
}

/// What became of one charge.
#[derive(Debug, Clone, Copy)]
struct SettledCharge {
    decision: Decision,
    degraded: bool,
    /// It took its cost where it can be given back.
    took: bool,
}

/// A request that is decided in several steps.
#[derive(Debug)]
pub(crate) struct MultiSlotCheck<'b, 'a> {
    charge_set: &'b ChargeSet<'a>,
    settled: SmallVec<[Option<SettledCharge>; CHARGES_USUAL]>,
}

impl<'b, 'a> MultiSlotCheck<'b, 'a> {
    pub(crate) fn new(charge_set: &'b ChargeSet<'a>) -> Self {
        Self { charge_set, settled: smallvec::smallvec![None; charge_set.charges.len()] }
    }

    /// The charges that are not settled.
    pub(crate) fn open(&self) -> ChargeIndexes {
        (0..self.settled.len()).filter(|charge| self.decision(*charge).is_none()).collect()
    }

    /// These charges as a set of their own, given what is settled of the others.
    pub(crate) fn part(&self, indexes: &[usize]) -> ChargeSet<'a> {
        ChargeSet {
            charges: indexes
                .iter()
                .filter_map(|index| self.charge_set.charges.get(*index))
                .copied()
                .collect(),
            quota_passes: self.charge_set.quota_passes || self.may_another_quota_pass(indexes),
            is_denied_elsewhere: self.is_denied(),
        }
    }

    /// Notes what was decided of these charges.
    pub(crate) fn settle(&mut self, indexes: &[usize], decisions: &[Decision], by: DecidedBy) {
        // A part that is denied has taken nothing.
        let took = by == DecidedBy::Script && !self.part(indexes).is_denied(decisions);
        let degraded = by == DecidedBy::Fallback;
        for (index, decision) in indexes.iter().zip(decisions) {
            if let Some(settled) = self.settled.get_mut(*index) {
                *settled = Some(SettledCharge { decision: *decision, degraded, took });
            }
        }
    }

    /// The charge of that index.
    pub(crate) fn charge(&self, index: usize) -> Option<&'b Charge<'a>> {
        self.charge_set.charges.get(index)
    }

    /// Whether what is settled denies the request, whatever comes later.
    pub(crate) fn is_denied(&self) -> bool {
        let known = self.settled.iter().map(|settled| settled.as_ref().map(|settled| &settled.decision));
        self.charge_set.is_denied_elsewhere || self.charge_set.denial(known).is_denied()
    }

    /// What was taken although the request is denied in the end.
    pub(crate) fn to_give_back(&self) -> ChargeIndexes {
        if !self.is_denied() {
            return ChargeIndexes::new();
        }
        let is_due = |(index, settled): (usize, &Option<SettledCharge>)| {
            let charge = self.charge_set.charges.get(index)?;
            let settled = settled.filter(|settled| settled.took)?;
            let took = charge.operation == Operation::Check
                && charge.cost > 0
                && !settled.decision.verdict.is_deny()
                && !counts_anyway(charge);
            took.then_some(index)
        };
        self.settled.iter().enumerate().filter_map(is_due).collect()
    }

    /// Notes that a charge was given back. Its verdict stands, because it would
    /// have passed; the numbers are those after the refund.
    pub(crate) fn gave_back(&mut self, index: usize, after_refund: Decision) {
        if let Some(Some(settled)) = self.settled.get_mut(index) {
            let Decision { verdict, soft, .. } = settled.decision;
            settled.decision = Decision { verdict, soft, ..after_refund };
            settled.took = false;
        }
    }

    /// All decisions, and which of them were made without the store.
    pub(crate) fn finish(self) -> (Decisions, ChargeFlags) {
        let settled = self.settled.into_iter().flatten();
        let (decisions, degraded): (Decisions, ChargeFlags) =
            settled.map(|settled| (settled.decision, settled.degraded)).unzip();
        let is_whole = !degraded.contains(&true);
        (decisions, if is_whole { ChargeFlags::new() } else { degraded })
    }

    fn decision(&self, charge: usize) -> Option<Decision> {
        self.settled.get(charge).copied().flatten().map(|settled| settled.decision)
    }

    /// Whether a quota outside of this part may still let the request pass.
    fn may_another_quota_pass(&self, part: &[usize]) -> bool {
        self.charge_set.charges.iter().enumerate().any(|(index, charge)| {
            let denies = || self.decision(index).is_some_and(|decision| decision.verdict.is_deny());
            charge.mode.is_quota() && !part.contains(&index) && (charge.mode.is_shadow() || !denies())
        })
    }
}
