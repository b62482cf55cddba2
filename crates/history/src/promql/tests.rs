//! Expressions over counts that are known.

use std::collections::BTreeMap;

use tollgate_core::{Outcome, Time};

use super::*;
use crate::recorder::{Caps, DecisionCount, Recorder, RequestCount};
use crate::tables::MemoryTables;
use crate::{Bounds, History, InstanceId, LocalHistory};

/// A minute that begins an hour.
const START_S: u64 = 1_800_000_000;

/// Ten minutes: in minute `n`, `n` requests to `/a`, one to `/b` that is denied, and
/// one without a route; and then nobody counts.
fn history() -> LocalHistory<MemoryTables> {
    let recorder = Recorder::new(InstanceId([1; 16]), Caps::default());
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    for minute in 1..=10 {
        let now = Time::from_secs(START_S + minute * 60);
        let requests = [
            (Some("/a"), Outcome::Allowed, minute),
            (Some("/b"), Outcome::Denied, 1),
            (None, Outcome::Allowed, 1),
        ];
        for (route, outcome, count) in requests {
            recorder.request(&RequestCount { route, outcome, count }, now);
        }
        let ruled =
            DecisionCount { domain: "d", rule: "r", key: Some("user=1"), outcome: Outcome::Denied, count: 1 };
        recorder.decision(&ruled, now);
        history.append(&recorder.flush(now)).unwrap();
    }
    history
}

/// The end of the tenth minute.
const END_S: u64 = START_S + 11 * 60;

fn at(text: &str, at_s: u64) -> Result<BTreeMap<String, f64>, Error> {
    let value = history().reader().unwrap().promql(text, Instants::One { at_ms: at_s * 1_000 })?;
    Ok(match value {
        PromValue::Scalar(numbers) => BTreeMap::from([("scalar".to_owned(), numbers[0])]),
        PromValue::Series(series) => {
            let name = |labels: &LabelSet| {
                let pairs: Vec<String> =
                    labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
                pairs.join(",")
            };
            series.iter().filter_map(|one| Some((name(&one.labels), one.values[0]?))).collect()
        }
    })
}

fn is(text: &str, expected: &[(&str, f64)]) {
    let came = at(text, END_S).unwrap();
    let expected: BTreeMap<String, f64> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    assert_eq!(came, expected, "{text}");
}

#[test]
fn windows_have_the_counts_of_their_whole_minutes() {
    // Minutes 6 to 10.
    is("increase(tollgate_requests_total{route=\"/a\"}[5m])", &[("outcome=allowed,route=/a", 40.0)]);
    is("rate(tollgate_requests_total{route=\"/a\"}[5m])", &[("outcome=allowed,route=/a", 40.0 / 300.0)]);
    // Minutes 1 to 5.
    is(
        "increase(tollgate_requests_total{route=\"/a\"}[5m] offset 5m)",
        &[("outcome=allowed,route=/a", 15.0)],
    );
    // In the middle of the eleventh minute the tenth is the last whole one.
    let half = at("increase(tollgate_requests_total{route=\"/a\"}[1m])", END_S + 30).unwrap();
    assert_eq!(half["outcome=allowed,route=/a"], 10.0);
}

#[test]
fn a_counter_only_grows() {
    is(
        "tollgate_requests_total{route=\"/b\"}",
        &[("__name__=tollgate_requests_total,outcome=denied,route=/b", 10.0)],
    );
    let earlier = at("tollgate_requests_total{route=\"/b\"}", START_S + 5 * 60 + 59).unwrap();
    assert_eq!(earlier.into_values().collect::<Vec<_>>(), [5.0]);
}

#[test]
fn sums_are_exact_though_not_all_have_a_name() {
    is("sum(increase(tollgate_requests_total[10m]))", &[("", 75.0)]);
    is(
        "sum by (outcome) (increase(tollgate_requests_total[10m]))",
        &[("outcome=allowed", 65.0), ("outcome=denied", 10.0)],
    );
    is(
        "sum without (outcome) (increase(tollgate_requests_total[10m]))",
        &[("route=/a", 55.0), ("route=/b", 10.0), ("route=(other)", 10.0)],
    );
    is("topk(1, sum by (route) (increase(tollgate_requests_total[10m])))", &[("route=/a", 55.0)]);
    is(
        "bottomk(2, sum by (route) (increase(tollgate_requests_total[10m])))",
        &[("route=/b", 10.0), ("route=(other)", 10.0)],
    );
    is("count(increase(tollgate_requests_total[10m]))", &[("", 3.0)]);
    is("avg(increase(tollgate_requests_total[10m]))", &[("", 25.0)]);
    is("max(increase(tollgate_requests_total[10m]))", &[("", 55.0)]);
    is("min(increase(tollgate_requests_total[10m]))", &[("", 10.0)]);
    is(
        "increase(tollgate_key_decisions_total{key=~\"user=.*\"}[10m])",
        &[("domain=d,key=user=1,outcome=denied,rule=r", 10.0)],
    );
    is("sum(increase(tollgate_decisions_total{rule!=\"x\"}[10m]))", &[("", 10.0)]);
}

#[test]
fn numbers_and_series_are_combined() {
    is("1 + 2 * 3 - -4 / 2", &[("scalar", 9.0)]);
    is("(1 + 2) * 3", &[("scalar", 9.0)]);
    is(
        "sum(increase(tollgate_requests_total{outcome=\"denied\"}[10m])) / sum(increase(tollgate_requests_total[10m]))",
        &[("", 10.0 / 75.0)],
    );
    is("60 * sum(rate(tollgate_requests_total[10m]))", &[("", 7.5)]);
    is("sum by (route) (increase(tollgate_requests_total[10m])) > 20", &[("route=/a", 55.0)]);
    is("sum(increase(tollgate_requests_total[10m])) == bool 75", &[("", 1.0)]);
}

#[test]
fn where_nobody_counted_there_is_no_sample() {
    let later = END_S + 3_600;
    assert_eq!(at("rate(tollgate_requests_total[5m])", later).unwrap(), BTreeMap::new());
    assert_eq!(at("tollgate_requests_total", later).unwrap(), BTreeMap::new());
    let range = Instants::Range { from_ms: END_S * 1_000, to_ms: (END_S + 600) * 1_000, step_ms: 300_000 };
    let PromValue::Series(series) =
        history().reader().unwrap().promql("sum(increase(tollgate_requests_total[5m]))", range).unwrap()
    else {
        panic!("no series");
    };
    assert_eq!(series[0].values, [Some(50.0), None, None]);
}

#[test]
fn decisions_are_summed_by_domain() {
    is("sum by (domain) (tollgate_decisions_total)", &[("domain=d", 10.0)]);
    is("sum without (outcome, rule) (tollgate_decisions_total)", &[("domain=d", 10.0)]);
}

#[test]
fn a_matcher_ignores_case_if_it_says_so() {
    is("sum(tollgate_requests_total{route=~\"(?i)/A\"})", &[("", 55.0)]);
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_what_is_missing_by_name() {
    let cases = [
        ("", "at character 1: there must be a number"),
        ("sum(", "at character 5: "),
        ("rate(tollgate_requests_total)", "at character 29: there must be a [ here"),
        ("tollgate_requests_total{route=/a}", "at character 31: there must be a text in quotes"),
        ("tollgate_requests_total{route=~\"(\"}", "at character 32: this is no regular expression"),
        ("1 2", "at character 3: the expression is over here"),
        ("\"open", "at character 1: this text has no end"),
        ("1 ? 2", "at character 3: there is no '?'"),
        ("histogram_quantile(0.9, x)", "the function histogram_quantile is not supported; there are rate,"),
        ("tollgate_requests_total[5m]", "a window without rate or increase around it is not supported"),
        ("a and b", "the operator and is not supported"),
        ("rate(a[5m:1m])", "a subquery is not supported"),
        ("topk(0, a)", "the number of rows must be from 1"),
        ("rate(a[0s])", "at character 10: a duration must be longer than nothing"),
        ("a offset 0s", "at character 12: a duration must be longer than nothing"),
    ];
    for (text, words) in cases {
        let error = at(text, END_S).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    let deep = "(".repeat(10_000);
    assert!(at(&deep, END_S).unwrap_err().to_string().contains("longer than"));
    let deep = "-".repeat(1_000) + "1";
    assert!(at(&deep, END_S).unwrap_err().to_string().contains("nested deeper"));
    assert_eq!(at("no_such_metric", END_S).unwrap(), BTreeMap::new(), "as in Prometheus");
}

#[test]
fn too_much_is_refused() {
    let recorder = Recorder::new(InstanceId([1; 16]), Caps::default());
    let now = Time::from_secs(START_S);
    for n in 0..600 {
        let route = format!("/{n}");
        recorder.request(&RequestCount { route: Some(&route), outcome: Outcome::Allowed, count: 1 }, now);
    }
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    history.append(&recorder.flush(now)).unwrap();
    let (from_ms, to_ms) = ((START_S - 600) * 1_000, (START_S + 600) * 1_000);
    let range = Instants::Range { from_ms, to_ms, step_ms: 120 };
    let error = history.reader().unwrap().promql("rate(tollgate_requests_total[5m])", range).unwrap_err();
    assert!(matches!(error, Error::TooMuch { .. }), "{error}");
    history
        .reader()
        .unwrap()
        .promql("sum(rate(tollgate_requests_total[5m]))", range)
        .expect("one curve is little");
}

#[test]
fn labels_and_series_are_listed() {
    let history = history();
    let values = |label: &str, selectors: &[&str]| {
        let selectors: Vec<String> = selectors.iter().map(|text| (*text).to_owned()).collect();
        history.reader().unwrap().promql_values(label, &selectors, 10).unwrap().join(" ")
    };
    assert_eq!((values("route", &[]), values("colour", &[])), ("/a /b".into(), String::new()));
    assert_eq!(values("outcome", &[]).split(' ').count(), 6);
    assert_eq!(values("route", &["{route!=\"/a\"}"]), "/b");
    assert_eq!(values("rule", &["tollgate_key_decisions_total{key=\"user=1\"}"]), "r");
    assert_eq!(values("rule", &["tollgate_requests_total"]), "", "requests have no rule");
    assert_eq!(values("outcome", &["{route=\"/b\",outcome=~\"d.*\"}"]), "degraded delayed denied");
    assert!(history.reader().unwrap().promql_values("rule", &["{".into()], 10).is_err());
    let sets = history.reader().unwrap().promql_series("{route=\"/b\",outcome=\"denied\"}", 10).unwrap();
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0]["__name__"], "tollgate_requests_total");
    assert_eq!(history.reader().unwrap().promql_series("tollgate_requests_total", 5).unwrap().len(), 5);
}
