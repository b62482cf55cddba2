//! `/rlconfig`: the rules in force, one line each, as the reference prints them.
//!
//! The order is by path, so that two dumps can be compared. What the reference
//! does not know is told after what it does.

use std::fmt::Write as _;

use tollgate_core::{Algorithm, Rule, RuleSet};

/// The page.
pub(super) fn page(rules: &RuleSet) -> String {
    let mut lines: Vec<String> = rules.rules().iter().map(line).collect();
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
    line.push('\n');
    line
}

fn add(line: &mut String, name: &str, value: impl std::fmt::Display) {
    write!(line, ", {name}: {value}").expect("writing to a string cannot fail");
}
