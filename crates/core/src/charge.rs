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
