//! Allow and deny lists: decided before anything is charged, whatever the store.

use std::sync::Arc;

use tollgate_core::list::{ExceptionLists, ListItem};
use tollgate_core::rule::{DomainSpec, RuleSpec};
use tollgate_core::ruleset::Free;
use tollgate_core::{
    Descriptor, Entry, Limit, Micros, Mode, Operation, Outcome, Penalty, Request, RuleSet, Shape, Verdict,
};
use tollgate_limiter::{Exception, Limiter, ManualClock, MemoryStore, NoSink, Reply};

use crate::support::{START, TestLimiter, check, limit, node, rule, shapes};

const NEVER: Verdict = Verdict::Deny { retry_after: None };

fn items(texts: &[&str]) -> Vec<ListItem> {
    texts.iter().map(|text| ListItem { key: None, value: text.parse().unwrap() }).collect()
}

fn lists(allow: &[&str], deny: &[&str]) -> Option<Arc<ExceptionLists>> {
    ExceptionLists::shared(items(allow), items(deny))
}

fn listed(label: &str, limit: Limit, mode: Mode) -> RuleSpec {
    RuleSpec { lists: lists(&["staff"], &["evil"]), ..rule(label, limit, mode) }
}

fn limiter_of(rules: RuleSet) -> TestLimiter {
    Limiter::with(rules, MemoryStore::default(), Arc::new(ManualClock::at(START)), NoSink)
}

fn of_rules(rules: Vec<(&str, Vec<RuleSpec>)>) -> TestLimiter {
    let descriptors = rules.into_iter().map(|(key, rules)| node(key, rules)).collect();
    limiter_of(
        RuleSet::new(vec![DomainSpec { name: "d".into(), descriptors, ..Default::default() }]).unwrap(),
    )
}

/// What is left of a key, without asking any list.
fn remaining(limiter: &TestLimiter, entry: (&str, &str)) -> u64 {
    let entries = [Entry::from(entry)];
    let descriptors = [Descriptor::new(&entries).with_cost(0)];
    limiter.report(&Request::new("d", &descriptors)).at_once().decisions[0].remaining
}

fn assert_denied_by_list(reply: &Reply) {
    assert_eq!((reply.verdict, reply.outcome()), (NEVER, Outcome::Denied));
    assert_eq!(reply.exception(), Some(Exception::DenyList));
    assert!(reply.binding().is_some_and(|decision| decision.exception.is_some()));
}

#[test]
fn who_is_on_a_list_counts_on_no_limit_of_any_algorithm() {
    for shape in shapes(3) {
        for count_rejected in [false, true] {
            let limit = limit(3, shape).counting_rejected(count_rejected);
            let limiter = of_rules(vec![
                ("a", vec![listed("a", limit, Mode::Enforce)]),
                ("b", vec![rule("b", limit, Mode::Enforce)]),
                ("c", vec![rule("c", limit, Mode::Shadow)]),
            ]);
            for _ in 0..9 {
                assert_denied_by_list(&check(&limiter, &[("b", "x"), ("a", "evil"), ("c", "x")]));
                let staff = check(&limiter, &[("a", "staff")]);
                assert_eq!((staff.verdict, staff.free[0]), (Verdict::Allow, Some(Free::Allowed)));
                assert!(staff.decisions.is_empty());
            }
            for entry in [("a", "evil"), ("a", "bob"), ("b", "x"), ("c", "x")] {
                assert_eq!(remaining(&limiter, entry), 3, "{shape:?} {entry:?}");
            }
        }
    }
}

#[test]
fn deny_wins_over_allow_on_a_rule_and_between_rule_and_domain() {
    let spec = RuleSpec {
        lists: lists(&["10.0.0.0/8"], &["10.66.0.0/16"]),
        ..rule("r", limit(1, Shape::SlidingLog), Mode::Enforce)
    };
    let domain = DomainSpec {
        name: "d".into(),
        lists: lists(&["192.0.2.0/24", "boss"], &["192.0.2.66", "10.1.1.1"]),
        descriptors: vec![node("ip", vec![spec])],
    };
    let limiter = limiter_of(RuleSet::new(vec![domain]).unwrap());
    let verdicts = |ip: &'static str| {
        [check(&limiter, &[("ip", ip)]).verdict.word(), check(&limiter, &[("ip", ip)]).verdict.word()]
    };
    assert_eq!(verdicts("10.0.0.1"), ["allow", "allow"], "the rule's allow list");
    assert_eq!(verdicts("10.66.0.1"), ["deny", "deny"], "on both lists of the rule");
    assert_eq!(verdicts("192.0.2.1"), ["allow", "allow"], "the domain's allow list");
    assert_eq!(verdicts("192.0.2.66"), ["deny", "deny"], "on both lists of the domain");
    assert_eq!(verdicts("10.1.1.1"), ["deny", "deny"], "allowed by the rule, denied by the domain");
    assert_eq!(verdicts("203.0.113.1"), ["allow", "deny"], "on no list");
    // What one descriptor says of a domain holds for the whole request, whatever rules there are.
    assert_eq!(check(&limiter, &[("ip", "10.66.0.1"), ("who", "boss")]).verdict, Verdict::Allow);
    assert_denied_by_list(&check(&limiter, &[("who", "boss"), ("who", "192.0.2.66")]));
}

#[test]
fn a_list_of_a_shadow_rule_denies_nobody_and_is_counted_as_shadow() {
    let limiter = of_rules(vec![
        ("a", vec![listed("a", limit(1, Shape::SlidingLog), Mode::Shadow)]),
        ("b", vec![rule("b", limit(2, Shape::SlidingLog), Mode::Enforce)]),
    ]);
    let reply = check(&limiter, &[("a", "evil"), ("b", "x")]);
    assert_eq!((reply.verdict, reply.outcome()), (Verdict::Allow, Outcome::ShadowDenied));
    assert_eq!(reply.exception(), None);
    assert_eq!(reply.binding().unwrap().remaining, 1, "the other limit is asked as ever");
    assert_eq!(remaining(&limiter, ("a", "evil")), 1);
}

#[test]
fn a_list_of_a_quota_denies_only_if_every_quota_does() {
    let quota = |label| rule(label, limit(1, Shape::SlidingLog), Mode::Quota);
    let limiter = of_rules(vec![
        ("a", vec![listed("a", limit(1, Shape::SlidingLog), Mode::Quota)]),
        ("b", vec![quota("b")]),
    ]);
    assert_denied_by_list(&check(&limiter, &[("a", "evil")]));
    let both = || check(&limiter, &[("a", "evil"), ("b", "x")]);
    assert_eq!(both().verdict, Verdict::Allow, "the other quota lets it pass");
    let denied = both();
    assert!(denied.verdict.is_deny() && denied.verdict != NEVER, "until the other one is used up");
}

#[test]
fn a_server_that_enforces_nothing_lets_lists_deny_nobody() {
    let rules = RuleSet::new(vec![DomainSpec {
        name: "d".into(),
        lists: lists(&[], &["evil"]),
        ..Default::default()
    }]);
    let limiter = limiter_of(rules.unwrap()).with_all_shadow(true);
    let reply = check(&limiter, &[("a", "evil")]);
    assert_eq!((reply.verdict, reply.outcome()), (Verdict::Allow, Outcome::ShadowDenied));
    assert_eq!(reply.exception(), None);
}

#[test]
fn what_has_happened_is_charged_whatever_a_deny_list_says() {
    let limiter = of_rules(vec![("a", vec![listed("a", limit(5, Shape::SlidingLog), Mode::Enforce)])]);
    let entries = [Entry::from(("a", "evil"))];
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new("d", &descriptors);
    assert_eq!(limiter.report(&request).at_once().binding().unwrap().remaining, 4);
    assert_eq!(limiter.refund(&request).at_once().binding().unwrap().remaining, 5);
    assert_denied_by_list(&limiter.peek(&request).at_once());
    // A request that settles one thing and asks for another settles, and is denied.
    let two = [Descriptor::new(&entries).with_operation(Operation::Report), Descriptor::new(&entries)];
    assert_denied_by_list(&limiter.check(&Request::new("d", &two)).at_once());
    assert_eq!(remaining(&limiter, ("a", "evil")), 4);
    let forgotten = limiter.reset(&request).at_once();
    assert_eq!((forgotten, remaining(&limiter, ("a", "evil"))), (1, 5));
}

#[test]
fn one_of_several_limits_may_let_somebody_pass() {
    let limiter = of_rules(vec![(
        "a",
        vec![
            listed("short", limit(1, Shape::SlidingLog), Mode::Enforce),
            rule("long", limit(3, Shape::FixedWindow), Mode::Enforce),
        ],
    )]);
    let verdicts: Vec<&str> = (0..4).map(|_| check(&limiter, &[("a", "staff")]).verdict.word()).collect();
    assert_eq!(verdicts, ["allow", "allow", "allow", "deny"]);
    assert_denied_by_list(&check(&limiter, &[("a", "evil")]));
}

#[test]
fn a_denial_by_a_list_is_no_strike() {
    let penalty = Penalty::new(2, Micros::from_secs(60), Micros::from_secs(600)).unwrap();
    let limit = limit(1, Shape::SlidingLog).with_penalty(Some(penalty));
    let limiter = of_rules(vec![
        ("a", vec![rule("a", limit, Mode::Enforce)]),
        ("b", vec![listed("b", limit, Mode::Enforce)]),
    ]);
    assert_eq!(check(&limiter, &[("a", "x")]).verdict, Verdict::Allow);
    for _ in 0..9 {
        assert_denied_by_list(&check(&limiter, &[("a", "x"), ("b", "evil")]));
    }
    let denied = check(&limiter, &[("a", "x")]);
    assert!(denied.verdict.is_deny() && !denied.decisions[0].is_blocked);
    check(&limiter, &[("a", "x")]);
    assert!(check(&limiter, &[("a", "x")]).decisions[0].is_blocked, "two denials by the limit are");
}
