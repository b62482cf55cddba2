//! What a request is charged for, and what lists say about it.
//!
//! Made by [`crate::Limiter`] from the rules before the store is asked; afterwards [`crate::Reply`]
//! puts the store's decisions and those of the lists together.
//!
//! Invariant: a request that a deny list denies charges nothing but what has happened already, so
//! that it is denied alike on every store, whether or not it can be asked.
//!
//! Deliberately not here: which rules match.

use smallvec::SmallVec;
use tollgate_core::ruleset::{Found, Free, ListDenial};
use tollgate_core::{Charge, Limit, Mode, Operation, Request, RuleSet, Time};

use crate::charge_set::{ChargeSet, FLAGS_INLINE};
use crate::load::LoadGauge;

/// By descriptor, why nothing was charged for it; none if something was.
pub type FreeList = SmallVec<[Option<Free>; FLAGS_INLINE]>;

/// What denied a request instead of a limit. Waiting does not help, and nothing was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exception {
    /// A deny list of the rule, or of the domain if there is no rule.
    DenyList,
    /// An operator, for a while.
    Override,
}

impl Exception {
    /// The word that callers are told as the reason.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::DenyList => "deny_list",
            Self::Override => "override",
        }
    }
}

/// What was found for a request.
#[derive(Debug, Default)]
pub(crate) struct Lookup<'a> {
    /// What the store is asked.
    pub(crate) set: ChargeSet<'a>,
    pub(crate) free: FreeList,
    /// What lists and overrides deny; a vector of nothing costs nothing.
    pub(crate) denied: Vec<(ListDenial, Exception)>,
}

impl<'a> Lookup<'a> {
    /// What `operation` on `request` charges, and why nothing for the rest.
    pub(crate) fn new(
        rules: &'a RuleSet,
        request: &Request<'a>,
        operation: Operation,
        is_all_quota: bool,
    ) -> Self {
        let mut lookup = Self::default();
        rules.charges(request, operation, |found| lookup.note(found));
        if is_all_quota {
            lookup.make_quotas();
        }
        lookup.leave_out_what_is_denied();
        lookup
    }

    /// Decides by other limits from now on, where there are any; one for each charge.
    pub(crate) fn replace_limits(&mut self, limits: &'a [Option<Limit>]) {
        for (charge, limit) in self.set.charges.iter_mut().zip(limits) {
            charge.key.limit = limit.as_ref().unwrap_or(charge.key.limit);
        }
    }

    /// Has elastic limits decide by the larger limit where the load allows it. An operator's number
    /// is what it says, whatever the load.
    pub(crate) fn stretch(&mut self, rules: &'a RuleSet, domain: &str, load: &LoadGauge, now: Time) {
        for charge in &mut self.set.charges {
            let Some(rule) = charge.rule.and_then(|id| rules.rule(id)) else { continue };
            if let Some(elastic) = rule.elastic.as_deref()
                && charge.limit().count() == rule.limit.count()
                && load.may_exceed(domain, elastic, now)
            {
                charge.key.limit = &elastic.limit;
            }
        }
    }

    #[inline]
    fn note(&mut self, found: Found<'a>) {
        let mut is_met = |descriptor: usize| {
            if descriptor == self.free.len() {
                self.free.push(None);
            }
        };
        match found {
            Found::Free { why, .. } => self.free.push(Some(why)),
            Found::Charge(charge) => {
                is_met(charge.descriptor);
                self.set.charges.push(charge);
            }
            Found::Denied(denial) => {
                is_met(denial.descriptor);
                self.denied.push((denial, Exception::DenyList));
            }
        }
    }

    /// Makes every rule a quota; a descriptor that no rule matches is one that passes.
    fn make_quotas(&mut self) {
        self.set.quota_passes = self.free.iter().flatten().any(|why| *why != Free::Unlimited);
        let as_quota = |mode: Mode| match mode {
            Mode::Enforce | Mode::Quota => Mode::Quota,
            Mode::Shadow | Mode::ShadowQuota => Mode::ShadowQuota,
        };
        for charge in &mut self.set.charges {
            charge.mode = as_quota(charge.mode);
        }
        // The list of a domain is no rule.
        for (denial, _) in self.denied.iter_mut().filter(|(denial, _)| denial.rule.is_some()) {
            denial.mode = as_quota(denial.mode);
        }
    }

    /// Where lists deny the request whatever the store says, nothing is asked of it.
    pub(crate) fn leave_out_what_is_denied(&mut self) {
        if self.denied.is_empty() {
            return;
        }
        let has_quota = self.set.charges.iter().any(|charge| charge.mode.is_quota());
        self.set.quota_passes |= self.denied.iter().any(|(denial, _)| denial.mode == Mode::ShadowQuota);
        let quotas_deny = !has_quota && !self.set.quota_passes;
        let is_denied = self.denied.iter().any(|(denial, _)| match denial.mode {
            Mode::Enforce => true,
            Mode::Quota => quotas_deny,
            Mode::Shadow | Mode::ShadowQuota => false,
        });
        if is_denied {
            let has_happened = |charge: &mut Charge<'_>| {
                !charge.is_penalty() && matches!(charge.operation, Operation::Report | Operation::Refund)
            };
            self.set.charges.retain(has_happened);
            self.set.is_denied_elsewhere = true;
        }
    }
}
