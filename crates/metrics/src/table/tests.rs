//! Tests of how a rule finds its counters.

use tollgate_rules::{Options, SourceFile, load};

use super::*;

fn rules(text: &str) -> Arc<RuleSet> {
    let source = SourceFile { name: "test.yaml".into(), text: text.into() };
    Arc::new(load(vec![source], &Options::default()).unwrap().rules)
}

fn table(rules: &Arc<RuleSet>) -> RuleTable {
    RuleTable::new(Arc::clone(rules), &RuleTable::default(), &PathCounters::new(10))
}

fn first_id(rules: &RuleSet, domain: &str, entries: &[Entry<'_>]) -> RuleId {
    rules.trace(domain, entries).unwrap().rules[0]
}

#[test]
fn a_set_that_is_equal_and_not_the_same_has_no_rows() {
    let text = "domain: d\ndescriptors:\n  - key: a\n    rate_limit: { requests_per_unit: 1, unit: hour }\n";
    let (one, other) = (rules(text), rules(text));
    let table = table(&one);
    let id = first_id(&one, "d", &[("a", "x").into()]);
    assert!(table.row(&one, id).is_some());
    assert!(table.row(&other, id).is_none(), "its numbers may mean other rules");
    assert!(table.by_path("d.a").is_some());
}

#[test]
fn a_path_as_written_is_told_from_one_with_values() {
    let set = rules(
        "domain: d
descriptors:
  - key: a
    value: x*
    rate_limit: { requests_per_unit: 1, unit: hour }
  - key: b
    value_to_metric: true
    descriptors:
      - key: c
        rate_limit: { requests_per_unit: 1, unit: hour }
",
    );
    let table = table(&set);
    let (written, valued) = ([("a", "xy").into()], [("b", "1").into(), ("c", "2").into()]);
    let path = |entries: &[Entry<'_>]| {
        let id = first_id(&set, "d", entries);
        table.row(&set, id).unwrap().path_of(&set, id, entries)
    };
    assert_eq!(path(&written), None);
    assert_eq!(path(&valued), Some("d.b_1.c".to_owned()));
}

#[test]
fn a_mark_is_one_only_beside_a_sibling() {
    let set = rules(
        "domain: d
descriptors:
  - key: a
    value: x[0]
    rate_limit: { requests_per_unit: 1, unit: hour }
  - key: b
    rate_limits:
      - { requests_per_unit: 1, unit: hour }
      - { requests_per_unit: 1, unit: day }
",
    );
    let marks: Vec<&str> = (0..3).map(|index| sibling_mark(set.rules(), index)).collect();
    assert_eq!(marks, ["", "[0]", "[1]"]);
}

#[test]
fn a_domain_with_dots_is_told_whole() {
    let set = rules(
        "domain: a.b\ndescriptors:\n  - key: c\n    rate_limit: { requests_per_unit: 1, unit: hour }\n",
    );
    assert_eq!(&*table(&set).rows()[0].domain, "a.b");
}
