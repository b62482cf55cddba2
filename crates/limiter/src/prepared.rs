//! A check whose domain and keys are known beforehand, so that only the values differ from one to the next.
//!
//! A program that asks about users knows that it will ask `shop` about `user_id`. [`crate::Limiter::prepare`] walks the
//! tree of rules once; if what it finds is one limit and nothing else, whatever the value, a check hashes the value,
//! and decides. If there is more to it (several limits, lists, penalties, values with rules of their own, an
//! operator's override, somebody who keeps count), a check is [`crate::Limiter::check`].
//!
//! Invariants: it answers what [`crate::Limiter::check`] would, over the same counters; rules that were replaced, and
//! overrides, are in force at the next check.
//!
//! Deliberately not here: other operations, several descriptors, and stores that have to be waited for, beside which
//! finding the rule costs nothing.

use std::sync::Arc;

use tollgate_core::{
    Charge, Decision, Descriptor, Entry, Key, Limit, Mode, Operation, PlainBucket, Request, RuleId, Time,
    Verdict,
};

use crate::clock::{Clock, SystemClock};
use crate::event::{EventSink, NoSink};
use crate::limiter::Limiter;
use crate::memory::{BatchedCharges, MemoryStore};
use crate::reply::Reply;
use crate::rules_in_force::RulesInForce;
use crate::store::ImmediateStore;

/// A check of one descriptor whose keys are known; made by [`Limiter::prepare`]. Each thread has its own: clone it.
///
/// ```
/// use tollgate_limiter::Limiter;
/// # use tollgate_rules::SourceFile;
/// # let text = "domain: shop\ndescriptors:\n  - key: user_id\n    rate_limit: { requests_per_unit: 1, unit: hour }\n";
/// # let source = SourceFile { name: "shop.yaml".into(), text: text.into() };
/// # let rules = tollgate_rules::load(vec![source], &tollgate_rules::Options::default())?.rules;
/// let limiter = Limiter::new(rules);
/// let mut users = limiter.prepare("shop", ["user_id"]);
/// assert!(!users.check(["42"]).verdict.is_deny());
/// assert!(users.check(["42"]).verdict.is_deny());
/// assert!(!users.check(["43"]).verdict.is_deny());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PreparedCheck<'l, const N: usize, S = MemoryStore, C = SystemClock, E = NoSink> {
    limiter: &'l Limiter<S, C, E>,
    domain: Box<str>,
    keys: [Box<str>; N],
    /// Those that the last check went by.
    rules: Arc<RulesInForce>,
    /// [`RulesInForce::version`] of those that the rest was found in.
    version: u64,
    /// What every check meets; none if that depends on its value, or is more than a limit.
    single: Option<SingleRule>,
}

/// One limit that is all that a check meets.
#[derive(Debug, Clone, Copy)]
struct SingleRule {
    id: RuleId,
    limit: Limit,
    ordinal: u32,
    /// See [`MemoryStore::scope`].
    scope: u64,
}

/// The answer to a [`PreparedCheck`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreparedReply {
    /// What the caller is to obey.
    pub verdict: Verdict,
    /// The decision that the verdict comes from, as [`Reply::binding`]; none if no limit is enforced.
    pub decision: Option<Decision>,
    /// Its rule.
    pub rule: Option<RuleId>,
}

impl PreparedReply {
    /// The reply of one decision that is all there is to it.
    #[inline]
    fn single(rule: RuleId, decision: Decision, is_enforced: bool) -> Self {
        match is_enforced {
            true => Self { verdict: decision.verdict, decision: Some(decision), rule: Some(rule) },
            false => Self { verdict: Verdict::Allow, decision: None, rule: None },
        }
    }

    fn of(reply: &Reply) -> Self {
        let binding = reply.binding();
        Self {
            verdict: reply.verdict,
            decision: binding.map(|binding| binding.decision()),
            rule: binding.and_then(|binding| binding.rule),
        }
    }
}

impl<S: ImmediateStore, C: Clock, E: EventSink> Limiter<S, C, E> {
    /// Makes ready for checks of entries with these keys, in this order.
    pub fn prepare<const N: usize>(&self, domain: &str, keys: [&str; N]) -> PreparedCheck<'_, N, S, C, E> {
        let rules = self.rules.shared();
        let single = self.single_rule(&rules, domain, &keys);
        PreparedCheck {
            limiter: self,
            domain: domain.into(),
            keys: keys.map(Into::into),
            version: rules.version(),
            rules,
            single,
        }
    }

    fn single_rule(&self, rules: &RulesInForce, domain: &str, keys: &[&str]) -> Option<SingleRule> {
        let id = rules.single_rule(domain, keys)?;
        let rule = rules.rule(id)?;
        let entries: Vec<Entry<'_>> = keys.iter().map(|key| Entry { key, value: "" }).collect();
        let (limit, ordinal) = (rule.limit, rule.ordinal);
        let key = Key { domain, entries: &entries, shared: &[], limit: &limit, ordinal };
        let scope = self.store.memory()?.scope(&key);
        Some(SingleRule { id, limit, ordinal, scope })
    }
}

impl<const N: usize, S: ImmediateStore, C: Clock, E: EventSink> PreparedCheck<'_, N, S, C, E> {
    /// May this happen? Takes one if so.
    #[inline]
    pub fn check(&mut self, values: [&str; N]) -> PreparedReply {
        if self.version != self.limiter.rules.version() {
            self.renew();
        }
        match self.check_single(values) {
            Some(reply) => reply,
            None => self.check_any(values, self.limiter.clock.now()),
        }
    }

    /// Finds its rule again, among other rules.
    #[cold]
    fn renew(&mut self) {
        let keys: [&str; N] = self.keys.each_ref().map(|key| &**key);
        let PreparedCheck { rules, version, single, .. } = self.limiter.prepare(&self.domain, keys);
        (self.rules, self.version, self.single) = (rules, version, single);
    }

    /// Checks many, one after the other, as [`Self::check`] does. The clock is read once, and all are decided by the
    /// rules that are in force at the beginning, or by later ones. From some hundred thousand keys on it takes a
    /// fraction of the time that as many calls of [`Self::check`] do, because memory is read ahead.
    ///
    /// ```
    /// use tollgate_limiter::Limiter;
    /// # use tollgate_rules::SourceFile;
    /// # let text = "domain: shop\ndescriptors:\n  - key: user_id\n    rate_limit: { requests_per_unit: 1, unit: hour }\n";
    /// # let source = SourceFile { name: "shop.yaml".into(), text: text.into() };
    /// # let rules = tollgate_rules::load(vec![source], &tollgate_rules::Options::default())?.rules;
    /// let limiter = Limiter::new(rules);
    /// let mut users = limiter.prepare("shop", ["user_id"]);
    /// let replies = users.check_batch([["42"], ["43"], ["42"]]);
    /// let denied: Vec<bool> = replies.iter().map(|reply| reply.verdict.is_deny()).collect();
    /// assert_eq!(denied, [false, false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_batch<'v>(&mut self, values: impl IntoIterator<Item = [&'v str; N]>) -> Vec<PreparedReply> {
        if self.version != self.limiter.rules.version() {
            self.renew();
        }
        let (values, now) = (values.into_iter(), self.limiter.clock.now());
        let Some((single, memory)) = self.short_way() else {
            return values.map(|values| self.check_any(values, now)).collect();
        };
        let hashes = values.map(|values| memory.hash_values(single.scope, values));
        let mut replies = Vec::with_capacity(hashes.size_hint().0);
        let is_enforced = !self.limiter.is_all_shadow;
        memory.decide_batch(hashes, single, now, |_, decision| {
            replies.push(PreparedReply::single(single.id, decision, is_enforced));
        });
        replies
    }

    /// The limit that a check meets and where it is counted, if there is nothing else to it and nobody counts.
    #[inline]
    fn short_way(&self) -> Option<(&SingleRule, &MemoryStore)> {
        let (limiter, single) = (self.limiter, self.single.as_ref()?);
        if !limiter.may_be_single() || limiter.sink.is_counting() {
            return None;
        }
        Some((single, limiter.store.memory()?))
    }

    #[inline]
    fn check_single(&self, values: [&str; N]) -> Option<PreparedReply> {
        let (single, memory) = self.short_way()?;
        let hash = memory.hash_values(single.scope, values);
        memory.prefetch(hash);
        let now = self.limiter.clock.now();
        let is_enforced = !self.limiter.is_all_shadow;
        if let Some(bucket) = single.limit.plain_bucket()
            && let Some(check) = memory.check_one(hash, bucket, now)
        {
            return Some(PreparedReply::single(single.id, bucket.decision(check), is_enforced));
        }
        Some(PreparedReply::single(single.id, single.decide(memory, hash, now), is_enforced))
    }

    #[inline(never)]
    fn check_any(&mut self, values: [&str; N], now: Time) -> PreparedReply {
        let mut values = values.into_iter();
        let entries = self.keys.each_ref().map(|key| Entry { key, value: values.next().unwrap_or_default() });
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new(&self.domain, &descriptors);
        let reply = self.limiter.operate(&request, Operation::Check, now).at_once();
        let told = PreparedReply::of(&reply);
        // They may have been replaced since the version was compared; then the next check looks again.
        self.rules = reply.rules_in_force();
        told
    }

    /// The rules that the last [`Self::check`] went by.
    pub fn rules(&self) -> &tollgate_core::RuleSet {
        &self.rules
    }
}

impl SingleRule {
    /// Decides whatever the algorithm.
    #[inline(never)]
    fn decide(&self, memory: &MemoryStore, hash: u64, now: Time) -> Decision {
        memory.decide_any(hash, self.charge(0), now)
    }
}

/// One of each key. The hash tells the counter, so that the key need not.
impl BatchedCharges for SingleRule {
    #[inline]
    fn plain_bucket(&self, _: usize) -> Option<&PlainBucket> {
        self.limit.plain_bucket()
    }

    fn charge(&self, _: usize) -> Charge<'_> {
        let key = Key { domain: "", entries: &[], shared: &[], limit: &self.limit, ordinal: self.ordinal };
        let (mode, operation) = (Mode::Enforce, Operation::Check);
        Charge { descriptor: 0, rule: Some(self.id), key, mode, operation, cost: 1 }
    }
}

impl<const N: usize, S, C, E> Clone for PreparedCheck<'_, N, S, C, E> {
    fn clone(&self) -> Self {
        let Self { limiter, domain, keys, rules, version, single } = self;
        Self {
            limiter,
            domain: domain.clone(),
            keys: keys.clone(),
            rules: Arc::clone(rules),
            version: *version,
            single: *single,
        }
    }
}
