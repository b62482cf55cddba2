//! The answer for a request.
//!
//! Put together by [`crate::Limiter`] from the decisions of its charges;
//! adapters turn it into their wire's words.
//!
//! Deliberately not here: headers, status codes, texts.

use std::sync::Arc;

use arc_swap::Guard;
use smallvec::SmallVec;
use tollgate_core::ruleset::{Found, Free};
use tollgate_core::{
    Algorithm, Charge, Decision, Micros, Mode, Operation, Rule, RuleId, RuleSet, Time, Verdict,
};

use crate::store::{CHARGES_USUAL, ChargeSet, StoreReply};

/// One decision, and the rule that made it.
///
/// ```
/// use tollgate_limiter::RuleDecision;
///
/// /// What a header tells.
/// fn remaining(decision: &RuleDecision) -> String {
///     format!("{};w={}", decision.remaining, decision.window.as_secs_ceil())
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RuleDecision {
    /// Which descriptor of the request it is for.
    pub descriptor: usize,
    /// The rule; none if the caller brought the limit.
    pub rule: Option<RuleId>,
    /// The algorithm that decided.
    pub algorithm: Algorithm,
    /// Requests per window, as written in the rule.
    pub count: u32,
    /// The window.
    pub window: Micros,
    /// How a denial bears on the request.
    pub mode: Mode,
    /// What was done with the cost; one request can take and give back.
    pub operation: Operation,
    /// What was asked for.
    pub cost: u64,
    /// Now, later, or not.
    pub verdict: Verdict,
    /// What fits at most; `remaining` never exceeds it.
    pub limit: u64,
    /// What is taken after this decision; more than `limit` in debt or when
    /// rejected requests count.
    pub used: u64,
    /// How many requests of cost 1 would still pass at this instant.
    pub remaining: u64,
    /// When the key is as good as new, nothing else happening.
    pub reset_after: Micros,
    /// Allowed only because the limit is soft.
    pub soft: bool,
    /// Decided without the store, because it could not be asked.
    pub degraded: bool,
    /// Denied from memory of an earlier denial, without asking the store.
    pub remembered: bool,
}

impl RuleDecision {
    fn new(charge: &Charge<'_>, decision: Decision) -> Self {
        Self {
            degraded: false,
            remembered: false,
            descriptor: charge.descriptor,
            rule: charge.rule,
            algorithm: charge.limit().algorithm(),
            count: charge.limit().count(),
            window: charge.limit().window(),
            mode: charge.mode,
            operation: charge.operation,
            cost: charge.cost,
            verdict: decision.verdict,
            limit: decision.limit,
            used: decision.used,
            remaining: decision.remaining,
            reset_after: decision.reset_after,
            soft: decision.soft,
        }
    }

    /// Whether it would have refused the request, were it not in the shadow.
    pub const fn is_shadow_deny(&self) -> bool {
        self.mode.is_shadow() && self.verdict.is_deny()
    }
}

/// By descriptor, why nothing was charged for it; none if something was.
///
/// ```
/// use tollgate_core::{Descriptor, Request, RuleSet};
/// use tollgate_core::ruleset::Free;
/// use tollgate_limiter::Limiter;
/// let reply = Limiter::new(RuleSet::default()).check(&Request::new("shop", &[Descriptor::new(&[])]));
/// assert_eq!(reply.free.as_slice(), [Some(Free::UnknownDomain)]);
/// ```
pub type FreeList = SmallVec<[Option<Free>; CHARGES_USUAL]>;

/// The answer for a request.
///
/// ```
/// use tollgate_core::{Request, RuleSet, Verdict};
/// use tollgate_limiter::Limiter;
/// let reply = Limiter::new(RuleSet::default()).check(&Request::new("shop", &[]));
/// assert_eq!(reply.verdict, Verdict::Allow, "what no rule matches is allowed");
/// assert!(reply.binding().is_none());
/// ```
#[derive(Debug)]
pub struct Reply {
    /// When it was decided.
    pub now: Time,
    /// Now, later, or not.
    pub verdict: Verdict,
    /// The decisions, in the order of the descriptors and of their limits.
    pub decisions: SmallVec<[RuleDecision; CHARGES_USUAL]>,
    /// By descriptor, why nothing was charged for it; none if something was.
    pub free: FreeList,
    /// Which decision the verdict comes from: the one that denies longest, else
    /// the one that delays longest, else the one with the least remaining.
    pub binding: Option<usize>,
    rules: Guard<Arc<RuleSet>>,
}

impl Reply {
    /// The reply that these decisions make up.
    pub(crate) fn new(rules: Guard<Arc<RuleSet>>, now: Time, free: FreeList, decided: Decided) -> Self {
        let Decided { decisions, denied } = decided;
        let binding = if denied { denying(&decisions) } else { tightest(&decisions) };
        let verdict = match binding.and_then(|index| decisions.get(index)) {
            Some(decision) if denied || !decision.verdict.is_deny() => decision.verdict,
            _ => Verdict::Allow,
        };
        Self { now, verdict, decisions, free, binding, rules }
    }

    /// Makes denials of all waits that are longer than somebody has patience for.
    pub(crate) fn deny_waits_above(&mut self, patience: Micros) {
        let verdicts = self.decisions.iter_mut().filter(|decision| !decision.mode.is_shadow());
        for verdict in verdicts.map(|decision| &mut decision.verdict).chain([&mut self.verdict]) {
            match *verdict {
                Verdict::Delay { wait } if wait > patience => {
                    *verdict = Verdict::Deny { retry_after: Some(wait) };
                }
                Verdict::Allow | Verdict::Delay { .. } | Verdict::Deny { .. } => {}
            }
        }
    }

    /// The rules that were in force.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// The rule of a decision; none if the caller brought the limit.
    pub fn rule(&self, decision: &RuleDecision) -> Option<&Rule> {
        self.rules.rule(decision.rule?)
    }

    /// The decision that the verdict comes from, if any rule applied.
    pub fn binding(&self) -> Option<&RuleDecision> {
        self.decisions.get(self.binding?)
    }

    /// Whether anything was decided without the store.
    pub fn is_degraded(&self) -> bool {
        self.decisions.iter().any(|decision| decision.degraded)
    }

    /// Whether the request is let through only because a limit is soft.
    pub fn is_soft(&self) -> bool {
        !self.verdict.is_deny() && self.decisions.iter().any(|decision| decision.soft)
    }
}

/// The decisions with what they were about, and whether they refuse the request.
pub(crate) struct Decided {
    decisions: SmallVec<[RuleDecision; CHARGES_USUAL]>,
    denied: bool,
}

impl Decided {
    pub(crate) fn new(batch: &ChargeSet<'_>, answer: &StoreReply) -> Self {
        let degraded = answer.degraded.iter().copied().chain(std::iter::repeat(false));
        let decided = batch.charges.iter().zip(&answer.decisions).zip(degraded);
        let decisions = decided.map(|((charge, decision), degraded)| RuleDecision {
            degraded,
            remembered: answer.remembered && decision.verdict.is_deny(),
            ..RuleDecision::new(charge, *decision)
        });
        let decisions = decisions.collect();
        Self { decisions, denied: batch.is_denied(&answer.decisions) }
    }
}

/// What is kept of a descriptor that was looked up.
pub(crate) fn note<'a>(found: Found<'a>, batch: &mut ChargeSet<'a>, free: &mut FreeList) {
    match found {
        Found::Free { why, .. } => free.push(Some(why)),
        Found::Charge(charge) => {
            if charge.descriptor == free.len() {
                free.push(None);
            }
            batch.charges.push(charge);
        }
    }
}

/// Among the decisions that refuse the request, the one to wait for. The request
/// passes once every enforced limit and one quota let it.
fn denying(decisions: &[RuleDecision]) -> Option<usize> {
    let wait = |index: &usize| match decisions.get(*index).map(|decision| decision.verdict) {
        Some(Verdict::Deny { retry_after }) => retry_after.unwrap_or(Micros::MAX),
        Some(Verdict::Allow | Verdict::Delay { .. }) | None => Micros::ZERO,
    };
    let denies = |quota: bool| {
        decisions.iter().enumerate().filter_map(move |(index, decision)| {
            let is_meant = decision.mode.is_quota() == quota && !decision.mode.is_shadow();
            (is_meant && decision.verdict.is_deny()).then_some(index)
        })
    };
    let quotas_refuse = decisions
        .iter()
        .filter(|decision| decision.mode.is_quota())
        .all(|decision| decision.verdict.is_deny() && !decision.mode.is_shadow());
    let quota = denies(true).min_by_key(wait).filter(|_| quotas_refuse);
    denies(false).chain(quota).reduce(|best, next| if wait(&next) > wait(&best) { next } else { best })
}

/// Among the decisions of a request that is let through, the one to tell about.
fn tightest(decisions: &[RuleDecision]) -> Option<usize> {
    let tightness = |decision: &RuleDecision| match decision.verdict {
        Verdict::Delay { wait } => (false, u64::MAX - wait.get()),
        Verdict::Allow | Verdict::Deny { .. } => (true, decision.remaining),
    };
    let enforced = decisions.iter().enumerate().filter(|(_, decision)| !decision.is_shadow_deny());
    enforced.min_by_key(|(_, decision)| tightness(decision)).map(|(index, _)| index)
}
