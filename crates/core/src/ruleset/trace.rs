//! The walk through a tree, told level by level.
//!
//! For people who ask why: it takes the very steps that a request takes, and
//! says at each level what else was there.

use super::children::How;
use super::tree::{DescriptorNode, Limits, Tree};
use super::{Free, RuleId};
use crate::request::Entry;

/// How a descriptor finds its way.
///
/// ```
/// use tollgate_core::rule::{DescriptorSpec, DomainSpec};
/// use tollgate_core::RuleSet;
/// use tollgate_core::ruleset::Free;
/// let user = DescriptorSpec { key: "user_id".into(), ..Default::default() };
/// let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors: vec![user], ..Default::default() }])?;
/// let trace = rules.trace("shop", &[("user_id", "42").into()]).expect("a known domain");
/// assert_eq!((trace.levels.len(), trace.free), (1, Some(Free::NoRule)));
/// # Ok::<(), tollgate_core::RuleError>(())
/// ```
#[derive(Debug)]
pub struct Trace<'a> {
    /// The levels walked; the last one may be a miss.
    pub levels: Vec<Level<'a>>,
    /// The rules on the node that the last entry reached, before any is replaced.
    pub rules: Vec<RuleId>,
    /// Why there is none; `None` where there are rules.
    pub free: Option<Free>,
}

/// One level of the walk.
///
/// ```
/// use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
/// use tollgate_core::{Limit, RuleSet, Shape, Unit};
/// let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow)?;
/// let rule = RuleSpec { label: "burst".into(), ..RuleSpec::new(limit, Unit::Minute) };
/// let limits = LimitsSpec::Limits(vec![rule]);
/// let user = DescriptorSpec { key: "user_id".into(), limits, ..Default::default() };
/// let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors: vec![user], ..Default::default() }])?;
/// let trace = rules.trace("shop", &[("user_id", "42").into()]).expect("a known domain");
/// assert!(!trace.levels[0].passed_limits, "the last entry uses the limits it reaches");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Level<'a> {
    /// The text of the chosen child and how it was found; none for a miss.
    pub chosen: Option<(&'a str, How)>,
    /// All children at this level, in the order written.
    pub candidates: Vec<Candidate<'a>>,
    /// Whether the chosen child has limits of its own that do not apply,
    /// because more entries follow.
    pub passed_limits: bool,
}

/// One child that a level has.
///
/// ```
/// use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
/// use tollgate_core::{Limit, RuleSet, Shape, Unit};
/// let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow)?;
/// let rule = RuleSpec { label: "burst".into(), ..RuleSpec::new(limit, Unit::Minute) };
/// let limits = LimitsSpec::Limits(vec![rule]);
/// let user = DescriptorSpec { key: "user_id".into(), limits, ..Default::default() };
/// let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors: vec![user], ..Default::default() }])?;
/// let trace = rules.trace("shop", &[("path", "/").into()]).expect("a known domain");
/// let candidate = &trace.levels[0].candidates[0];
/// assert_eq!((candidate.text, candidate.how, candidate.is_chosen), ("user_id", None, false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Candidate<'a> {
    /// `key` or `key_value`, as written.
    pub text: &'a str,
    /// How it would be found if nothing came before it; none if it does not match.
    pub how: Option<How>,
    /// Whether it is the one.
    pub is_chosen: bool,
}

impl Tree {
    pub(super) fn trace(&self, entries: &[Entry<'_>]) -> Trace<'_> {
        let mut levels = Vec::new();
        let mut node = self.node(0);
        for (depth, entry) in entries.iter().enumerate() {
            let Some(parent) = node else { break };
            let found = parent.children.find(entry);
            node = found.and_then(|(index, _)| self.node(index));
            let is_last = depth + 1 == entries.len();
            levels.push(Level {
                chosen: found.and_then(|(index, how)| Some((self.node(index)?.text.as_str(), how))),
                candidates: self.candidates(parent, *entry, found.map(|(index, _)| index)),
                passed_limits: !is_last && node.is_some_and(|node| matches!(node.limits, Limits::Rules(_))),
            });
        }
        let end = node.filter(|_| !entries.is_empty());
        let (rules, free) = match end.map(|node| &node.limits) {
            None | Some(Limits::None) => (Vec::new(), Some(Free::NoRule)),
            Some(Limits::Unlimited { .. }) => (Vec::new(), Some(Free::Unlimited)),
            Some(Limits::Rules(ids)) => (ids.clone().map(RuleId).collect(), None),
        };
        Trace { levels, rules, free }
    }

    fn candidates<'a>(
        &'a self,
        parent: &'a DescriptorNode,
        entry: Entry<'_>,
        chosen: Option<usize>,
    ) -> Vec<Candidate<'a>> {
        let exact = parent.children.exact(&entry);
        let key_only = parent.children.key_only(&entry);
        let nodes = parent.order.iter().filter_map(|&index| Some((index, self.node(index)?)));
        nodes
            .map(|(index, node)| {
                let how = if exact == Some(index) {
                    Some(How::Exact)
                } else if node.matches_as_wildcard(entry) {
                    Some(How::Wildcard)
                } else {
                    (key_only == Some(index)).then_some(How::KeyOnly)
                };
                Candidate { text: &node.text, how, is_chosen: chosen == Some(index) }
            })
            .collect()
    }
}
