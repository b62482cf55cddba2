//! Replay crossed with what rules and mappings can say besides: soft, postpaid, count_rejected, shadow,
//! several limits, charges by the answer, lists, elastic limits; and with what is asked for besides.

use tollgate_core::RuleSet;
use tollgate_http::{
    Action, AddressPrefixes, ChargeTerms, Fact, Mapping, MappingDescriptor, ResponseCost, StatusPattern,
    StatusSet,
};
use tollgate_replay::{AlgorithmRow, ReplaySettings, Share, Spread};

use crate::{by_address, line, replay, rules, settings};

fn at_start(rules: std::sync::Arc<RuleSet>) -> ReplaySettings {
    ReplaySettings { spread: Spread::None, explain: Some("192.0.2.1".into()), ..settings(rules) }
}

#[test]
fn a_soft_limit_lets_its_part_through_and_the_story_says_so() {
    let soft =
        "{ algorithm: sliding_log, requests_per_unit: 4, unit: minute, throttle: { soft: { exceed: 50% } } }";
    let report = replay(&at_start(by_address(soft)), &[line(0, 0, "192.0.2.1", "/").repeat(8)]);
    assert_eq!((report.denied, report.rules[0].denied), (2, 2), "four, two more, and two denied");
    let [story] = &*report.explain.unwrap() else { panic!("one") };
    assert_eq!((story.requests, story.soft, story.denied), (8, 2, 2));
}

#[test]
fn a_denied_request_counts_where_the_rule_says_so() {
    // At 0, 10, 30 and 61 s: counted, the denied one of 30 s keeps out that of 61 s.
    let log = [(0, 0), (0, 10), (0, 30), (1, 1)]
        .map(|(minute, second)| line(minute, second, "192.0.2.1", "/"))
        .concat();
    for (counted, denied) in [(true, 2), (false, 1)] {
        let limit = format!(
            "{{ algorithm: sliding_log, requests_per_unit: 2, unit: minute, count_rejected: {counted} }}"
        );
        assert_eq!(replay(&at_start(by_address(&limit)), std::slice::from_ref(&log)).denied, denied);
    }
}

#[test]
fn a_postpaid_limit_records_every_request_and_denies_none_that_costs() {
    let limit = "{ algorithm: token_bucket, requests_per_unit: 2, unit: minute, postpaid: true }";
    let report = replay(&at_start(by_address(limit)), &[line(0, 0, "192.0.2.1", "/").repeat(5)]);
    assert_eq!((report.denied, report.rules[0].requests), (0, 5));
}

#[test]
fn of_several_limits_one_denies_for_all_and_shadow_denies_for_none() {
    let both = rules(
        "domain: web\ndescriptors:\n  - key: remote_address\n    rate_limits:\n      - { name: burst, requests_per_unit: 2, unit: second, algorithm: sliding_log }\n      - { name: all, requests_per_unit: 3, unit: hour, algorithm: sliding_log }\n",
    );
    // Two pass in each of two seconds, but three in the hour; what burst denies is not charged to all.
    let log = line(0, 0, "192.0.2.1", "/").repeat(3) + &line(0, 5, "192.0.2.1", "/").repeat(3);
    let all = ReplaySettings { algorithms: true, ..at_start(both) };
    let report = replay(&all, &[log]);
    assert_eq!(report.denied, 3);
    let by = |name: &str| report.rules.iter().find(|row| row.rule == name).map(|row| row.denied);
    assert_eq!((by("burst"), by("all")), (Some(1), Some(2)));
    let log_row = |row: &&AlgorithmRow| row.algorithm == "sliding_log";
    assert_eq!(report.algorithms.unwrap().iter().find(log_row).unwrap().denied, 3, "as the rules themselves");
    assert_eq!(report.explain.unwrap().len(), 2, "a story under each rule");
    let shadow = rules(
        "domain: web\ndescriptors:\n  - key: remote_address\n    shadow_mode: true\n    rate_limit: { requests_per_unit: 1, unit: minute }\n",
    );
    let log = line(0, 0, "192.0.2.1", "/").repeat(3);
    let report = replay(&ReplaySettings { algorithms: true, ..at_start(shadow) }, &[log]);
    assert_eq!((report.denied, report.rules[0].denied), (0, 2));
    assert!(report.algorithms.unwrap().iter().all(|row| row.denied == 0 && row.delayed == 0));
    assert_eq!(report.explain.unwrap()[0].denied, 2, "a story tells what the rule would have done");
}

#[test]
fn what_an_algorithm_cannot_keep_is_said() {
    let report = replay(
        &ReplaySettings {
            algorithms: true,
            ..at_start(by_address("{ requests_per_unit: 20000, unit: minute }"))
        },
        &[line(0, 0, "192.0.2.1", "/")],
    );
    for row in report.algorithms.unwrap() {
        assert_eq!(row.not_possible.is_some(), row.algorithm == "sliding_log", "{row:?}");
    }
}

#[test]
fn a_charge_by_the_answer_counts_only_such_answers() {
    // Only failed logins are charged: of the statuses 200, 401, 401, 200, 401, 200 those with 401.
    let address = Action::new("remote_address", Fact::RemoteAddress(AddressPrefixes::default()));
    let status = StatusSet::new(vec![StatusPattern::parse("401").unwrap()]).unwrap();
    let terms = ChargeTerms::OnResponse { status: Some(status), cost: ResponseCost::One };
    let mapping = Mapping::new("web", vec![MappingDescriptor::new(vec![address], terms)]).unwrap();
    let limit = "{ algorithm: sliding_log, requests_per_unit: 2, unit: minute }";
    let log: String = (0_u32..)
        .zip(["200", "401", "401", "200", "401", "200"])
        .map(|(second, status)| {
            line(0, second, "192.0.2.1", "/login").replace(" 200 ", &format!(" {status} "))
        })
        .collect();
    let report = replay(&ReplaySettings { mapping, ..at_start(by_address(limit)) }, &[log]);
    assert_eq!(report.requests, 6);
    // Two failures fill it: what comes after them is denied, whatever its answer.
    assert_eq!(report.denied, 3);
}

#[test]
fn suggested_limits_are_counted_by_hand() {
    // One address sends six in a minute, another two, a third one.
    let log = line(0, 0, "192.0.2.1", "/").repeat(6)
        + &line(0, 1, "192.0.2.2", "/").repeat(2)
        + &line(0, 2, "192.0.2.3", "/");
    for limit in [
        "{ requests_per_unit: 4, unit: minute }",
        "{ algorithm: token_bucket, requests_per_unit: 4, unit: minute }",
        "{ algorithm: sliding_counter, requests_per_unit: 4, unit: minute }",
    ] {
        let share: Share = "12%".parse().unwrap();
        let settings = ReplaySettings { suggest: Some(share), ..at_start(by_address(limit)) };
        let report = replay(&settings, std::slice::from_ref(&log));
        let [found] = &*report.suggest.unwrap() else { panic!("one rule") };
        assert_eq!((found.requests, found.keys), (9, 3));
        let peak = found.peak;
        assert_eq!((peak.p50, peak.p90, peak.p99, peak.max), (2, 6, 6, 6));
        let rows: Vec<_> = found.limits.iter().map(|row| (row.limit, row.keys, row.requests)).collect();
        assert_eq!(rows, [(1, 2, 6), (2, 1, 4), (3, 1, 3), (4, 1, 2), (5, 1, 1), (7, 0, 0)], "{limit}");
        assert_eq!(found.smallest, Some(5), "one of nine is 11.1%");
        assert!(found.limits.iter().all(|row| row.is_own == (row.limit == 4)));
    }
}

#[test]
fn a_penalty_blocks_in_a_replay_and_by_every_algorithm() {
    // One a minute: the second request is denied, which blocks for ten minutes, so that the third is
    // denied, too, though its minute is free. Tried alone, limits have no penalty.
    let limit = "{ algorithm: sliding_log, requests_per_unit: 1, unit: minute, penalty: { after: 1, within: 1m, block: 10m } }";
    let log = line(0, 0, "192.0.2.1", "/") + &line(0, 1, "192.0.2.1", "/") + &line(2, 0, "192.0.2.1", "/");
    let share: Share = "1%".parse().unwrap();
    let settings = ReplaySettings { algorithms: true, suggest: Some(share), ..at_start(by_address(limit)) };
    let report = replay(&settings, &[log]);
    assert_eq!((report.denied, report.rules[0].requests, report.rules[0].denied), (2, 3, 2));
    let [log_row] = report
        .algorithms
        .iter()
        .flatten()
        .filter(|row| row.algorithm == "sliding_log")
        .collect::<Vec<_>>()[..]
    else {
        panic!("one")
    };
    assert_eq!((log_row.denied, log_row.keys_denied), (2, 1));
    let [found] = &*report.suggest.unwrap() else { panic!("one rule") };
    assert_eq!((found.requests, found.limits[0].limit, found.limits[0].requests), (3, 1, 1));
}

#[test]
fn lists_deny_and_let_pass_in_a_replay_by_every_algorithm() {
    // Three requests each: one of a list that denies, one of a list that lets pass, one of neither.
    let limit = "{ requests_per_unit: 1, unit: minute, deny: [192.0.2.1], allow: [192.0.2.2] }";
    let log = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|from| line(0, 0, from, "/").repeat(3)).concat();
    let share: Share = "1%".parse().unwrap();
    let settings = ReplaySettings { algorithms: true, suggest: Some(share), ..at_start(by_address(limit)) };
    let report = replay(&settings, std::slice::from_ref(&log));
    let [rule] = &*report.rules else { panic!("one rule") };
    assert_eq!((report.denied, rule.requests, rule.denied, rule.keys_denied), (5, 6, 5, 2));
    for row in report.algorithms.unwrap().iter().filter(|row| row.algorithm != "leaky_bucket") {
        assert_eq!((row.denied, row.keys_denied), (5, 2), "{row:?}");
    }
    let [found] = &*report.suggest.unwrap() else { panic!("one rule") };
    assert_eq!((found.requests, found.keys, found.peak.max), (3, 1, 3), "the limit met one address");
    let [story] = &*report.explain.unwrap() else { panic!("one") };
    assert_eq!((story.requests, story.denied, story.longest_wait_ms), (3, 3, 0), "waiting does not help");
    let plain = ReplaySettings { algorithms: false, suggest: None, explain: None, ..settings };
    assert_eq!(replay(&plain, &[log]).denied, 5);
}

#[test]
fn a_list_of_the_domain_sees_descriptors_that_no_rule_has() {
    // The rules are about addresses alone, and the list is about paths.
    let rules = rules(
        "domain: web\ndeny:\n  - { key: path, value: /wp-login.php }\nallow:\n  - { key: path, value: /health }\ndescriptors:\n  - key: remote_address\n    rate_limit: { requests_per_unit: 1, unit: minute }\n",
    );
    let log = ["/wp-login.php", "/health", "/", "/"].map(|path| line(0, 0, "192.0.2.1", path)).concat();
    let report = replay(&settings(rules), &[log]);
    // The first by the list and the last by the limit; the second is let pass and not counted.
    assert_eq!((report.requests, report.denied, report.rules[0].requests), (4, 2, 2));
    let denied = |route: &str| report.routes.iter().find(|row| row.route == route).map(|row| row.denied);
    assert_eq!([denied("/wp-login.php"), denied("/health"), denied("/")], [Some(1), Some(0), Some(1)]);
}

#[test]
fn an_elastic_limit_is_decided_as_under_full_load() {
    let elastic = "{ algorithm: sliding_log, requests_per_unit: 2, unit: minute, throttle: { elastic: { exceed: 100%, below_load: 80% } } }";
    let log = line(0, 0, "192.0.2.1", "/").repeat(5);
    let share: Share = "1%".parse().unwrap();
    let settings = ReplaySettings { algorithms: true, suggest: Some(share), ..at_start(by_address(elastic)) };
    let report = replay(&settings, &[log]);
    assert_eq!((report.denied, report.rules[0].denied), (3, 3), "a log does not know how busy it was");
    let rows = report.algorithms.unwrap();
    assert!(rows.iter().all(|row| row.denied == 3 || row.algorithm == "leaky_bucket"), "{rows:?}");
}

/// Requests that meet one limit are decided in a shorter way, unless more is asked for than the report.
#[test]
fn the_short_way_to_decide_gives_what_the_long_way_gives() {
    let mut log = String::new();
    for step in 0..600_u32 {
        // Five addresses, the first of which asks most, with bursts in one second.
        let address = format!("192.0.2.{}", 1 + (step * step) % 7 % 5);
        log += &line(step / 60, (step / 3) % 60, &address, if step % 4 == 0 { "/a?x" } else { "/b" });
    }
    for algorithm in tollgate_core::Algorithm::ALL.map(tollgate_core::Algorithm::name) {
        for (level, more) in [
            ("", ""),
            ("", ", count_rejected: true"),
            ("", ", postpaid: true"),
            ("", ", throttle: { soft: { exceed: 50% } }"),
            ("", ", allow: [192.0.2.1]"),
            ("", ", penalty: { after: 3, within: 1m, block: 2m }"),
            ("    shadow_mode: true\n", ""),
            ("    quota_mode: true\n", ""),
        ] {
            let text = format!(
                "domain: web\ndescriptors:\n  - key: remote_address\n{level}    rate_limit: {{ algorithm: {algorithm}, requests_per_unit: 6, unit: minute{more} }}\n"
            );
            let Ok(rules) = crate::try_rules(&text) else { continue };
            let short = settings(rules);
            let long = ReplaySettings { explain: Some("nobody".into()), ..short.clone() };
            let mut by_long = replay(&long, std::slice::from_ref(&log));
            assert_eq!(by_long.explain.take(), Some(Vec::new()));
            let by_short = replay(&short, std::slice::from_ref(&log));
            assert_eq!(by_short, by_long, "{text}");
            let touched = by_short.rules[0].denied + by_short.rules[0].delayed;
            assert!(touched > 0 || more.contains("postpaid"), "{text}");
        }
    }
}

/// Lines that are alike are mapped once; each of these differs in one field that the mapping reads.
#[test]
fn what_the_mapping_reads_tells_lines_apart() {
    let address = || Action::new("remote_address", Fact::RemoteAddress(AddressPrefixes::default()));
    let agent = Action::new("agent", Fact::header("user-agent").unwrap());
    let query = Action::new("id", Fact::Query("id".to_owned()));
    let method = Action::new("method", Fact::Method);
    let mapping =
        Mapping::new("web", vec![vec![address(), agent], vec![address(), query], vec![method]]).unwrap();
    let rules = rules(
        "domain: web\ndescriptors:\n  - key: remote_address\n    descriptors:\n      - key: agent\n        rate_limit: { requests_per_unit: 1, unit: minute }\n      - key: id\n        rate_limit: { requests_per_unit: 1, unit: minute }\n  - key: method\n    rate_limit: { requests_per_unit: 100, unit: minute }\n",
    );
    let combined = |method: &str, target: &str, agent: &str| {
        format!(
            "192.0.2.1 - - [02/Jan/2026:03:00:00 +0000] \"{method} {target} HTTP/1.1\" 200 1 \"-\" \"{agent}\"\n"
        )
    };
    let log = [
        combined("GET", "/?id=1", "a"),
        combined("GET", "/?id=2", "b"),
        combined("POST", "/?id=3", "c"),
        combined("GET", "/?id=1", "d"),
        combined("GET", "/?id=4", "a"),
    ];
    let report = replay(&ReplaySettings { mapping, ..settings(rules) }, &[log.concat()]);
    assert_eq!(report.denied, 2, "the fourth by its id, the fifth by its agent");
    let mut keys: Vec<&str> = report.keys.iter().map(|row| &*row.key).collect();
    keys.sort_unstable();
    let agents = ["a", "b", "c", "d"].map(|agent| format!("remote_address=192.0.2.1,agent={agent}"));
    let ids = ["1", "2", "3", "4"].map(|id| format!("remote_address=192.0.2.1,id={id}"));
    let methods = ["method=GET", "method=POST"].map(str::to_owned);
    let mut expected: Vec<String> = [&methods[..], &agents, &ids].concat();
    expected.sort_unstable();
    assert_eq!(keys, expected);
}
