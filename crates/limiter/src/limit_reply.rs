//! The answer for a limit that the caller brings along.
//!
//! Put together by [`crate::Limiter::check_limit`] from the one decision that there is. A
//! [`crate::Reply`] would carry rules, descriptors and other limits, none of which such a caller has.
//!
//! Invariant: it obeys shadow mode and counts outcomes as a reply does.

use tollgate_core::{Decision, Outcome, OutcomeFlags, Time, Verdict};

use crate::store::StoreReply;

/// The answer for a limit that the caller brings along.
#[derive(Debug, Clone, Copy)]
pub struct LimitReply {
    /// When it was decided.
    pub now: Time,
    /// What the caller is to obey.
    pub verdict: Verdict,
    /// The numbers behind it.
    pub decision: Decision,
    /// How it is counted.
    pub outcome: Outcome,
    /// Whether it passes only because nothing at all is enforced.
    pub is_all_shadow_denied: bool,
}

/// What a store decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallerDecision {
    pub(crate) now: Time,
    pub(crate) decision: Decision,
    pub(crate) degraded: bool,
}

impl CallerDecision {
    /// The answer to the one charge that was asked for.
    pub(crate) fn first(answer: &StoreReply) -> Self {
        let decision = *answer.decisions.first().expect("a store answers every charge");
        let degraded = answer.degraded.first().is_some_and(|degraded| *degraded);
        Self { now: answer.now, decision, degraded }
    }
}

impl LimitReply {
    pub(crate) fn new(decided: CallerDecision, is_all_shadow: bool) -> Self {
        let CallerDecision { now, decision, degraded } = decided;
        let verdict = if is_all_shadow { Verdict::Allow } else { decision.verdict };
        let is_all_shadow_denied = is_all_shadow && decision.verdict.is_deny();
        let soft = decision.soft && !is_all_shadow;
        let flags = OutcomeFlags { degraded, soft, shadow_denied: is_all_shadow_denied };
        let outcome = Outcome::new(verdict, flags);
        Self { now, verdict, decision, outcome, is_all_shadow_denied }
    }
}
