//! Which rules a request meets.
//!
//! Built once from [`DomainSpec`]s, then only read: a reload builds a new set.
//! [`RuleSet::charges`] turns a [`Request`] into what a store decides on.
//!
//! A domain is a tree. A descriptor's entries are walked in the order sent: at
//! each level the exact `key_value` is tried, then the first pattern in the
//! order written, then the key alone. What is chosen stays chosen; only a
//! limit on the node that the last entry reaches applies.
//!
//! Invariant: finding a rule takes the same time however many there are; it
//! depends on the length of the entries and on how many lengths the beginnings
//! of patterns have.
//!
//! Deliberately not here: rule files; what a decision means for a request.

mod children;
mod trace;
mod tree;

use std::collections::HashMap;
use std::fmt;

use crate::algorithm::Operation;
use crate::charge::Charge;
use crate::key::Key;
use crate::list::{ExceptionList, ExceptionLists};
use crate::request::{Descriptor, Entry, Request};
use crate::rule::{DomainSpec, Mode, Rule, RuleId, Unlimited};
use crate::short_text::is_same;

pub use children::How;
pub use trace::{Candidate, Level, Trace};
use tree::{DescriptorNode, Limits, Tree};

/// Rules nest at most this deep; a bound for every walk.
pub const DEPTH_MAX: usize = 64;

/// All rules of all domains.
///
/// ```
/// use tollgate_core::rule::{DescriptorSpec, DomainSpec};
/// use tollgate_core::RuleSet;
/// let shop = DomainSpec {
///     name: "shop".into(),
///     descriptors: vec![DescriptorSpec { key: "user_id".into(), ..Default::default() }],
///     ..Default::default()
/// };
/// let rules = RuleSet::new(vec![shop])?;
/// assert!(rules.has_domain("shop"));
/// # Ok::<(), tollgate_core::RuleError>(())
/// ```
#[derive(Debug, Default)]
pub struct RuleSet {
    domains: HashMap<String, usize>,
    trees: Vec<Tree>,
    rules: Vec<Rule>,
    unlimited: Vec<Unlimited>,
    /// By rule: the tree and the node it stands at.
    places: Vec<(usize, usize)>,
}

/// Why nothing is charged for a descriptor.
///
/// ```
/// use tollgate_core::RuleSet;
/// use tollgate_core::ruleset::{Found, Free};
/// use tollgate_core::{Descriptor, Operation, Request};
/// let nothing = RuleSet::default();
/// nothing.charges(&Request::new("shop", &[Descriptor::new(&[])]), Operation::Check, |found| {
///     assert!(matches!(found, Found::Free { why: Free::UnknownDomain, .. }));
/// });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Free {
    /// The domain has no rules.
    UnknownDomain,
    /// No rule matches.
    NoRule,
    /// A rule says that it is not limited.
    Unlimited,
    /// The rules that match were replaced by others.
    Replaced,
    /// An allow list has it.
    Allowed,
    /// An operator lets it pass for a while.
    Overridden,
}

/// One thing found for a request, in the order of its descriptors.
///
/// ```
/// use tollgate_core::ruleset::Found;
/// use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
/// use tollgate_core::{Descriptor, Entry, Limit, Operation, Request, RuleSet, Shape, Unit};
///
/// let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow)?;
/// let limits = LimitsSpec::Limits(vec![RuleSpec::new(limit, Unit::Minute)]);
/// let descriptors = vec![DescriptorSpec { key: "user_id".into(), limits, ..Default::default() }];
/// let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors, ..Default::default() }])?;
///
/// let entries = [Entry::from(("nobody", "x"))];
/// let descriptors = [Descriptor::new(&entries)];
/// rules.charges(&Request::new("shop", &descriptors), Operation::Check, |found| {
///     assert!(matches!(found, Found::Free { descriptor: 0, .. }));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    /// Something to charge.
    Charge(Charge<'a>),
    /// A deny list has it, whatever is counted.
    Denied(ListDenial),
    /// Nothing to charge for this descriptor.
    Free {
        /// Which descriptor.
        descriptor: usize,
        /// Why.
        why: Free,
    },
}

/// A descriptor that a deny list has.
///
/// ```
/// use tollgate_core::list::ExceptionLists;
/// use tollgate_core::rule::DomainSpec;
/// use tollgate_core::ruleset::Found;
/// use tollgate_core::list::ListItem;
/// use tollgate_core::{Descriptor, Entry, Operation, Request, RuleSet};
/// let deny = vec![ListItem { key: None, value: "192.0.2.0/24".parse()? }];
/// let lists = ExceptionLists::shared(Vec::new(), deny);
/// let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), lists, ..Default::default() }])?;
/// let entries = [Entry::from(("remote_address", "192.0.2.7"))];
/// let descriptors = [Descriptor::new(&entries)];
/// rules.charges(&Request::new("shop", &descriptors), Operation::Check, |found| {
///     assert!(matches!(found, Found::Denied(denial) if denial.rule.is_none()));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ListDenial {
    /// Which descriptor.
    pub descriptor: usize,
    /// The rule whose list it is; none if it is the domain's.
    pub rule: Option<RuleId>,
    /// How it bears on the request.
    pub mode: Mode,
    /// What was asked for: a check or a peek.
    pub operation: Operation,
    /// And what it would have taken.
    pub cost: u64,
}

/// The key of a level above a rule, and its value where it has one.
pub type RuleLevel<'a> = (&'a str, Option<&'a str>);

impl RuleSet {
    /// Builds the set.
    ///
    /// # Errors
    /// If a name is missing or given twice, or rules nest too deep.
    pub fn new(domains: Vec<DomainSpec>) -> Result<Self, RuleError> {
        let mut set = Self::default();
        for domain in domains {
            if domain.name.is_empty() {
                return Err(RuleError::NoDomain);
            }
            let tree = set.trees.len();
            if set.domains.insert(domain.name.clone(), tree).is_some() {
                return Err(RuleError::DomainTwice { domain: domain.name });
            }
            let tree = Tree::build(domain, tree, &mut set)?;
            set.trees.push(tree);
        }
        Ok(set)
    }

    /// Whether requests of that domain are known.
    pub fn has_domain(&self, name: &str) -> bool {
        self.domains.contains_key(name)
    }

    /// The names of all domains, in the order given.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.trees.iter().map(Tree::name)
    }

    /// The lists of a whole domain.
    pub fn lists(&self, domain: &str) -> Option<&ExceptionLists> {
        self.tree(domain).and_then(Tree::lists)
    }

    /// Whether any level of a domain's rules has that key, or a pattern of keys.
    pub fn has_key(&self, domain: &str, key: &str) -> bool {
        self.tree(domain).is_some_and(|tree| tree.has_key(key))
    }

    /// Whether a whole domain has lists, which any descriptor may be on.
    pub fn has_lists(&self, domain: &str) -> bool {
        self.tree(domain).is_some_and(|tree| tree.lists().is_some())
    }

    /// Whether any limit of a domain takes requests that are over it, to be sent later.
    pub fn defers(&self, domain: &str) -> bool {
        self.tree(domain).is_some_and(Tree::defers)
    }

    /// The keys of a domain's rules, each once.
    pub fn keys(&self, domain: &str) -> impl Iterator<Item = &str> {
        self.tree(domain).into_iter().flat_map(Tree::keys)
    }

    /// All rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether any rule allows more while the load is low.
    pub fn is_elastic(&self) -> bool {
        self.rules.iter().any(|rule| rule.elastic.is_some())
    }

    /// The lists of domains that have any, beside those of their rules.
    pub fn domain_lists(&self) -> impl Iterator<Item = (&str, &ExceptionLists)> {
        self.trees.iter().filter_map(|tree| Some((tree.name(), tree.lists()?)))
    }

    /// The ids of all rules, in their order.
    pub fn ids(&self) -> impl Iterator<Item = RuleId> {
        (0..self.rules.len()).filter_map(|index| u32::try_from(index).ok()).map(RuleId)
    }

    /// What is let through without counting; not among [`RuleSet::rules`],
    /// because there is no limit to decide by.
    pub fn unlimited(&self) -> &[Unlimited] {
        &self.unlimited
    }

    /// The rule of that id, if it is one of this set.
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(id.index())
    }

    /// The text `domain.level.level` that metrics use for a rule, with the
    /// values of `entries` where the rule asks for them.
    pub fn metric_path(&self, id: RuleId, entries: &[Entry<'_>]) -> String {
        let Some(&(tree, node)) = self.places.get(id.index()) else { return String::new() };
        self.trees.get(tree).map_or_else(String::new, |tree| tree.metric_path(node, entries))
    }

    /// The domain of a rule, and the key and value of each level above it as
    /// written, the outermost first.
    pub fn levels(&self, id: RuleId) -> Option<(&str, Vec<RuleLevel<'_>>)> {
        let &(tree, node) = self.places.get(id.index())?;
        let tree = self.trees.get(tree)?;
        let levels = tree.levels(node).into_iter().rev();
        Some((tree.name(), levels.map(|node| (node.key.as_str(), node.value.as_deref())).collect()))
    }

    /// How a descriptor finds its way through the tree, level by level.
    pub fn trace(&self, domain: &str, entries: &[Entry<'_>]) -> Option<Trace<'_>> {
        self.tree(domain).map(|tree| tree.trace(entries))
    }

    /// What `operation` would charge for `request`, told to `found` in the
    /// order of the descriptors.
    pub fn charges<'a>(
        &'a self,
        request: &Request<'a>,
        operation: Operation,
        mut found: impl FnMut(Found<'a>),
    ) {
        let Some(tree) = self.tree(request.domain) else {
            for descriptor in 0..request.descriptors.len() {
                found(Found::Free { descriptor, why: Free::UnknownDomain });
            }
            return;
        };
        let exception = tree.lists().and_then(|lists| DomainException::of(lists, request, operation));
        if exception == Some(DomainException::Allowed) {
            for descriptor in 0..request.descriptors.len() {
                found(Found::Free { descriptor, why: Free::Allowed });
            }
            return;
        }
        let replaced = tree.replaced_by(request.descriptors);
        for (index, descriptor) in request.descriptors.iter().enumerate() {
            let one = Asked { tree, request, descriptor, index, operation };
            if exception.is_some() && one.is_on_deny_list(tree.lists()) {
                found(one.denied(None, Mode::Enforce));
                continue;
            }
            one.charges(&self.rules, &replaced, &mut found);
        }
    }

    /// The charge of a request that meets one enforced limit and nothing else, as most do: one
    /// descriptor, one rule, and no list, penalty, elastic allowance or rule that steps back in sight.
    /// Then it is all that [`RuleSet::charges`] would find; none if there may be more to it.
    #[inline(always)]
    pub fn single_charge<'a>(&'a self, request: &Request<'a>, operation: Operation) -> Option<Charge<'a>> {
        let [descriptor] = request.descriptors else { return None };
        let tree = self.tree(request.domain).filter(|tree| tree.is_plain() && descriptor.limit.is_none())?;
        let node = tree.find(descriptor.entries)?;
        let (id, rule) = self.only_plain_rule(node)?;
        let one = Asked { tree, request, descriptor, index: 0, operation };
        Some(one.charge(one.key(node, rule), Some(id), rule.mode))
    }

    /// The rule whose charge is the [single one](RuleSet::single_charge) of every descriptor with entries of these
    /// keys, whatever their values; none if there may be more to some of them.
    pub fn single_rule(&self, domain: &str, keys: &[&str]) -> Option<RuleId> {
        let tree = self.tree(domain).filter(|tree| tree.is_plain())?;
        self.only_plain_rule(tree.find_by_keys(keys)?).map(|(id, _)| id)
    }

    /// The one rule of a node that has no other and is made of its limit alone.
    #[inline]
    fn only_plain_rule(&self, node: &DescriptorNode) -> Option<(RuleId, &Rule)> {
        let Limits::Rules(ids) = &node.limits else { return None };
        let id = RuleId(ids.start);
        let rule = self.rules.get(id.index()).filter(|rule| ids.len() == 1 && rule.is_plain())?;
        Some((id, rule))
    }

    #[inline]
    fn tree(&self, domain: &str) -> Option<&Tree> {
        // Most sets have one domain or two, and comparing is quicker than a hash.
        if let [first, ..] = &*self.trees
            && is_same(first.name(), domain)
        {
            return Some(first);
        }
        self.trees.get(*self.domains.get(domain)?)
    }
}

/// One descriptor of a request, and the tree to look in.
struct Asked<'r, 'a> {
    tree: &'a Tree,
    request: &'r Request<'a>,
    descriptor: &'a Descriptor<'a>,
    index: usize,
    operation: Operation,
}

impl<'a> Asked<'_, 'a> {
    fn charges(&self, rules: &'a [Rule], replaced: &[&str], found: &mut impl FnMut(Found<'a>)) {
        let free = |why| Found::Free { descriptor: self.index, why };
        if let Some(brought) = self.descriptor.limit {
            let key = Key {
                domain: self.request.domain,
                entries: self.descriptor.entries,
                shared: &[],
                limit: &brought.limit,
                ordinal: 0,
            };
            return found(Found::Charge(self.charge(key, None, Mode::Enforce)));
        }
        let Some(node) = self.tree.find(self.descriptor.entries) else { return found(free(Free::NoRule)) };
        match &node.limits {
            Limits::None => found(free(Free::NoRule)),
            Limits::Unlimited { label } if is_replaced(label, replaced) => found(free(Free::Replaced)),
            Limits::Unlimited { .. } => found(free(Free::Unlimited)),
            Limits::Rules(ids) => {
                let mut free_because = Some(Free::Replaced);
                for id in ids.clone().map(RuleId) {
                    let Some(rule) = rules.get(id.index()) else { continue };
                    if is_replaced(&rule.label, replaced) {
                        continue;
                    }
                    if self.is_on_deny_list(rule.lists.as_deref()) {
                        found(self.denied(Some(id), rule.mode));
                    } else if self.is_on_allow_list(rule) {
                        free_because = free_because.and(Some(Free::Allowed));
                        continue;
                    } else {
                        let charge = self.charge(self.key(node, rule), Some(id), rule.mode);
                        found(Found::Charge(charge));
                        if let Some(penalty) = charge.penalty(self.operation) {
                            found(Found::Charge(penalty));
                        }
                    }
                    free_because = None;
                }
                if let Some(why) = free_because {
                    found(free(why));
                }
            }
        }
    }

    /// Whether a deny list has it. What has happened already is charged all the same.
    fn is_on_deny_list(&self, lists: Option<&ExceptionLists>) -> bool {
        lists.is_some_and(|lists| self.is_asking() && is_on(&lists.deny, self.descriptor.entries))
    }

    fn is_on_allow_list(&self, rule: &Rule) -> bool {
        rule.lists.as_ref().is_some_and(|lists| is_on(&lists.allow, self.descriptor.entries))
    }

    fn is_asking(&self) -> bool {
        is_asking(self.descriptor.operation.unwrap_or(self.operation))
    }

    fn denied(&self, rule: Option<RuleId>, mode: Mode) -> Found<'a> {
        Found::Denied(ListDenial {
            descriptor: self.index,
            rule,
            mode,
            operation: self.descriptor.operation.unwrap_or(self.operation),
            cost: self.descriptor.cost.unwrap_or(self.request.cost),
        })
    }

    fn key(&self, node: &'a DescriptorNode, rule: &'a Rule) -> Key<'a> {
        Key {
            domain: self.request.domain,
            entries: self.descriptor.entries,
            shared: &node.shared,
            limit: &rule.limit,
            ordinal: rule.ordinal,
        }
    }

    fn charge(&self, key: Key<'a>, rule: Option<RuleId>, mode: Mode) -> Charge<'a> {
        Charge {
            descriptor: self.index,
            rule,
            key,
            mode,
            operation: self.descriptor.operation.unwrap_or(self.operation),
            cost: self.descriptor.cost.unwrap_or(self.request.cost),
        }
    }
}

/// What the lists of a domain say about a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DomainException {
    Allowed,
    Denied,
}

impl DomainException {
    fn of(lists: &ExceptionLists, request: &Request<'_>, operation: Operation) -> Option<Self> {
        let any = |list: &ExceptionList, is_asked: fn(Operation) -> bool| {
            request.descriptors.iter().any(|descriptor| {
                is_asked(descriptor.operation.unwrap_or(operation)) && is_on(list, descriptor.entries)
            })
        };
        if any(&lists.deny, is_asking) {
            return Some(Self::Denied);
        }
        any(&lists.allow, |_| true).then_some(Self::Allowed)
    }
}

/// Whether any of these entries is on a list.
fn is_on(list: &ExceptionList, entries: &[Entry<'_>]) -> bool {
    entries.iter().any(|entry| list.contains(entry.key, entry.value))
}

/// Whether an operation asks for something that has not happened yet.
const fn is_asking(operation: Operation) -> bool {
    matches!(operation, Operation::Check | Operation::Peek)
}

fn is_replaced(label: &str, replaced: &[&str]) -> bool {
    !label.is_empty() && replaced.contains(&label)
}

/// The text that metrics use for a limit that the caller brought along.
///
/// ```
/// use tollgate_core::ruleset::override_metric_path;
/// assert_eq!(override_metric_path("shop", &[("user_id", "42").into()]), "shop.user_id_42");
/// ```
pub fn override_metric_path(domain: &str, entries: &[Entry<'_>]) -> String {
    let mut path = domain.to_owned();
    for entry in entries {
        path.push('.');
        path.push_str(entry.key);
        if !entry.value.is_empty() {
            path.push('_');
            path.push_str(entry.value);
        }
    }
    path
}

/// Why specifications make no rule set.
///
/// ```
/// use tollgate_core::rule::DomainSpec;
/// use tollgate_core::{RuleError, RuleSet};
/// assert_eq!(RuleSet::new(vec![DomainSpec::default()]).unwrap_err(), RuleError::NoDomain);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleError {
    /// A domain without a name.
    NoDomain,
    /// Two domains of one name.
    DomainTwice {
        /// The name.
        domain: String,
    },
    /// A descriptor without a key.
    NoKey {
        /// The path of its parent.
        path: String,
    },
    /// Two descriptors of one key and value at one level.
    DescriptorTwice {
        /// Their path.
        path: String,
    },
    /// Sharing asked for where there is no pattern.
    NothingToShare {
        /// The path.
        path: String,
    },
    /// Nested deeper than [`DEPTH_MAX`].
    TooDeep {
        /// The path.
        path: String,
    },
    /// More rules than can be numbered.
    TooMany,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDomain => f.write_str("a domain needs a name; write domain: NAME"),
            Self::DomainTwice { domain } => write!(f, "domain '{domain}' is defined twice; write it once"),
            Self::NoKey { path } => write!(f, "a descriptor below '{path}' needs a key; write key: NAME"),
            Self::DescriptorTwice { path } => {
                write!(f, "descriptor '{path}' is defined twice at one level; write it once")
            }
            Self::NothingToShare { path } => write!(
                f,
                "descriptor '{path}' has share_threshold but no '*' to share by; \
                 write a value with '*', or leave share_threshold out"
            ),
            Self::TooDeep { path } => {
                write!(f, "descriptor '{path}' is nested deeper than {DEPTH_MAX} levels; write fewer levels")
            }
            Self::TooMany => write!(f, "more than {} limits; write fewer", u32::MAX),
        }
    }
}

impl std::error::Error for RuleError {}

#[cfg(test)]
mod tests;
