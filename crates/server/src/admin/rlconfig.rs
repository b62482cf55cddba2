//! `/rlconfig`: the rules in force, one line each, as the reference prints them.
//!
//! The order is by path, so that two dumps can be compared. What the reference
//! does not know is told after what it does.

use std::fmt::Write as _;

use tollgate_core::list::ExceptionLists;
use tollgate_core::rule::Unlimited;
use tollgate_core::{Algorithm, OverLimit, Rule, RuleSet};

/// The page.
pub(super) fn page(rules: &RuleSet) -> String {
    let limits = rules.rules().iter().map(line);
    let others = rules.unlimited().iter().map(without_limit).chain(rules.domain_lists().map(domain_line));
    let mut lines: Vec<String> = limits.chain(others).collect();
    lines.sort();
    lines.concat()
}

fn line(rule: &Rule) -> String {
    let mut line = format!(
        "{}: unit={} requests_per_unit={}, shadow_mode: {}, quota_mode: {}",
        rule.path,
        rule.unit.name().to_ascii_uppercase(),
        rule.limit.count(),
        rule.mode.is_shadow(),
        rule.mode.is_quota(),
    );
    if rule.unit_multiplier != 1 {
        add(&mut line, "unit_multiplier", rule.unit_multiplier);
    }
    if rule.limit.algorithm() != Algorithm::FixedWindow {
        add(&mut line, "algorithm", rule.limit.algorithm());
    }
    if !rule.label.is_empty() {
        add(&mut line, "name", &rule.label);
    }
    if rule.over_limit != OverLimit::Deny {
        add(&mut line, "over_limit", rule.over_limit.name());
    }
    add_lists(&mut line, rule.lists.as_deref());
    line.push('\n');
    line
}

/// How many are on the lists of a rule or a domain, and a fingerprint of them.
fn add_lists(line: &mut String, lists: Option<&ExceptionLists>) {
    let Some(ExceptionLists { allow, deny }) = lists else { return };
    for (name, list) in [("allow", allow), ("deny", deny)] {
        if !list.is_empty() {
            add(line, name, list);
        }
    }
}

fn domain_line((domain, lists): (&str, &ExceptionLists)) -> String {
    let mut line = format!("{domain}: lists of the domain");
    add_lists(&mut line, Some(lists));
    line.push('\n');
    line
}

/// The reference has no unit for it, and prints that.
fn without_limit(rule: &Unlimited) -> String {
    let mut line = format!(
        "{}: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false, unlimited: true",
        rule.path
    );
    if !rule.label.is_empty() {
        add(&mut line, "name", &rule.label);
    }
    line.push('\n');
    line
}

fn add(line: &mut String, name: &str, value: impl std::fmt::Display) {
    write!(line, ", {name}: {value}").expect("writing to a string cannot fail");
}
