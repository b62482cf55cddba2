//! The answer for a request: who denies it, and what to tell.
//!
//! Put together by [`crate::Limiter`] from the decisions of its charges;
//! adapters turn it into their wire's words.
//!
//! Invariants: nobody else chooses which decision denies a request or is told.
//! What is in shadow mode denies nothing, delays nothing and is told to nobody.
//!
//! Deliberately not here: headers, status codes, texts.

use std::num::NonZeroU64;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::ruleset::{Free, ListDenial};
use tollgate_core::{
    Algorithm, Charge, Decision, Micros, Mode, Operation, Outcome, OutcomeFlags, OverLimit, Rule, RuleId,
    RuleSet, Time, Verdict,
};

use crate::charge_set::{CHARGES_USUAL, Denial};
use crate::lookup::Lookup;
pub use crate::lookup::{Exception, FreeList};
use crate::rules_in_force::RulesInForce;
use crate::rules_lease::RulesLease;
use crate::store::StoreReply;

/// One decision, and the rule that it was made by.
#[derive(Debug, Clone, Copy)]
pub struct RuleDecision {
    /// Which descriptor of the request it is for.
    pub descriptor: usize,
    /// The rule; none if the caller brought the limit, or a list of the domain denies.
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
    /// Allowed only because the limit is soft, or elastic and the load is low.
    pub soft: bool,
    /// By how many percent the limit may be exceeded now.
    pub exceed_percent: u32,
    /// How long it keeps the whole request from passing.
    blocked_for: Micros,
    /// Decided without the store, because it could not be asked.
    pub degraded: bool,
    /// Denied from memory of an earlier denial, without asking the store.
    pub remembered: bool,
    /// Blocked by the limit's penalty: denied until `retry_after`, whatever is left.
    pub is_blocked: bool,
    /// It could have waited, for longer than the caller holds a request.
    pub is_wait_too_long: bool,
    /// What denied it, if it was no limit; then the numbers are those of a limit of 0.
    pub exception: Option<Exception>,
    /// A number that stands for the key: entries with other values have another one, as long as the process
    /// lives. None if it was not found out, as for a key that is elsewhere or that several values share.
    pub key_number: Option<NonZeroU64>,
}

impl RuleDecision {
    #[inline]
    pub(crate) fn new(charge: &Charge<'_>, decision: &Decision) -> Self {
        Self {
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
            exceed_percent: charge.limit().exceed_percent(),
            blocked_for: decision.blocked_for,
            degraded: false,
            remembered: false,
            is_blocked: false,
            is_wait_too_long: false,
            exception: None,
            key_number: None,
        }
    }

    /// The decision without what it is about.
    pub(crate) const fn decision(&self) -> Decision {
        Decision {
            verdict: self.verdict,
            limit: self.limit,
            used: self.used,
            remaining: self.remaining,
            reset_after: self.reset_after,
            soft: self.soft,
            blocked_for: self.blocked_for,
        }
    }

    /// The decision of a deny list or an override.
    fn of_exception(denial: &ListDenial, exception: Exception) -> Self {
        Self {
            descriptor: denial.descriptor,
            rule: denial.rule,
            algorithm: Algorithm::FixedWindow,
            count: 0,
            window: Micros::SECOND,
            mode: denial.mode,
            operation: denial.operation,
            cost: denial.cost,
            verdict: Verdict::Deny { retry_after: None },
            limit: 0,
            used: 0,
            remaining: 0,
            reset_after: Micros::ZERO,
            soft: false,
            exceed_percent: 0,
            blocked_for: Micros::MAX,
            degraded: false,
            remembered: false,
            is_blocked: false,
            is_wait_too_long: false,
            exception: Some(exception),
            key_number: None,
        }
    }

    /// Adds what the penalty of its limit decided.
    fn block(&mut self, penalty: &Self) {
        let Verdict::Deny { retry_after: Some(block) } = penalty.verdict else { return };
        self.is_blocked = true;
        self.verdict = match self.verdict {
            Verdict::Deny { retry_after } => {
                Verdict::Deny { retry_after: retry_after.map(|own| own.max(block)) }
            }
            Verdict::Allow | Verdict::Delay { .. } => Verdict::Deny { retry_after: Some(block) },
        };
        self.remaining = 0;
        self.soft = false;
        self.reset_after = self.reset_after.max(block);
        self.blocked_for = self.blocked_for.max(penalty.blocked_for);
        self.degraded |= penalty.degraded;
        self.remembered |= penalty.remembered;
    }

    /// Why it denies, if there is more to say than that the limit is used up.
    pub const fn reason(&self) -> Option<&'static str> {
        match self.exception {
            Some(exception) => Some(exception.reason()),
            None if self.is_blocked => Some("penalty"),
            None if self.is_wait_too_long => Some("max_wait"),
            None => None,
        }
    }

    /// Whether it says no and is not in shadow mode.
    pub const fn is_denying(&self) -> bool {
        self.verdict.is_deny() && !self.mode.is_shadow()
    }
}

/// What there is to tell about one descriptor.
#[derive(Debug, Clone, Copy)]
pub enum DescriptorReply<'a> {
    /// No rule applies.
    Free,
    /// A rule says that it is not limited.
    Unlimited,
    /// The decision that matters most for it.
    Decided(&'a RuleDecision),
}

/// The answer for a request.
///
/// ```
/// use tollgate_core::{Request, RuleSet, Verdict};
/// use tollgate_limiter::Limiter;
/// let reply = Limiter::new(RuleSet::default()).check(&Request::new("shop", &[])).at_once();
/// assert_eq!(reply.verdict, Verdict::Allow, "what no rule matches is allowed");
/// assert!(reply.binding().is_none());
/// ```
#[derive(Debug)]
pub struct Reply {
    /// When it was decided.
    pub now: Time,
    /// What the caller is to obey: now, later, or not.
    pub verdict: Verdict,
    /// The decisions, in the order of the descriptors and of their limits.
    pub decisions: SmallVec<[RuleDecision; CHARGES_USUAL]>,
    /// By descriptor, why nothing was charged for it; none if something was.
    pub free: FreeList,
    binding: Option<usize>,
    denial: Denial,
    is_all_shadow: bool,
    /// Denied, and taken all the same to be sent later.
    is_put_off: bool,
    rules: RulesLease,
}

impl Reply {
    /// The reply that these decisions make up. `is_all_shadow` if nothing at
    /// all is enforced.
    #[inline]
    pub(crate) fn new(rules: RulesLease, decided: Decided, is_all_shadow: bool) -> Self {
        let Decided { now, decisions, free, denial } = decided;
        let binding = if denial.is_denied() { denying(&decisions, denial) } else { tightest(&decisions) };
        let verdict = match binding.and_then(|index| decisions.get(index)) {
            Some(decision) if denial.is_denied() => {
                let ever = decision.blocked_for < Micros::MAX;
                Verdict::Deny { retry_after: ever.then_some(decision.blocked_for) }
            }
            // A quota may deny while another one lets the request pass.
            Some(decision) if !decision.verdict.is_deny() => decision.verdict,
            Some(_) | None => Verdict::Allow,
        };
        let verdict = match is_all_shadow {
            true => Verdict::Allow,
            false => verdict,
        };
        Self { now, verdict, decisions, free, binding, denial, is_all_shadow, is_put_off: false, rules }
    }

    /// Whether only limits that say `over_limit: defer` deny it, and there is a time at which it
    /// would pass: whoever can send it later may take it now.
    pub fn is_deferrable(&self) -> bool {
        matches!(self.verdict, Verdict::Deny { retry_after: Some(_) })
            && self.told().all(|decision| decision.exception.is_none() && self.defers(decision))
    }

    /// The first of the enforced limits that say `over_limit: defer`.
    pub fn deferring(&self) -> Option<&RuleDecision> {
        self.decisions.iter().find(|decision| !self.is_shadow(decision) && self.defers(decision))
    }

    fn defers(&self, decision: &RuleDecision) -> bool {
        self.rule(decision).is_some_and(|rule| rule.over_limit == OverLimit::Defer)
    }

    /// It was taken to be sent later, and so is counted as delayed and not as denied.
    pub fn put_off(&mut self) {
        self.is_put_off = true;
    }

    /// Makes of a peek what a check would have answered if the first limit that defers had no
    /// room before `wait`: others wait for that room already.
    pub fn line_up(&mut self, wait: Micros) {
        let is_first = |decision: &RuleDecision| !self.is_shadow(decision) && self.defers(decision);
        let Some(index) = self.decisions.iter().position(is_first) else { return };
        for decision in &mut self.decisions {
            if decision.operation == Operation::Peek {
                decision.operation = Operation::Check;
            }
        }
        if self.verdict.is_deny() {
            return;
        }
        let verdict = Verdict::Deny { retry_after: Some(wait) };
        if let Some(decision) = self.decisions.get_mut(index) {
            (decision.verdict, decision.blocked_for) = (verdict, wait);
        }
        (self.verdict, self.binding) = (verdict, Some(index));
        let verdicts = self.decisions.iter().map(|decision| (decision.mode, decision.verdict.is_deny()));
        self.denial = Denial::new(verdicts, false);
    }

    /// How a verdict is counted.
    const fn counted(&self, verdict: Verdict) -> Verdict {
        match verdict {
            _ if !self.is_put_off => verdict,
            Verdict::Allow | Verdict::Delay { .. } | Verdict::Deny { retry_after: None } => verdict,
            Verdict::Deny { retry_after: Some(wait) } => Verdict::Delay { wait },
        }
    }

    /// The reply of one enforced decision and nothing else.
    #[inline]
    pub(crate) fn single(rules: RulesLease, now: Time, decision: RuleDecision, is_all_shadow: bool) -> Self {
        let denial = Denial::by_limits(decision.verdict.is_deny());
        let verdict = if is_all_shadow { Verdict::Allow } else { decision.verdict };
        let mut reply = Self {
            now,
            verdict,
            decisions: SmallVec::new(),
            free: FreeList::new(),
            binding: Some(0),
            denial,
            is_all_shadow,
            is_put_off: false,
            rules,
        };
        // Where they are to stay: the lists are most of a reply, and moving them takes longer than making them.
        reply.decisions.push(decision);
        reply.free.push(None);
        reply
    }

    /// Makes a reply of [`Reply::single`] that of another decision by the same rules at the same time.
    #[inline]
    pub(crate) fn replace_single(&mut self, decision: RuleDecision) {
        self.denial = Denial::by_limits(decision.verdict.is_deny());
        self.verdict = if self.is_all_shadow { Verdict::Allow } else { decision.verdict };
        if let Some(only) = self.decisions.first_mut() {
            *only = decision;
        }
    }

    /// Makes denials of all waits that are longer than somebody has patience for.
    pub(crate) fn deny_waits_above(&mut self, patience: Micros) {
        let enforced = self.decisions.iter_mut().filter(|decision| !decision.mode.is_shadow());
        let enforced = enforced.map(|decision| {
            if matches!(decision.verdict, Verdict::Delay { wait } if wait > patience) {
                // As for a limit with such a `max_wait`.
                decision.remaining = 0;
                decision.is_wait_too_long = true;
            }
            &mut decision.verdict
        });
        for verdict in enforced.chain([&mut self.verdict]) {
            match *verdict {
                Verdict::Delay { wait } if wait > patience => {
                    // By then the wait is as long as is endured.
                    *verdict = Verdict::Deny {
                        retry_after: Some(Micros::new(wait.get().saturating_sub(patience.get()))),
                    };
                }
                Verdict::Allow | Verdict::Delay { .. } | Verdict::Deny { .. } => {}
            }
        }
        let verdicts = self.decisions.iter().map(|decision| (decision.mode, decision.verdict.is_deny()));
        self.denial = Denial::new(verdicts, false);
    }

    /// The rules that were in force.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// The same, for whoever keeps something about them.
    pub fn shared_rules(&self) -> &Arc<RuleSet> {
        self.rules.shared_set()
    }

    /// The same, with what is known of them.
    pub(crate) fn rules_in_force(&self) -> Arc<RulesInForce> {
        self.rules.shared()
    }

    /// The rule of a decision; none if the caller brought the limit.
    pub fn rule(&self, decision: &RuleDecision) -> Option<&Rule> {
        self.rules.rule(decision.rule?)
    }

    /// A number that stands for the rule of a decision, and for no other rule that was in force since this process
    /// began. A rule gets another one with each reload.
    #[inline]
    pub fn rule_number(&self, decision: &RuleDecision) -> Option<u64> {
        decision.rule.map(|rule| self.rules.rule_number(rule))
    }

    /// The decision that the verdict comes from and that is told before all
    /// others: of those that deny the request the one to wait for, else the one
    /// that delays longest, else the one with the least remaining. None if no
    /// limit is enforced.
    pub fn binding(&self) -> Option<&RuleDecision> {
        self.decisions.get(self.binding_index()?)
    }

    /// Which of the decisions that is.
    pub fn binding_index(&self) -> Option<usize> {
        self.binding.filter(|_| !self.is_all_shadow)
    }

    /// The decisions to tell the caller about: those that deny the request, or
    /// else all that are enforced.
    pub fn told(&self) -> impl Iterator<Item = &RuleDecision> {
        let is_denied = self.verdict.is_deny();
        self.decisions.iter().filter(move |decision| match is_denied {
            true => self.is_denied_by(decision),
            false => !self.is_shadow(decision),
        })
    }

    /// What there is to tell about a descriptor: of several limits the one that
    /// denies, longest wait first, or else the one with the least remaining.
    pub fn descriptor(&self, descriptor: usize) -> DescriptorReply<'_> {
        match self.free.get(descriptor) {
            Some(Some(Free::Unlimited)) => return DescriptorReply::Unlimited,
            Some(Some(
                Free::NoRule | Free::UnknownDomain | Free::Replaced | Free::Allowed | Free::Overridden,
            )) => {
                return DescriptorReply::Free;
            }
            Some(None) | None => {}
        }
        // Decisions are in the order of their descriptors, and a request may have hundreds of them.
        let first = self.decisions.partition_point(|decision| decision.descriptor < descriptor);
        let rest = self.decisions.get(first..).unwrap_or_default();
        let own = || rest.iter().take_while(|decision| decision.descriptor == descriptor);
        own()
            .filter(|decision| decision.is_denying())
            .max_by_key(|decision| decision.verdict.blocked_for())
            .or_else(|| own().min_by_key(|decision| decision.remaining))
            .map_or(DescriptorReply::Free, DescriptorReply::Decided)
    }

    /// Whether a decision has a part in denying the request.
    pub fn is_denied_by(&self, decision: &RuleDecision) -> bool {
        decision.is_denying() && self.denial.is_by(decision.mode) && !self.is_all_shadow
    }

    /// Whether the request passes only because nothing at all is enforced.
    pub const fn is_all_shadow_denied(&self) -> bool {
        self.is_all_shadow && self.denial.is_denied()
    }

    /// Whether nothing at all is enforced.
    pub const fn is_all_shadow(&self) -> bool {
        self.is_all_shadow
    }

    /// Whether a decision is not enforced.
    pub const fn is_shadow(&self, decision: &RuleDecision) -> bool {
        self.is_all_shadow || decision.mode.is_shadow()
    }

    /// What denied the request, if it was no limit.
    pub fn exception(&self) -> Option<Exception> {
        self.told().find_map(|decision| decision.exception).filter(|_| self.verdict.is_deny())
    }

    /// Whether anything was decided without the store.
    pub fn is_degraded(&self) -> bool {
        self.decisions.iter().any(|decision| decision.degraded)
    }

    /// Whether the request is let through only because a limit is soft.
    pub fn is_soft(&self) -> bool {
        !self.verdict.is_deny()
            && self.decisions.iter().any(|decision| decision.soft && !self.is_shadow(decision))
    }

    /// How the request as a whole is counted.
    pub fn outcome(&self) -> Outcome {
        let is_denied = self.verdict.is_deny();
        let mut flags =
            OutcomeFlags { shadow_denied: self.is_all_shadow_denied(), ..OutcomeFlags::default() };
        // Once over them: several ask this about every request.
        for decision in &self.decisions {
            flags.degraded |= decision.degraded;
            flags.soft |= decision.soft && !is_denied && !self.is_shadow(decision);
            flags.shadow_denied |= decision.mode.is_shadow() && decision.verdict.is_deny();
        }
        Outcome::new(self.counted(self.verdict), flags)
    }

    /// Whether the limit of a decision is an operator's for a while, and not that of its rule.
    pub fn is_overridden(&self, decision: &RuleDecision) -> bool {
        let rule = self.rule(decision).filter(|_| decision.exception.is_none());
        rule.is_some_and(|rule| rule.limit.count() != decision.count)
    }

    /// How one of its decisions is counted.
    pub fn outcome_of(&self, decision: &RuleDecision) -> Outcome {
        let is_shadow = self.is_shadow(decision);
        let verdict = if is_shadow { Verdict::Allow } else { self.counted(decision.verdict) };
        let flags = OutcomeFlags {
            degraded: decision.degraded,
            soft: decision.soft && !is_shadow,
            shadow_denied: is_shadow && decision.verdict.is_deny(),
        };
        Outcome::new(verdict, flags)
    }
}

/// The decisions with what they were about, and which of them deny the request.
pub(crate) struct Decided {
    now: Time,
    decisions: SmallVec<[RuleDecision; CHARGES_USUAL]>,
    free: FreeList,
    denial: Denial,
}

impl Decided {
    /// `key_number` tells what stands for the key of a charge, by the charge's place.
    #[inline]
    pub(crate) fn new(
        lookup: Lookup<'_>,
        reply: &StoreReply,
        key_number: impl Fn(usize) -> Option<NonZeroU64>,
    ) -> Self {
        let set = &lookup.set;
        let mut decisions: SmallVec<[RuleDecision; CHARGES_USUAL]> = SmallVec::new();
        for (index, (charge, decision)) in set.charges.iter().zip(&reply.decisions).enumerate() {
            let mut decision = RuleDecision::new(charge, decision);
            decision.key_number = key_number(index);
            decision.degraded = reply.degraded.get(index).is_some_and(|degraded| *degraded);
            decision.remembered = reply.remembered && decision.verdict.is_deny();
            match decisions.last_mut() {
                Some(limit) if charge.is_penalty() => limit.block(&decision),
                Some(_) | None => decisions.push(decision),
            }
        }
        if !lookup.denied.is_empty() {
            let denied = lookup.denied.iter();
            decisions
                .extend(denied.map(|(denial, exception)| RuleDecision::of_exception(denial, *exception)));
            decisions.sort_by_key(|decision| (decision.descriptor, decision.rule));
        }
        let verdicts = decisions.iter().map(|decision| (decision.mode, decision.verdict.is_deny()));
        let denial = Denial::new(verdicts, set.quota_passes);
        Self { now: reply.now, decisions, free: lookup.free, denial }
    }
}

/// Among the decisions of a request that is denied, the one to wait for: the
/// request passes once every enforced limit and one quota let it. That may be a
/// limit that would have let it pass, and counted it all the same.
fn denying(decisions: &[RuleDecision], denial: Denial) -> Option<usize> {
    let of = |mode: Mode| decisions.iter().enumerate().filter(move |(_, decision)| decision.mode == mode);
    let quota = of(Mode::Quota).filter(|_| denial.is_by(Mode::Quota));
    let quota = quota.min_by_key(|(_, decision)| decision.blocked_for);
    // Of equal ones the one that denies, and of those the first.
    let rank = |decision: &RuleDecision| (decision.blocked_for, decision.verdict.is_deny());
    let longest = of(Mode::Enforce).chain(quota).reduce(|best, next| match rank(next.1) > rank(best.1) {
        true => next,
        false => best,
    });
    longest.map(|(index, _)| index)
}

/// Among the enforced decisions of a request that is let through, the one to
/// tell about.
fn tightest(decisions: &[RuleDecision]) -> Option<usize> {
    let tightness = |decision: &RuleDecision| match decision.verdict {
        Verdict::Delay { wait } => (false, u64::MAX - wait.get()),
        Verdict::Allow | Verdict::Deny { .. } => (true, decision.remaining),
    };
    let enforced = decisions.iter().enumerate().filter(|(_, decision)| !decision.mode.is_shadow());
    enforced.min_by_key(|(_, decision)| tightness(decision)).map(|(index, _)| index)
}
