//! What a tree finds, on trees small enough to read.

use super::*;
use crate::limit::{Limit, Shape};
use crate::rule::{DescriptorSpec, LimitsSpec, RuleSpec, Unit};

fn limits(label: &str) -> LimitsSpec {
    let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow).unwrap();
    LimitsSpec::Limits(vec![RuleSpec { label: label.into(), ..RuleSpec::new(limit, Unit::Minute) }])
}

fn node(key: &str, value: &str, label: &str) -> DescriptorSpec {
    let limits = if label.is_empty() { LimitsSpec::None } else { limits(label) };
    DescriptorSpec { key: key.into(), value: Some(value.into()), limits, ..Default::default() }
}

fn set(descriptors: Vec<DescriptorSpec>) -> RuleSet {
    RuleSet::new(vec![DomainSpec { name: "d".into(), descriptors, ..Default::default() }]).unwrap()
}

/// The label of the rule found for these entries, or why there is none.
fn found(rules: &RuleSet, entries: &[(&str, &str)]) -> String {
    let entries: Vec<Entry<'_>> = entries.iter().map(|&entry| entry.into()).collect();
    let descriptors = [Descriptor::new(&entries)];
    let mut answer = Vec::new();
    rules.charges(&Request::new("d", &descriptors), Operation::Check, |found| {
        answer.push(match found {
            Found::Charge(charge) => rules.rule(charge.rule.unwrap()).unwrap().label.clone(),
            Found::Free { why, .. } => format!("{why:?}"),
            Found::Denied(denial) => format!("{denial:?}"),
        });
    });
    answer.join(",")
}

#[test]
fn exact_beats_wildcard_beats_key_only() {
    let rules = set(vec![
        node("k", "", "any"),
        node("k", "a*", "first"),
        node("k", "ab*", "second"),
        node("k", "abc", "exact"),
    ]);
    assert_eq!(found(&rules, &[("k", "abc")]), "exact");
    assert_eq!(found(&rules, &[("k", "abd")]), "first");
    assert_eq!(found(&rules, &[("k", "x")]), "any");
    assert_eq!(found(&rules, &[("other", "x")]), "NoRule");
    assert_eq!(found(&rules, &[]), "NoRule");
}

/// A few children are looked through, many are found by a hash, and patterns have a way of their own.
#[test]
fn a_child_is_found_alike_among_few_and_among_many() {
    let wanted = || {
        vec![
            node("k", "", "any"),
            node("k", "v", "exact"),
            node("k_w", "", "joined"),
            node("path", "", "path"),
        ]
    };
    let others = (0..20).map(|n| node(&format!("other{n}"), "", "other"));
    let (mut backwards, mut many, mut with_pattern) = (wanted(), wanted(), wanted());
    backwards.reverse();
    many.extend(others);
    with_pattern.push(node("z", "z*", "pattern"));
    for rules in [wanted(), backwards, many, with_pattern].map(set) {
        assert_eq!(found(&rules, &[("k", "v")]), "exact");
        assert_eq!(found(&rules, &[("k", "w")]), "joined", "a text is a text, wherever it is joined");
        assert_eq!(found(&rules, &[("k", "x")]), "any");
        assert_eq!(found(&rules, &[("k", "")]), "any");
        assert_eq!(found(&rules, &[("k_v", "x")]), "exact");
        assert_eq!(found(&rules, &[("path", "k_v")]), "path");
        assert_eq!(found(&rules, &[("k_", "")]), "NoRule");
        assert_eq!(found(&rules, &[("patx", "v")]), "NoRule");
    }
}

#[test]
fn a_pattern_in_the_key_is_matched_too() {
    let rules = set(vec![node("he*", "", "keys")]);
    assert_eq!(found(&rules, &[("header", "x")]), "keys");
}

#[test]
fn a_chosen_node_stays_chosen() {
    let mut exact = node("k", "v", "");
    exact.descriptors = vec![node("deep", "one", "leaf")];
    let mut any = node("k", "", "");
    any.descriptors = vec![node("deep", "", "fallback")];
    let rules = set(vec![exact, any]);
    assert_eq!(found(&rules, &[("k", "v"), ("deep", "one")]), "leaf");
    assert_eq!(found(&rules, &[("k", "v"), ("deep", "two")]), "NoRule", "no way back to the key-only node");
    assert_eq!(found(&rules, &[("k", "w"), ("deep", "two")]), "fallback");
}

#[test]
fn only_a_limit_at_the_depth_of_the_request_applies() {
    let mut outer = node("k", "", "outer");
    outer.descriptors = vec![node("deep", "", "inner")];
    let rules = set(vec![outer]);
    assert_eq!(found(&rules, &[("k", "v")]), "outer");
    assert_eq!(found(&rules, &[("k", "v"), ("deep", "x")]), "inner");
    assert_eq!(found(&rules, &[("k", "v"), ("deep", "x"), ("deeper", "y")]), "NoRule");
}

#[test]
fn a_replaced_rule_is_not_charged() {
    let mut special = node("k", "vip", "vip");
    if let LimitsSpec::Limits(specs) = &mut special.limits {
        specs[0].replaces = vec!["base".into()];
    }
    let rules = set(vec![special, node("b", "", "base")]);
    let (vip, base) = ([Entry::from(("k", "vip"))], [Entry::from(("b", "1"))]);
    let descriptors = [Descriptor::new(&base), Descriptor::new(&vip)];
    let mut seen = Vec::new();
    rules.charges(&Request::new("d", &descriptors), Operation::Check, |found| seen.push(found));
    assert!(matches!(seen[0], Found::Free { descriptor: 0, why: Free::Replaced }));
    assert!(matches!(seen[1], Found::Charge(Charge { descriptor: 1, .. })));
}

#[test]
fn two_descriptors_of_one_text_are_refused() {
    let twice = vec![node("a_b", "", ""), node("a", "b", "")];
    let error = RuleSet::new(vec![DomainSpec { name: "d".into(), descriptors: twice, ..Default::default() }])
        .unwrap_err();
    assert_eq!(error, RuleError::DescriptorTwice { path: "d.a_b".into() });
}

#[test]
fn metric_paths_follow_the_flags() {
    let level = |key: &str, value: &str| node(key, value, "");
    let mut first = level("path", "/api/*");
    first.value_to_metric = true;
    let mut second = level("file", "f/*");
    second.share_threshold = true;
    let mut third = node("type", "", "leaf");
    third.value_to_metric = true;
    second.descriptors = vec![third];
    first.descriptors = vec![second];
    let rules = set(vec![first]);
    let entries = [("path", "/api/x"), ("file", "f/1"), ("type", "")].map(Entry::from);
    assert_eq!(rules.metric_path(RuleId(0), &entries), "d.path_/api/x.file_f/*.type");

    let mut detailed = node("k", "", "leaf");
    detailed.detailed_metric = true;
    let rules = set(vec![detailed]);
    assert_eq!(rules.metric_path(RuleId(0), &[("k", "").into()]), "d.k_");
    assert_eq!(override_metric_path("d", &[("k", "").into(), ("l", "v").into()]), "d.k.l_v");
}

#[test]
fn values_that_share_have_one_key() {
    let mut shared = node("file", "f/*", "leaf");
    shared.share_threshold = true;
    let rules = set(vec![shared]);
    let bytes = |value: &str| {
        let entries = [("file", value).into()];
        let descriptors = [Descriptor::new(&entries)];
        let mut bytes = Vec::new();
        rules.charges(&Request::new("d", &descriptors), Operation::Check, |found| {
            if let Found::Charge(charge) = found {
                charge.key.write(|piece| bytes.extend_from_slice(piece));
            }
        });
        bytes
    };
    assert_eq!(bytes("f/1"), bytes("f/2"));
    assert!(!bytes("f/1").is_empty());
}
