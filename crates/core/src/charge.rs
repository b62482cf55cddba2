//! What a request takes from one counter.
//!
//! [`crate::RuleSet::charges`] makes them; a store decides them together, all
//! or nothing.

use crate::algorithm::{Change, Operation, decide};
use crate::decision::Decision;
use crate::key::Key;
use crate::limit::Limit;
use crate::rule::{Mode, RuleId};
use crate::state::StateRef;
use crate::time::Time;

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

    /// What the maths is asked for. A postpaid limit records every cost, and
    /// where there is none it is asked whether one more would fit.
    pub const fn step(&self) -> (Operation, u64) {
        match self.operation {
            Operation::Check if self.limit().is_postpaid() && self.cost > 0 => (Operation::Report, self.cost),
            Operation::Check | Operation::Peek if self.limit().is_postpaid() => (Operation::Peek, 1),
            Operation::Check | Operation::Peek | Operation::Report | Operation::Refund => {
                (self.operation, self.cost)
            }
        }
    }

    /// Decides it over the state of its key.
    pub fn decide(&self, state: Option<StateRef<'_>>, now: Time) -> (Decision, Change) {
        let (operation, cost) = self.step();
        let (decision, change) = decide(state, self.limit(), now, operation, cost);
        if cost == self.cost {
            return (decision, change);
        }
        // It was asked about one more and takes nothing: tell what is there.
        let (as_it_is, change) = decide(state, self.limit(), now, Operation::Peek, 0);
        let Decision { verdict, blocked_for, soft, .. } = decision;
        (Decision { verdict, blocked_for, soft, ..as_it_is }, change)
    }
}
