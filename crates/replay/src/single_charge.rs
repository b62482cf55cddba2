//! The short way to decide: a request that meets one limit and nothing else.
//!
//! Most requests do. What the limiter does for one is the same each time: walk the rules, write down and
//! hash the key, decide, and put a reply together of which a replay wants the verdict. All but deciding
//! depends on the descriptors alone, and those are known once for all requests that are alike (see
//! `line_mapping.rs`). So a [`SingleCharge`] is found when they are, on the threads that read, and what is
//! left is [`MemoryStore::decide_hash`]: the part of `MemoryStore::decide` that looks up the state and
//! does the maths of the limit, which is the code that serves.
//!
//! Invariant: the verdict is the one that the limiter would give. So whatever makes a request more than
//! one limit takes the long way: several limits, penalties, quotas, lists and elastic limits. So does
//! everything if more is asked for than the report itself.
//!
//! Deliberately not here: the maths, and what is counted.

use tollgate_core::ruleset::Found;
use tollgate_core::{Charge, Key, Operation, Request, RuleId, RuleSet, Time, Verdict};
use tollgate_limiter::MemoryStore;

/// The one limit that a request meets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SingleCharge {
    pub(crate) rule: RuleId,
    pub(crate) descriptor: usize,
    operation: Operation,
    /// Stands for the key, which is not written down again.
    key_hash: u64,
}

impl SingleCharge {
    /// The charge of a request, if it is one that can be decided alone.
    pub(crate) fn find(rules: &RuleSet, store: &MemoryStore, request: &Request<'_>) -> Option<Self> {
        let (mut single, mut count) = (None, 0_usize);
        rules.charges(request, Operation::Check, |found| match found {
            Found::Charge(charge) => {
                count += 1;
                let rule = charge.rule.and_then(|id| rules.rule(id)).filter(|rule| rule.elastic.is_none());
                if rule.is_some() && !charge.mode.is_quota() {
                    single = charge.rule.map(|rule| Self {
                        rule,
                        descriptor: charge.descriptor,
                        operation: charge.operation,
                        key_hash: store.hash(&charge.key),
                    });
                }
            }
            Found::Denied(_) => count += 1,
            Found::Free { .. } => {}
        });
        single.filter(|_| count == 1)
    }

    /// What its limit decides, and what becomes of the request.
    pub(crate) fn decide(&self, rules: &RuleSet, store: &MemoryStore, now: Time) -> (Verdict, Verdict) {
        let Some(rule) = rules.rule(self.rule) else { return (Verdict::Allow, Verdict::Allow) };
        let Self { rule: id, descriptor, operation, key_hash } = *self;
        let key = Key { domain: "", entries: &[], shared: &[], limit: &rule.limit, ordinal: rule.ordinal };
        let charge = Charge { descriptor, rule: Some(id), key, mode: rule.mode, operation, cost: 1 };
        let verdict = store.decide_hash(key_hash, &charge, now).verdict;
        (verdict, if rule.mode.is_shadow() { Verdict::Allow } else { verdict })
    }
}
