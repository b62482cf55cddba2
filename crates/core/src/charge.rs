//! What a request takes from one counter.
//!
//! [`crate::RuleSet::charges`] makes them; a store decides them together, all
//! or nothing.

use crate::algorithm::Operation;
use crate::key::Key;
use crate::limit::Limit;
use crate::rule::Mode;
use crate::ruleset::RuleId;

/// Rule + key + limit + cost to apply.
///
/// ```
/// use tollgate_core::ruleset::Found;
/// use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
/// use tollgate_core::{Descriptor, Entry, Limit, Operation, Request, RuleSet, Shape, Unit};
///
/// let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow)?;
/// let limits = LimitsSpec::Limits(vec![RuleSpec::new(limit, Unit::Minute)]);
/// let descriptors = vec![DescriptorSpec { key: "user_id".into(), limits, ..Default::default() }];
/// let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors }])?;
///
/// let entries = [Entry::from(("user_id", "42"))];
/// let descriptors = [Descriptor::new(&entries)];
/// rules.charges(&Request::new("shop", &descriptors), Operation::Check, |found| {
///     let Found::Charge(charge) = found else { panic!("a rule matches") };
///     assert_eq!((charge.cost, charge.limit().count()), (1, 10));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Charge<'a> {
    /// Which descriptor of the request it is for.
    pub descriptor: usize,
    /// The rule; none if the caller brought the limit.
    pub rule: Option<RuleId>,
    /// The counter.
    pub key: Key<'a>,
    /// How a denial bears on the request.
    pub mode: Mode,
    /// What to do with the cost.
    pub operation: Operation,
    /// What to take; 0 changes nothing.
    pub cost: u64,
}

impl<'a> Charge<'a> {
    /// The limit to decide by.
    pub const fn limit(&self) -> &'a Limit {
        self.key.limit
    }
}
