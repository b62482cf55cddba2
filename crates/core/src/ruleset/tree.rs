//! The rules of one domain as a tree.
//!
//! Built from a [`DomainSpec`], depth first, so that nodes of one level are
//! numbered in the order written.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::children::{Children, How, text_of};
use super::{DEPTH_MAX, RuleError, RuleSet};
use crate::list::ExceptionLists;
use crate::pattern::Pattern;
use crate::request::{Descriptor, Entry};
use crate::rule::{DescriptorSpec, DomainSpec, Elastic, LimitsSpec, OverLimit, Rule, RuleSpec, Unlimited};

/// The rules of one domain.
#[derive(Debug)]
pub(super) struct Tree {
    name: String,
    /// Whom no limit here meets, and who is always denied.
    lists: Option<Arc<ExceptionLists>>,
    /// The first is the root; it stands for no entry.
    nodes: Vec<DescriptorNode>,
    /// Whether any rule of this domain replaces another.
    has_replaces: bool,
    /// The keys of all levels.
    keys: BTreeSet<String>,
    /// Whether any of them is a pattern.
    has_key_patterns: bool,
    /// Whether any rule of this domain puts requests off.
    defers: bool,
}

/// One level of a rule.
#[derive(Debug, Default)]
pub(super) struct DescriptorNode {
    pub(super) key: String,
    pub(super) value: Option<String>,
    pub(super) text: String,
    pub(super) is_wildcard: bool,
    share_threshold: bool,
    value_to_metric: bool,
    detailed_metric: bool,
    pub(super) limits: Limits,
    /// Labels that the limits here replace.
    replaces: Vec<String>,
    /// By level from the first, the pattern that stands in for the value.
    pub(super) shared: Box<[Option<Box<str>>]>,
    pub(super) parent: usize,
    pub(super) children: Children,
    /// The children, in the order written.
    pub(super) order: Vec<usize>,
}

/// What applies to a request that ends at a node.
#[derive(Debug, Default)]
pub(super) enum Limits {
    #[default]
    None,
    Unlimited {
        label: String,
    },
    Rules(Range<u32>),
}

impl Tree {
    /// The tree of `domain`, the one of that index; its rules go into `set`.
    pub(super) fn build(domain: DomainSpec, index: usize, set: &mut RuleSet) -> Result<Self, RuleError> {
        let nodes = vec![DescriptorNode::default()];
        let keys = BTreeSet::new();
        let DomainSpec { name, lists, descriptors } = domain;
        let (has_replaces, has_key_patterns, defers) = (false, false, false);
        let tree = Self { name, lists, nodes, has_replaces, keys, has_key_patterns, defers };
        let path = tree.name.clone();
        let mut builder = Builder { tree, index, set };
        builder.level(0, &path, descriptors, 1)?;
        Ok(builder.tree)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The lists of the whole domain.
    pub(super) fn lists(&self) -> Option<&ExceptionLists> {
        self.lists.as_deref()
    }

    /// Whether any limit takes requests that are over it, to be sent later.
    pub(super) const fn defers(&self) -> bool {
        self.defers
    }

    /// Whether each descriptor is decided by the limits it ends at, and by nothing else.
    pub(super) const fn is_plain(&self) -> bool {
        self.lists.is_none() && !self.has_replaces
    }

    pub(super) fn node(&self, index: usize) -> Option<&DescriptorNode> {
        self.nodes.get(index)
    }

    /// The keys of all levels, each once.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }

    /// Whether any level has that key, or may have it.
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.has_key_patterns || self.keys.contains(key)
    }

    /// The node that the last entry reaches.
    #[inline]
    pub(super) fn find(&self, entries: &[Entry<'_>]) -> Option<&DescriptorNode> {
        if entries.is_empty() {
            return None;
        }
        let mut node = self.nodes.first()?;
        for entry in entries {
            let (child, _) = node.children.find(entry)?;
            node = self.nodes.get(child)?;
        }
        Some(node)
    }

    /// The node that entries of these keys reach whatever their values; none if it depends on them.
    pub(super) fn find_by_keys(&self, keys: &[&str]) -> Option<&DescriptorNode> {
        if keys.is_empty() {
            return None;
        }
        let mut node = self.nodes.first()?;
        for key in keys {
            node = self.nodes.get(node.children.find_by_key(key)?)?;
        }
        Some(node)
    }

    /// The labels that any rule met by these descriptors replaces.
    pub(super) fn replaced_by<'a>(&'a self, descriptors: &[Descriptor<'_>]) -> Vec<&'a str> {
        if !self.has_replaces {
            return Vec::new();
        }
        let met = descriptors.iter().filter(|descriptor| descriptor.limit.is_none());
        let nodes = met.filter_map(|descriptor| self.find(descriptor.entries));
        nodes.flat_map(|node| node.replaces.iter().map(String::as_str)).collect()
    }

    /// A node and those above it, without the root.
    pub(super) fn levels(&self, leaf: usize) -> Vec<&DescriptorNode> {
        let mut levels = Vec::new();
        let mut at = leaf;
        while let Some(node) = self.nodes.get(at).filter(|_| at > 0) {
            levels.push(node);
            at = node.parent;
        }
        levels
    }

    /// See [`super::RuleSet::metric_path`].
    pub(super) fn metric_path(&self, leaf: usize, entries: &[Entry<'_>]) -> String {
        let levels = self.levels(leaf);
        let is_detailed = levels.first().is_some_and(|leaf| leaf.detailed_metric);
        let mut path = self.name.clone();
        for (node, entry) in levels.iter().rev().zip(entries) {
            path.push('.');
            path.push_str(&node.metric_text(*entry, is_detailed));
        }
        path
    }
}

impl DescriptorNode {
    fn metric_text(&self, entry: Entry<'_>, is_detailed: bool) -> String {
        let runtime = || text_of(entry.key, Some(entry.value)).into_owned();
        // A value that is the pattern itself matches exactly, and reads the same.
        match self.how() {
            How::Wildcard if self.share_threshold => self.text.clone(),
            _ if is_detailed => runtime(),
            How::Wildcard if self.value_to_metric => runtime(),
            How::KeyOnly if self.value_to_metric && !entry.value.is_empty() => runtime(),
            How::Wildcard | How::KeyOnly | How::Exact => self.text.clone(),
        }
    }

    /// Whether the entry fits the pattern of this node, whatever is tried before it.
    pub(super) fn matches_as_wildcard(&self, entry: Entry<'_>) -> bool {
        Pattern::new(&self.text)
            .is_some_and(|pattern| pattern.matches(&text_of(entry.key, Some(entry.value))))
    }

    fn how(&self) -> How {
        match self.value {
            _ if self.is_wildcard => How::Wildcard,
            Some(_) => How::Exact,
            None => How::KeyOnly,
        }
    }
}

struct Builder<'a> {
    tree: Tree,
    index: usize,
    set: &'a mut RuleSet,
}

impl Builder<'_> {
    fn level(
        &mut self,
        parent: usize,
        parent_path: &str,
        specs: Vec<DescriptorSpec>,
        depth: usize,
    ) -> Result<(), RuleError> {
        if depth > DEPTH_MAX && !specs.is_empty() {
            return Err(RuleError::TooDeep { path: parent_path.to_owned() });
        }
        for spec in specs {
            if spec.key.is_empty() {
                return Err(RuleError::NoKey { path: parent_path.to_owned() });
            }
            let value = spec.value.filter(|value| !value.is_empty());
            let text = text_of(&spec.key, value.as_deref()).into_owned();
            let path = format!("{parent_path}.{text}");
            let is_wildcard = Pattern::new(&text).is_some();
            if spec.share_threshold && !is_wildcard {
                return Err(RuleError::NothingToShare { path });
            }
            let index = self.tree.nodes.len();
            let shared = self.shared(parent, spec.share_threshold.then(|| value.clone().unwrap_or_default()));
            let replaces = replaces_of(&spec.limits);
            self.tree.has_replaces |= !replaces.is_empty();
            self.tree.has_key_patterns |= spec.key.contains('*');
            self.tree.keys.insert(spec.key.clone());
            let limits = self.limits(&path, index, spec.limits)?;
            self.tree.nodes.push(DescriptorNode {
                key: spec.key,
                value,
                text,
                is_wildcard,
                share_threshold: spec.share_threshold,
                value_to_metric: spec.value_to_metric,
                detailed_metric: spec.detailed_metric,
                limits,
                replaces,
                shared,
                parent,
                children: Children::default(),
                order: Vec::new(),
            });
            self.adopt(parent, index, &path)?;
            self.level(index, &path, spec.descriptors, depth + 1)?;
        }
        Ok(())
    }

    fn adopt(&mut self, parent: usize, index: usize, path: &str) -> Result<(), RuleError> {
        let [parent, child] = self
            .tree
            .nodes
            .get_disjoint_mut([parent, index])
            .expect("a child is pushed after its parent, and is another node");
        parent.order.push(index);
        if parent.children.insert(&child.key, child.value.as_deref(), index) {
            Ok(())
        } else {
            Err(RuleError::DescriptorTwice { path: path.to_owned() })
        }
    }

    /// The patterns that stand in for values, down to a new child of `parent`.
    fn shared(&self, parent: usize, pattern: Option<String>) -> Box<[Option<Box<str>>]> {
        let above = self.tree.nodes.get(parent).map_or(&[][..], |node| &node.shared);
        if pattern.is_none() && above.is_empty() {
            return Box::default();
        }
        let depth = self.depth(parent);
        let mut shared = above.to_vec();
        shared.resize(depth, None);
        shared.push(pattern.map(String::into_boxed_str));
        shared.into_boxed_slice()
    }

    fn depth(&self, mut node: usize) -> usize {
        let mut depth = 0;
        while node > 0 {
            depth += 1;
            node = self.tree.nodes.get(node).map_or(0, |node| node.parent);
        }
        depth
    }

    fn limits(&mut self, path: &str, node: usize, spec: LimitsSpec) -> Result<Limits, RuleError> {
        match spec {
            LimitsSpec::None => Ok(Limits::None),
            LimitsSpec::Unlimited { label, .. } => {
                self.set.unlimited.push(Unlimited { label: label.clone(), path: path.to_owned() });
                Ok(Limits::Unlimited { label })
            }
            LimitsSpec::Limits(specs) => {
                let number = |n: usize| u32::try_from(n).map_err(|_| RuleError::TooMany);
                let (first, several) = (self.set.rules.len(), specs.len() > 1);
                for (place, spec) in specs.into_iter().enumerate() {
                    let path = if several { format!("{path}[{place}]") } else { path.to_owned() };
                    self.rule(path, node, first, spec);
                }
                Ok(Limits::Rules(number(first)?..number(self.set.rules.len())?))
            }
        }
    }

    fn rule(&mut self, path: String, node: usize, first_sibling: usize, spec: RuleSpec) {
        let same_kind = |other: &&Rule| {
            other.limit.algorithm() == spec.limit.algorithm() && other.limit.window() == spec.limit.window()
        };
        let siblings = self.set.rules.get(first_sibling..).unwrap_or_default();
        let ordinal = u32::try_from(siblings.iter().filter(same_kind).count()).unwrap_or(u32::MAX);
        self.tree.defers |= spec.over_limit == OverLimit::Defer;
        self.set.places.push((self.index, node));
        self.set.rules.push(Rule {
            label: spec.label,
            path,
            limit: spec.elastic.as_deref().map_or(spec.limit, Elastic::withdrawn),
            elastic: spec.elastic,
            unit: spec.unit,
            unit_multiplier: spec.unit_multiplier,
            mode: spec.mode,
            over_limit: spec.over_limit,
            replaces: spec.replaces,
            metadata: spec.metadata,
            message: spec.message,
            lists: spec.lists,
            ordinal,
        });
    }
}

fn replaces_of(limits: &LimitsSpec) -> Vec<String> {
    match limits {
        LimitsSpec::None => Vec::new(),
        LimitsSpec::Unlimited { replaces, .. } => replaces.clone(),
        LimitsSpec::Limits(specs) => specs.iter().flat_map(|spec| spec.replaces.clone()).collect(),
    }
}
