//! The counters of every rule in force, found by the number of the rule.
//!
//! Built when rules are loaded; [`super::Metrics`] finds the counters of a
//! decision here without looking at any text, unless the rule's path holds what
//! callers send.
//!
//! Invariant: a rule that stands at the same path after a reload goes on
//! counting where it was.
//!
//! Deliberately not here: paths with callers' values; see [`super::paths`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tollgate_core::ruleset::DEPTH_MAX;
use tollgate_core::{Algorithm, Entry, Micros, Rule, RuleId, RuleSet};

use super::counters::{StripedCounters, own_stripes_for};
use super::paths::{PathCounters, sanitised, shown_entries};

/// The counters of every rule in force.
#[derive(Debug, Default)]
pub(super) struct RuleTable {
    rules: Arc<RuleSet>,
    rows: Vec<RuleRow>,
    by_path: HashMap<Box<str>, Arc<StripedCounters>>,
    /// By domain, the counters of limits that callers brought.
    overrides: HashMap<Box<str>, Arc<StripedCounters>>,
}

/// One rule and its counters.
#[derive(Debug)]
pub(super) struct RuleRow {
    pub(super) counters: Arc<StripedCounters>,
    pub(super) counts_rejected: bool,
    /// Found out when the rule is first met.
    path_kind: OnceLock<PathKind>,
    pub(super) domain: Box<str>,
    /// The name to show: the label if no other rule of the domain has it, else the path.
    pub(super) name: Box<str>,
    /// The path as written, as metrics name it.
    pub(super) path: Arc<str>,
    pub(super) algorithm: Algorithm,
    pub(super) limit: u32,
    pub(super) window: Micros,
}

/// Whether the path of a rule depends on what callers send.
#[derive(Debug)]
enum PathKind {
    /// It is always the one written.
    Written,
    /// It holds values, and ends with this, which tells apart several limits
    /// of one descriptor.
    Values { end: Box<str> },
}

impl RuleTable {
    /// The counters for `rules`, taken over from `before` and from `strays`
    /// where the path is the same.
    pub(super) fn new(rules: Arc<RuleSet>, before: &Self, strays: &PathCounters) -> Self {
        let strays: HashMap<_, _> = strays.drain().into_iter().collect();
        let own = own_stripes_for(rules.rules().len());
        let new = || Arc::new(StripedCounters::new(own));
        let mut by_path: HashMap<Box<str>, Arc<StripedCounters>> = HashMap::new();
        let domains = DomainNames::of(&rules);
        let mut rows = Vec::with_capacity(rules.rules().len());
        for rule in rules.rules() {
            let path = rule.path.as_str();
            let known = before.by_path.get(path).or_else(|| strays.get(path));
            // Keys with dots in them can spell the same path twice: then both
            // count, and only the first is remembered.
            let counters = known.filter(|_| !by_path.contains_key(path)).map_or_else(new, Arc::clone);
            by_path.entry(path.into()).or_insert_with(|| Arc::clone(&counters));
            rows.push(RuleRow::new(rule, &domains, counters));
        }
        let of_domain = |domain: &str| {
            let known = before.overrides.get(domain).map(Arc::clone);
            (domain.into(), known.unwrap_or_else(new))
        };
        let overrides = rules.domains().map(of_domain).collect();
        drop(domains);
        Self { rules, rows, by_path, overrides }
    }

    /// The row of a rule, if `rules` is the set this table is for.
    pub(super) fn row(&self, rules: &RuleSet, id: RuleId) -> Option<&RuleRow> {
        if self.is_of(rules) { self.rows.get(id.index()) } else { None }
    }

    /// Whether `rules` is the set this table is for.
    pub(super) fn is_of(&self, rules: &RuleSet) -> bool {
        std::ptr::eq(rules, Arc::as_ptr(&self.rules))
    }

    /// The counters of the rule that stands at that path, whatever the set.
    pub(super) fn by_path(&self, path: &str) -> Option<&Arc<StripedCounters>> {
        self.by_path.get(path)
    }

    /// The counters of limits that callers brought for that domain.
    pub(super) fn overrides(&self, domain: &str) -> Option<&Arc<StripedCounters>> {
        self.overrides.get(domain)
    }

    pub(super) fn rows(&self) -> &[RuleRow] {
        &self.rows
    }

    /// By domain, the counters of limits that callers brought.
    pub(super) fn all_overrides(&self) -> impl Iterator<Item = (&str, &StripedCounters)> {
        self.overrides.iter().map(|(domain, counters)| (&**domain, &**counters))
    }

    pub(super) fn rules(&self) -> &RuleSet {
        &self.rules
    }
}

impl RuleRow {
    fn new(rule: &Rule, domains: &DomainNames<'_>, counters: Arc<StripedCounters>) -> Self {
        let domain = domains.of_rule(rule);
        Self {
            counters,
            counts_rejected: rule.limit.counts_rejected(),
            path_kind: OnceLock::new(),
            domain: domain.into(),
            name: domains.shown(domain, rule).into(),
            path: sanitised(&rule.path).into(),
            algorithm: rule.limit.algorithm(),
            limit: rule.limit.count(),
            window: rule.limit.window(),
        }
    }

    /// The path of this rule with the values of `entries`; none if it is the one written.
    pub(super) fn path_of(&self, rules: &RuleSet, id: RuleId, entries: &[Entry<'_>]) -> Option<String> {
        match self.path_kind.get_or_init(|| PathKind::of(rules, id)) {
            PathKind::Written => None,
            PathKind::Values { end } => Some(path_with_values(rules, id, entries, end)),
        }
    }
}

/// The path of a rule that is in no table, with the values of `entries`; none
/// if it is the one written.
pub(super) fn path_in(rules: &RuleSet, id: RuleId, entries: &[Entry<'_>]) -> Option<String> {
    match PathKind::of(rules, id) {
        PathKind::Written => None,
        PathKind::Values { end } => Some(path_with_values(rules, id, entries, &end)),
    }
}

fn path_with_values(rules: &RuleSet, id: RuleId, entries: &[Entry<'_>], end: &str) -> String {
    let mut path = rules.metric_path(id, &shown_entries(entries));
    path.push_str(end);
    match sanitised(&path) {
        Cow::Owned(other) => other,
        Cow::Borrowed(clean) if clean.len() == path.len() => path,
        Cow::Borrowed(cut) => cut.to_owned(),
    }
}

impl PathKind {
    fn of(rules: &RuleSet, id: RuleId) -> Self {
        let probe = |text| rules.metric_path(id, &[Entry { key: text, value: text }; DEPTH_MAX]);
        if probe("\u{1}") == probe("\u{2}") {
            Self::Written
        } else {
            Self::Values { end: sibling_mark(rules.rules(), id.index()).into() }
        }
    }
}

/// The `[1]` that the path of the second of several limits of a descriptor ends with.
fn sibling_mark(rules: &[Rule], index: usize) -> &str {
    let Some((stem, place)) = rules.get(index).and_then(|rule| mark_of(&rule.path)) else { return "" };
    let is_beside = |other: usize, its_place: usize| {
        rules.get(other).and_then(|rule| mark_of(&rule.path)) == Some((stem, its_place))
    };
    let has_sibling = is_beside(index + 1, place + 1)
        || index.checked_sub(1).zip(place.checked_sub(1)).is_some_and(|(before, its)| is_beside(before, its));
    if has_sibling {
        rules.get(index).and_then(|rule| rule.path.get(stem.len()..)).unwrap_or_default()
    } else {
        ""
    }
}

fn mark_of(path: &str) -> Option<(&str, usize)> {
    let (stem, place) = path.strip_suffix(']')?.rsplit_once('[')?;
    Some((stem, place.parse().ok()?))
}

/// The domains of a set, and how often a label is used in each.
struct DomainNames<'a> {
    names: Vec<&'a str>,
    labels: HashMap<(&'a str, &'a str), usize>,
}

impl<'a> DomainNames<'a> {
    fn of(rules: &'a RuleSet) -> Self {
        let mut domains = Self { names: rules.domains().collect(), labels: HashMap::new() };
        // The longest first: a name with dots may begin with another name.
        domains.names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        for rule in rules.rules() {
            let domain = domains.of_rule(rule);
            *domains.labels.entry((domain, &rule.label)).or_default() += 1;
        }
        domains
    }

    fn of_rule(&self, rule: &Rule) -> &'a str {
        let begins = |name: &&&str| rule.path.strip_prefix(**name).is_some_and(|rest| rest.starts_with('.'));
        self.names.iter().find(begins).copied().unwrap_or_default()
    }

    fn shown<'r>(&self, domain: &str, rule: &'r Rule) -> &'r str {
        let is_only = self.labels.get(&(domain, rule.label.as_str())) == Some(&1);
        if is_only { rule.name() } else { &rule.path }
    }
}

#[cfg(test)]
mod tests;
