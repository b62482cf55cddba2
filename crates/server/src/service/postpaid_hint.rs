//! Warns of rules that are charged afterwards and are not made for it.
//!
//! Gateways for language models check with cost 0, and charge when the answer
//! has ended. A rule without `postpaid` denies a charge that does not fit and may
//! not count it, so that it limits nobody. `Service` shows every reply to
//! [`PostpaidHint::note`].
//!
//! Invariants: one warning for a rule, however often it happens; nothing here
//! locks or allocates, however many checks of cost 0 there are.
//!
//! Deliberately not here: rules whose slot another rule has; they are not warned of.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate_core::{Operation, Rule};
use tollgate_limiter::{Reply, RuleDecision};

/// Rules that are remembered here, at most. 32 KB.
const SLOTS: usize = 4_096;
/// Set in a slot whose rule was warned of.
const WARNED: u64 = 1;

/// What is known of the rules that get checks of cost 0.
#[derive(Debug)]
pub(super) struct PostpaidHint {
    has_rules: AtomicBool,
    /// Each has the hash of a rule's path and name, without its lowest bit, or 0.
    slots: Box<[AtomicU64]>,
}

impl Default for PostpaidHint {
    fn default() -> Self {
        Self { has_rules: AtomicBool::default(), slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl PostpaidHint {
    /// Takes note of a reply, and warns if a rule should be postpaid.
    pub(super) fn note(&self, reply: &Reply) {
        for decision in &reply.decisions {
            if let Some(rule) = self.look(reply, decision) {
                let (name, path, cost) = (rule.name(), &rule.path, decision.cost);
                tracing::warn!(
                    "rule {name} at {path} gets checks of cost 0, and has denied a charge of {cost} that came afterwards: \
                     such traffic is not limited by it; write postpaid: true beside its limit"
                );
            }
        }
    }

    /// The rule if it is to be warned of now.
    fn look<'a>(&self, reply: &'a Reply, decision: &RuleDecision) -> Option<&'a Rule> {
        let is_free = decision.cost == 0;
        let is_denied_charge = || decision.verdict.is_deny() && self.has_rules.load(Ordering::Relaxed);
        if decision.operation != Operation::Check || !(is_free || is_denied_charge()) {
            return None;
        }
        let rule = reply.rule(decision).filter(|rule| !rule.limit.is_postpaid())?;
        let hash = hash_of(rule);
        let slot = self.slots.get(usize::try_from(hash >> 1).unwrap_or(0) % SLOTS)?;
        if !is_free {
            let is_new =
                slot.compare_exchange(hash, hash | WARNED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            return is_new.then_some(rule);
        }
        // Written once for a rule, so that threads share it without contention.
        if slot.load(Ordering::Relaxed) == 0
            && slot.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.has_rules.store(true, Ordering::Relaxed);
        }
        None
    }
}

/// The same for a rule after a reload; never 0, and its lowest bit is.
fn hash_of(rule: &Rule) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&rule.path, rule.name()).hash(&mut hasher);
    (hasher.finish() | 2) & !WARNED
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tollgate_core::{Descriptor, Entry, Request};

    use super::*;
    use crate::testing::{self, START};

    const RULES: &str = "
domain: d
descriptors:
  - key: prepaid
    rate_limit: { name: prepaid, algorithm: token_bucket, requests_per_unit: 10, unit: hour }
  - key: counted
    rate_limit: { name: counted, requests_per_unit: 10, unit: hour }
  - key: postpaid
    rate_limit: { name: postpaid, algorithm: token_bucket, requests_per_unit: 10, unit: hour, postpaid: true }
";

    /// The rules that are warned of after checks of these costs.
    fn warned(key: &str, costs: &[u64], operation: Operation) -> Vec<String> {
        let (service, hint) = (testing::service(RULES), PostpaidHint::default());
        let entries = [Entry { key, value: "x" }];
        let descriptors = [Descriptor::new(&entries)];
        let mut names = Vec::new();
        for cost in costs {
            let request = Request::new("d", &descriptors).with_cost(*cost);
            let reply = service.operate(&request, operation, START).now_or_never().unwrap().unwrap();
            names.extend(
                reply
                    .decisions
                    .iter()
                    .filter_map(|own| hint.look(&reply, own))
                    .map(|rule| rule.name().to_owned()),
            );
        }
        names
    }

    #[test]
    fn a_rule_is_warned_of_once_when_a_later_charge_is_denied() {
        let costs = [0, 7, 0, 7, 0, 7];
        assert_eq!(warned("prepaid", &costs, Operation::Check), ["prepaid"]);
        assert_eq!(warned("counted", &costs, Operation::Check), ["counted"]);
    }

    #[test]
    fn nothing_is_said_of_rules_that_are_right() {
        assert!(warned("postpaid", &[0, 7, 0, 7, 0, 7], Operation::Check).is_empty());
        assert!(warned("prepaid", &[7, 7, 7], Operation::Check).is_empty(), "nobody checks with cost 0");
        assert!(warned("prepaid", &[0, 5, 0, 5, 0], Operation::Check).is_empty(), "all of it fits");
        assert!(warned("prepaid", &[0, 7, 0, 7], Operation::Report).is_empty(), "a report is always counted");
    }
}
