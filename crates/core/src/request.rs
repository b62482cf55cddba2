//! What a caller asks.
//!
//! An adapter makes a [`Request`] from wire bytes; [`crate::RuleSet`] turns it
//! into charges. Everything is borrowed, so asking allocates nothing.
//!
//! Deliberately not here: wire formats; who the caller is.

use crate::algorithm::Operation;
use crate::limit::Limit;
use crate::rule::Unit;

/// One fact about a request, such as `user_id` = `42`.
///
/// ```
/// use tollgate_core::Entry;
/// assert_eq!(Entry::from(("user_id", "42")), Entry { key: "user_id", value: "42" });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry<'a> {
    /// What kind of fact.
    pub key: &'a str,
    /// The fact.
    pub value: &'a str,
}

impl<'a> From<(&'a str, &'a str)> for Entry<'a> {
    fn from((key, value): (&'a str, &'a str)) -> Self {
        Self { key, value }
    }
}

/// A limit that the caller brings along, in place of the one in the rules.
///
/// Applied only if the domain is known. It shares the counter of a rule with
/// the same entries, algorithm and window.
///
/// ```
/// use tollgate_core::{Descriptor, Limit, Override, Shape, Unit};
/// let limit = Limit::new(3, Unit::Hour.length(), Shape::FixedWindow)?;
/// let brought = Override { limit, unit: Unit::Hour };
/// assert!(Descriptor::new(&[]).with_limit(&brought).limit.is_some());
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The limit to use.
    pub limit: Limit,
    /// The unit it was given in, for answers that name it.
    pub unit: Unit,
}

/// Facts that together select a rule, in order.
///
/// ```
/// use tollgate_core::{Descriptor, Entry};
/// let entries = [Entry::from(("plan", "free")), Entry::from(("user_id", "42"))];
/// let descriptor = Descriptor::new(&entries).with_cost(3);
/// assert_eq!(descriptor.cost, Some(3));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// The facts, outermost first.
    pub entries: &'a [Entry<'a>],
    /// A limit brought by the caller.
    pub limit: Option<&'a Override>,
    /// The cost of this descriptor, where it differs from the request's.
    pub cost: Option<u64>,
    /// What is done for this descriptor, where it differs from what the request does.
    pub operation: Option<Operation>,
}

impl<'a> Descriptor<'a> {
    /// A descriptor of these entries at the request's own cost.
    pub const fn new(entries: &'a [Entry<'a>]) -> Self {
        Self { entries, limit: None, cost: None, operation: None }
    }

    /// The same with a cost of its own; 0 is a peek.
    #[must_use]
    pub const fn with_cost(mut self, cost: u64) -> Self {
        self.cost = Some(cost);
        self
    }

    /// The same with a limit brought by the caller.
    #[must_use]
    pub const fn with_limit(mut self, limit: &'a Override) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The same, giving back instead of taking.
    #[must_use]
    pub const fn as_refund(mut self) -> Self {
        self.operation = Some(Operation::Refund);
        self
    }

    /// The same, doing this whatever the request does.
    #[must_use]
    pub const fn with_operation(mut self, operation: Operation) -> Self {
        self.operation = Some(operation);
        self
    }
}

/// What a caller asks: may this happen, and charge it.
///
/// ```
/// use tollgate_core::{Descriptor, Entry, Request};
/// let entries = [Entry::from(("user_id", "42"))];
/// let descriptors = [Descriptor::new(&entries)];
/// let request = Request::new("shop", &descriptors);
/// assert_eq!(request.cost, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The group of rules to use.
    pub domain: &'a str,
    /// The descriptors; each may meet rules of its own.
    pub descriptors: &'a [Descriptor<'a>],
    /// What it takes from every limit it meets; 0 is a peek.
    pub cost: u64,
    /// The path by template, where an adapter knows it better than the entries
    /// tell. No rule sees it; it is for those who keep count.
    pub route: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// A request of cost 1.
    pub const fn new(domain: &'a str, descriptors: &'a [Descriptor<'a>]) -> Self {
        Self { domain, descriptors, cost: 1, route: None }
    }

    /// The same, to a route.
    #[must_use]
    pub const fn with_route(mut self, route: &'a str) -> Self {
        self.route = Some(route);
        self
    }

    /// The same at another cost; 0 is a peek.
    #[must_use]
    pub const fn with_cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }
}
