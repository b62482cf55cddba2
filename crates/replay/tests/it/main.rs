//! Small logs whose answers were computed by hand.
#![expect(clippy::unwrap_used, reason = "a test that fails may say so this way")]

mod crossed;
mod formats;
mod hostile;

use std::sync::Arc;

use tollgate_core::RuleSet;
use tollgate_http::{Action, AddressPrefixes, Fact, Mapping, PathTemplates};
use tollgate_replay::{LogSource, Replay, ReplayReport, ReplaySettings, Spread};
use tollgate_rules::SourceFile;

fn rules(text: &str) -> Arc<RuleSet> {
    try_rules(text).unwrap()
}

/// For tests that cross what not every algorithm has.
fn try_rules(text: &str) -> Result<Arc<RuleSet>, tollgate_rules::LoadError> {
    let source = SourceFile { name: "rules.yaml".into(), text: text.to_owned() };
    let loaded = tollgate_rules::load(vec![source], &tollgate_rules::Options::default())?;
    Ok(Arc::new(loaded.rules))
}

fn by_address(limit: &str) -> Arc<RuleSet> {
    rules(&format!("domain: web\ndescriptors:\n  - key: remote_address\n    rate_limit: {limit}\n"))
}

fn settings(rules: Arc<RuleSet>) -> ReplaySettings {
    let address = Action::new("remote_address", Fact::RemoteAddress(AddressPrefixes::default()));
    let path = Action::new("path", Fact::Path(PathTemplates::default()));
    let mapping = Mapping::new("web", vec![vec![address], vec![path]]).unwrap();
    ReplaySettings {
        rules,
        against: None,
        mapping,
        spread: Spread::Even,
        rows: 20,
        algorithms: false,
        suggest: None,
        explain: None,
    }
}

/// A line of the common log format; the hour is fixed.
fn line(minute: u32, second: u32, address: &str, path: &str) -> String {
    format!("{address} - - [02/Jan/2026:03:{minute:02}:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 1\n")
}

fn replay(settings: &ReplaySettings, logs: &[String]) -> ReplayReport {
    let source = |log: &String| LogSource {
        name: "log".into(),
        lines: Box::new(std::io::Cursor::new(log.clone().into_bytes())),
        format: None,
    };
    Replay::run(settings, logs.iter().map(source).collect(), &mut |_| ()).unwrap()
}

#[test]
fn a_small_log_has_the_answers_that_were_computed_by_hand() {
    // 2 a minute, rolling: of the three at 0 s, 10 s and 30 s the third is denied, and so is the fourth at
    // 50 s; at 61 s the first is over. The other address sends one.
    let log: String = [(0, 0), (0, 10), (0, 30), (0, 50), (1, 1)]
        .map(|(minute, second)| line(minute, second, "192.0.2.1", "/a?x=1"))
        .concat()
        + &line(1, 2, "192.0.2.2", "/b")
        + "what is this\n";
    let limit = "{ algorithm: sliding_log, requests_per_unit: 2, unit: minute }";
    let report = replay(&settings(by_address(limit)), &[log]);
    assert_eq!((report.lines, report.requests, report.not_understood), (7, 6, 1));
    assert_eq!(report.examples_not_understood, ["what is this"]);
    assert_eq!((report.denied, report.delayed), (2, 0));
    assert_eq!((report.from, report.to), (1_767_322_800, 1_767_322_862));
    let [rule] = &*report.rules else { panic!("one rule") };
    assert_eq!((&*rule.domain, &*rule.rule), ("web", "web.remote_address"));
    assert_eq!((rule.requests, rule.denied, rule.keys, rule.keys_denied), (6, 2, 2, 1));
    let [first, second] = &*report.keys else { panic!("two keys") };
    assert_eq!((&*first.key, first.requests, first.denied), ("remote_address=192.0.2.1", 5, 2));
    assert_eq!((&*second.key, second.requests, second.denied), ("remote_address=192.0.2.2", 1, 0));
    assert_eq!(
        report.routes.iter().map(|row| (&*row.route, row.denied)).collect::<Vec<_>>(),
        [("/a", 2), ("/b", 0)]
    );
    assert_eq!(report.curve.iter().map(|point| point.denied).sum::<u64>(), 2);
    assert_eq!(report.formats, ["common"]);
}

#[test]
fn requests_of_a_second_are_spread_over_it_or_not() {
    // Four in one second, 2/s as a bucket of one: spread at 0, 250, 500 and 750 ms, the first and the third
    // find a token; at one instant only the first does.
    let log = line(0, 0, "192.0.2.1", "/").repeat(4);
    let rules = by_address("{ algorithm: token_bucket, requests_per_unit: 2, unit: second, burst: 1 }");
    let even = settings(rules);
    let none = ReplaySettings { spread: Spread::None, ..even.clone() };
    assert_eq!(replay(&even, std::slice::from_ref(&log)).denied, 2);
    assert_eq!(replay(&none, &[log]).denied, 3);
}

#[test]
fn logs_are_merged_by_time_and_lines_sorted_within_a_minute() {
    let limit = "{ algorithm: sliding_log, requests_per_unit: 1, unit: minute }";
    let settings = settings(by_address(limit));
    let [first, second] = [line(0, 0, "192.0.2.1", "/"), line(1, 0, "192.0.2.1", "/")];
    let third = line(1, 30, "192.0.2.1", "/");
    // In order: allowed at 0:00 and 1:00, denied at 1:30.
    let in_order = replay(&settings, &[[&*first, &second, &third].concat()]);
    assert_eq!((in_order.denied, in_order.late), (1, 0));
    assert_eq!(replay(&settings, &[second.clone() + &third, first.clone()]).denied, 1, "two logs");
    assert_eq!(replay(&settings, &[[&*second, &first, &third].concat()]).denied, 1, "out of order");
    assert_eq!(in_order.rules, replay(&settings, &[third, second, first]).rules, "three logs");
}

#[test]
fn two_rule_sets_are_compared_request_by_request() {
    let log = line(0, 0, "192.0.2.1", "/").repeat(5) + &line(0, 1, "192.0.2.2", "/login").repeat(2);
    let old = by_address("{ requests_per_unit: 4, unit: minute }");
    let new = rules(
        "domain: web\ndescriptors:\n  - key: path\n    value: /login\n    rate_limit: { requests_per_unit: 1, unit: minute }\n",
    );
    let settings = ReplaySettings { against: Some(old), ..settings(new) };
    let report = replay(&settings, &[log]);
    let change = report.against.unwrap();
    assert_eq!((report.denied, change.denied), (1, 1));
    assert_eq!((change.newly_denied, change.newly_allowed), (1, 1));
    let [denied, allowed] = &*change.keys else { panic!("two keys") };
    assert_eq!((&*denied.key, denied.newly_denied, denied.newly_allowed), ("path=/login", 1, 0));
    assert_eq!(
        (&*allowed.key, allowed.newly_denied, allowed.newly_allowed),
        ("remote_address=192.0.2.1", 0, 1)
    );
}

#[test]
fn delays_and_shadow_rules_are_told_apart_from_denials() {
    let log = line(0, 0, "192.0.2.1", "/").repeat(3);
    let queue = by_address("{ algorithm: leaky_bucket, requests_per_unit: 1, unit: second, burst: 1 }");
    let report =
        replay(&ReplaySettings { spread: Spread::None, ..settings(queue) }, std::slice::from_ref(&log));
    assert_eq!((report.denied, report.delayed), (1, 1));
    let shadow = rules(
        "domain: web\ndescriptors:\n  - key: remote_address\n    rate_limit: { requests_per_unit: 1, unit: minute }\n    shadow_mode: true\n",
    );
    let report = replay(&settings(shadow), &[log]);
    assert_eq!((report.denied, report.rules[0].denied, report.rules[0].shadow), (0, 2, true));
}

#[test]
fn nothing_and_nonsense_are_reported_and_not_feared() {
    let settings = settings(by_address("{ requests_per_unit: 1, unit: minute }"));
    assert_eq!(replay(&settings, &[]).lines, 0);
    assert_eq!(replay(&settings, &[String::new(), "\n\n".into()]).lines, 0);
    let long = "x".repeat(3 << 20);
    let report = replay(&settings, &[format!("{long}\n\u{1b}[2J\n{}", line(0, 0, "192.0.2.1", "/"))]);
    assert_eq!((report.lines, report.requests, report.not_understood), (3, 1, 2));
    assert!(report.examples_not_understood.iter().all(|line| line.len() <= 200));
}

#[test]
fn a_host_name_is_as_good_as_an_address() {
    let log = line(0, 0, "in24.example.net", "/").repeat(2);
    let report = replay(&settings(by_address("{ requests_per_unit: 1, unit: minute }")), &[log]);
    assert_eq!((report.denied, &*report.keys[0].key), (1, "remote_address=in24.example.net"));
}

#[test]
fn what_a_log_says_about_its_columns_holds_for_all_of_it() {
    // Long enough for several chunks, each of which several threads would read.
    let lines = 200_000_u64;
    let mut log = "#Fields: c-ip date time cs-uri-stem sc-status\n".to_owned();
    for _ in 0..lines {
        log.push_str(
            "192.0.2.1 2026-01-02 03:04:05 /a/path/that/is/long/enough/for/two/chunks/of/a/log 200\n",
        );
    }
    let report = replay(&settings(by_address("{ requests_per_unit: 1, unit: minute }")), &[log]);
    assert_eq!((report.lines, report.requests, report.denied), (lines, lines, lines - 1));
    assert_eq!(report.formats, ["w3c"]);
}
