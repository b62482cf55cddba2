//! Names of rules that tell domains apart.
//!
//! The set asks for them once, when it is built; history counts by them. A name that one domain
//! alone has stays as the operator wrote it.

use std::collections::HashMap;

use super::{RuleId, RuleSet};
use crate::rule::Rule;

impl RuleSet {
    pub(super) fn name_in_full(&self) -> Vec<Option<String>> {
        let domains: HashMap<usize, &str> =
            self.domains.iter().map(|(name, tree)| (*tree, name.as_str())).collect();
        let rules = || self.rules.iter().zip(self.places.iter().map(|(tree, _)| tree));
        // Of each label, a tree that has it, and whether another has it too.
        let mut labels: HashMap<&str, (usize, bool)> = HashMap::new();
        for (rule, tree) in rules().filter(|(rule, _)| !rule.label.is_empty()) {
            let (first, is_shared) = labels.entry(&rule.label).or_insert((*tree, false));
            *is_shared |= first != tree;
        }
        let is_shared = |label: &str| labels.get(label).is_some_and(|(_, is_shared)| *is_shared);
        let full = |(rule, tree): (&Rule, &usize)| {
            let domain = domains.get(tree).filter(|_| is_shared(&rule.label))?;
            Some(format!("{domain}/{}", rule.label))
        };
        rules().map(full).collect()
    }

    /// A name that no rule of another domain has: that of the rule, or `domain/label` where another
    /// domain has a rule of the same label.
    ///
    /// ```
    /// use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
    /// use tollgate_core::ruleset::Found;
    /// use tollgate_core::{Descriptor, Entry, Limit, Operation, Request, RuleSet, Shape, Unit};
    /// let domain = |name: &str, label: &str| {
    ///     let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow).unwrap();
    ///     let rule = RuleSpec { label: label.into(), ..RuleSpec::new(limit, Unit::Minute) };
    ///     let limits = LimitsSpec::Limits(vec![rule]);
    ///     let user = DescriptorSpec { key: "user_id".into(), limits, ..Default::default() };
    ///     DomainSpec { name: name.into(), descriptors: vec![user] }
    /// };
    /// let rules = RuleSet::new(vec![domain("a", "burst"), domain("b", "burst"), domain("c", "alone")])?;
    /// let entries = [Entry::from(("user_id", "42"))];
    /// for (domain, name) in [("a", "a/burst"), ("b", "b/burst"), ("c", "alone")] {
    ///     rules.charges(&Request::new(domain, &[Descriptor::new(&entries)]), Operation::Check, |found| {
    ///         let Found::Charge(charge) = found else { panic!("a rule matches") };
    ///         assert_eq!(rules.full_name(charge.rule.unwrap()), Some(name));
    ///     });
    /// }
    /// # Ok::<(), tollgate_core::RuleError>(())
    /// ```
    pub fn full_name(&self, id: RuleId) -> Option<&str> {
        let full = self.full_names.get(id.index())?;
        full.as_deref().or_else(|| self.rule(id).map(Rule::name))
    }
}
