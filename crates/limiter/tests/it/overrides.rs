//! Overrides that come and go, against a memory of every request.

use tollgate_core::list::{ExceptionLists, ListItem};
use tollgate_core::rule::{Elastic, RuleSpec};
use tollgate_core::ruleset::Free;
use tollgate_core::{
    Descriptor, Entry, Micros, Mode, Outcome, Penalty, Refill, Request, Shape, Time, Verdict,
};
use tollgate_limiter::overrides::{OverrideEffect, OverrideEntry, OverrideTable};
use tollgate_limiter::{Exception, Load, LoadSource};

use crate::support::{START, TestLimiter, check, limit, limiter, node, rule, rules, shapes, with_request};

const COUNT: u32 = 3;

fn table(effects: &[(&str, Option<&str>, OverrideEffect, Time)]) -> OverrideTable {
    let mut table = OverrideTable::default();
    for (value, rule, effect, until) in effects {
        let entry = OverrideEntry { rule: rule.map(str::to_owned), effect: *effect, until: *until };
        table.insert("d", &[Entry::from(("user", *value))], entry);
    }
    table
}

fn one_rule(shape: Shape) -> TestLimiter {
    limiter(vec![node("user", vec![rule("r", limit(COUNT, shape), Mode::Enforce)])])
}

fn ask_at(limiter: &TestLimiter, value: &str, now: Time) -> Verdict {
    let entries = [Entry::from(("user", value))];
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new("d", &descriptors);
    limiter.operate(&request, tollgate_core::Operation::Check, now).at_once().verdict
}

/// Every admitted request, and what is in force: the plainest way to know.
struct PlainOracle {
    admitted: Vec<Time>,
}

impl PlainOracle {
    fn ask(&mut self, effect: Option<OverrideEffect>, now: Time) -> bool {
        let most = match effect {
            Some(OverrideEffect::Deny) => return false,
            Some(OverrideEffect::Unlimited) => return true,
            Some(OverrideEffect::Limit(count)) => count,
            None => COUNT,
        };
        let window = Micros::from_secs(3_600);
        let recent = self.admitted.iter().filter(|then| now.since(**then) < window).count();
        let passes = recent < usize::try_from(most).unwrap();
        if passes {
            self.admitted.push(now);
        }
        passes
    }
}

#[test]
fn overrides_that_come_and_go_are_decided_as_by_the_oracle() {
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut seen = [0_usize; 2];
    for _ in 0..200 {
        let (limiter, mut oracle) = (one_rule(Shape::SlidingLog), PlainOracle { admitted: Vec::new() });
        let (mut now, mut in_force): (_, Option<(OverrideEffect, Time)>) = (START, None);
        for _ in 0..60 {
            now = now + Micros::from_secs(random(600));
            if random(4) == 0 {
                let until = now + Micros::from_secs(random(2_000));
                in_force = match random(5) {
                    0 => None,
                    1 => Some((OverrideEffect::Deny, until)),
                    2 => Some((OverrideEffect::Unlimited, until)),
                    _ => Some((OverrideEffect::Limit(u32::try_from(random(8)).unwrap()), until)),
                };
                let own = in_force.map(|(effect, until)| ("a", None, effect, until));
                limiter.replace_overrides(table(own.as_slice()));
            }
            let effect = in_force.filter(|(_, until)| now < *until).map(|(effect, _)| effect);
            let passes = oracle.ask(effect, now);
            let verdict = ask_at(&limiter, "a", now);
            assert_eq!(!verdict.is_deny(), passes, "{effect:?} at {now:?}");
            seen[usize::from(passes)] += 1;
        }
    }
    assert!(seen.iter().all(|times| *times > 1_000), "{seen:?}");
}

#[test]
fn another_number_bends_every_algorithm_and_leaves_the_counter_as_it_is() {
    for shape in shapes(COUNT) {
        let limiter = one_rule(shape);
        let admitted =
            |limiter: &TestLimiter| (0..40).take_while(|_| !ask_at(limiter, "a", START).is_deny()).count();
        assert_eq!(admitted(&limiter), 3, "{shape:?}");
        limiter.replace_overrides(table(&[("a", None, OverrideEffect::Limit(10), Time::MAX)]));
        let reply = check(&limiter, &[("user", "a")]);
        let decision = reply.binding().unwrap();
        assert!(reply.is_overridden(decision) && decision.count == 10, "{decision:?}");
        // A queue of two grows to six, and one more leaves at once.
        let size = if matches!(shape, Shape::LeakyBucket { .. }) { 7 } else { 10 };
        assert_eq!(decision.limit, size);
        // What was used is remembered in its own terms: a bucket that was empty has filled by nothing.
        let more = 1 + admitted(&limiter);
        assert!(
            matches!((shape, more), (Shape::TokenBucket { .. } | Shape::LeakyBucket { .. }, 0..=10) | (_, 7)),
            "{shape:?} {more}"
        );
        limiter.replace_overrides(OverrideTable::default());
        // One that refills all at once is full again at the same instant, so that less is missing now.
        let refills_at_once = matches!(shape, Shape::TokenBucket { refill: Refill::Interval, .. });
        assert!(refills_at_once || ask_at(&limiter, "a", START).is_deny(), "{shape:?}");
        assert_eq!(admitted_by(&limiter, "b"), 3, "nobody else is meant");
    }
}

fn admitted_by(limiter: &TestLimiter, value: &str) -> usize {
    (0..40).take_while(|_| !ask_at(limiter, value, START).is_deny()).count()
}

#[test]
fn an_override_denies_lets_pass_or_changes_one_of_several_limits() {
    let limiter = limiter(vec![
        node(
            "user",
            vec![
                rule("short", limit(1, Shape::SlidingLog), Mode::Enforce),
                rule("long", limit(3, Shape::FixedWindow), Mode::Enforce),
            ],
        ),
        node("other", vec![rule("other", limit(5, Shape::SlidingLog), Mode::Enforce)]),
    ]);
    limiter.replace_overrides(table(&[
        ("named", Some("short"), OverrideEffect::Unlimited, Time::MAX),
        ("raised", Some("short"), OverrideEffect::Limit(2), Time::MAX),
        ("free", None, OverrideEffect::Unlimited, Time::MAX),
        ("bad", None, OverrideEffect::Deny, Time::MAX),
        ("over", None, OverrideEffect::Deny, START),
    ]));
    assert_eq!(admitted_by(&limiter, "named"), 3);
    assert_eq!(admitted_by(&limiter, "raised"), 2);
    assert_eq!(admitted_by(&limiter, "free"), 40);
    assert_eq!(admitted_by(&limiter, "over"), 1, "it has ended");
    assert_eq!(check(&limiter, &[("user", "free")]).free[0], Some(Free::Overridden));
    let denied = check(&limiter, &[("other", "x"), ("user", "bad")]);
    assert_eq!(
        (denied.verdict, denied.exception()),
        (Verdict::Deny { retry_after: None }, Some(Exception::Override))
    );
    let after = check(&limiter, &[("other", "x")]);
    assert_eq!(after.binding().unwrap().remaining, 4, "what is denied counts nowhere");
}

#[test]
fn a_block_is_not_ended_by_a_number_and_not_met_by_who_is_unlimited() {
    let penalty = Penalty::new(1, Micros::from_secs(60), Micros::from_secs(600)).unwrap();
    let punishing = limit(1, Shape::SlidingLog).with_penalty(Some(penalty));
    let limiter = limiter(vec![node("user", vec![rule("r", punishing, Mode::Enforce)])]);
    assert!(!ask_at(&limiter, "a", START).is_deny());
    assert!(ask_at(&limiter, "a", START).is_deny(), "which is a strike, and one is enough");
    limiter.replace_overrides(table(&[("a", None, OverrideEffect::Limit(10), Time::MAX)]));
    let blocked = check(&limiter, &[("user", "a")]);
    let decision = blocked.binding().unwrap();
    assert!(decision.is_blocked && blocked.is_overridden(decision) && decision.count == 10, "{decision:?}");
    limiter.replace_overrides(table(&[("a", None, OverrideEffect::Unlimited, Time::MAX)]));
    assert_eq!(admitted_by(&limiter, "a"), 40);
    limiter.replace_overrides(OverrideTable::default());
    assert!(check(&limiter, &[("user", "a")]).binding().unwrap().is_blocked, "it has waited meanwhile");
}

#[test]
fn an_operators_number_is_no_elastic_one_and_a_soft_one_stays_soft() {
    let own = limit(4, Shape::SlidingLog);
    let elastic = Some(Box::new(Elastic::new(&own, 100, 70).unwrap()));
    let soft = own.soft(50).unwrap();
    let limiter = limiter(vec![
        node("user", vec![RuleSpec { elastic, ..rule("elastic", own, Mode::Enforce) }]),
        node("soft", vec![rule("soft", soft, Mode::Enforce)]),
    ]);
    let host = LoadSource { name: "host", domain: None };
    limiter.load().report(host, Load::percent(10), Micros::from_secs(3_600), START).unwrap();
    assert_eq!(admitted_by(&limiter, "b"), 8, "the load is low");
    limiter.replace_overrides(table(&[("a", None, OverrideEffect::Limit(6), Time::MAX)]));
    assert_eq!(admitted_by(&limiter, "a"), 6, "six are six");
    let mut table = OverrideTable::default();
    let entry = OverrideEntry { rule: None, effect: OverrideEffect::Limit(6), until: Time::MAX };
    table.insert("d", &[Entry::from(("soft", "a"))], entry);
    limiter.replace_overrides(table);
    let marks: Vec<bool> = (0..10)
        .map(|_| check(&limiter, &[("soft", "a")]))
        .take_while(|reply| !reply.verdict.is_deny())
        .map(|reply| reply.decisions[0].soft)
        .collect();
    assert_eq!(marks, [false, false, false, false, false, false, true, true, true]);
}

#[test]
fn shadow_quota_and_postpaid_limits_are_bent_as_others_are() {
    let one = || limit(1, Shape::SlidingLog);
    let limiter = limiter(vec![
        node("user", vec![rule("shadow", one(), Mode::Shadow)]),
        node("project", vec![rule("project", one(), Mode::Quota)]),
        node("team", vec![rule("team", one(), Mode::Quota)]),
        node("later", vec![rule("later", one().with_postpaid(true), Mode::Enforce)]),
    ]);
    let put = |overrides: &[(&str, OverrideEffect)]| {
        let mut table = OverrideTable::default();
        for (key, effect) in overrides {
            let entry = OverrideEntry { rule: None, effect: *effect, until: Time::MAX };
            table.insert("d", &[Entry::from((*key, "a"))], entry);
        }
        limiter.replace_overrides(table);
    };
    put(&[("user", OverrideEffect::Limit(2)), ("later", OverrideEffect::Limit(2))]);
    let outcomes: Vec<Outcome> = (0..3).map(|_| check(&limiter, &[("user", "a")]).outcome()).collect();
    assert_eq!(outcomes, [Outcome::Allowed, Outcome::Allowed, Outcome::ShadowDenied]);
    put(&[("user", OverrideEffect::Deny)]);
    assert!(check(&limiter, &[("user", "a")]).verdict.is_deny(), "an operator means it, shadow or not");
    // A quota that is not met is one that passes.
    put(&[("project", OverrideEffect::Unlimited)]);
    let both = || check(&limiter, &[("project", "a"), ("team", "a")]).verdict.is_deny();
    assert_eq!([both(), both(), both()], [false; 3]);
    put(&[]);
    assert_eq!([both(), both()], [false, true], "only the team had counted");
    put(&[("later", OverrideEffect::Limit(2))]);
    let settle =
        |cost| with_request(&[("later", "a")], |request| limiter.check(&request.with_cost(cost)).at_once());
    assert_eq!([settle(1), settle(0)].map(|reply| reply.verdict.is_deny()), [false, false]);
    assert_eq!([settle(5), settle(0)].map(|reply| reply.verdict.is_deny()), [false, true]);
}

#[test]
fn other_rules_keep_an_override_and_one_that_they_cannot_take_waits() {
    let limiter = one_rule(Shape::FixedWindow);
    limiter.replace_overrides(table(&[("a", Some("r"), OverrideEffect::Limit(20_000), Time::MAX)]));
    assert_eq!(check(&limiter, &[("user", "a")]).binding().unwrap().limit, 20_000);
    let other = |name: &str, shape| {
        limiter.replace_rules(rules(vec![node("user", vec![rule(name, limit(7, shape), Mode::Enforce)])]));
        check(&limiter, &[("user", "a")]).binding().unwrap().limit
    };
    assert_eq!(other("r", Shape::SlidingCounter), 20_000);
    assert_eq!(other("r", Shape::SlidingLog), 7, "a log of so many is none");
    assert_eq!(other("another", Shape::FixedWindow), 7);
    assert_eq!(other("r", Shape::FixedWindow), 20_000);
}

#[test]
fn a_deny_list_is_not_lifted_and_an_allow_list_not_narrowed_but_by_deny() {
    let item = |text: &str| ListItem { key: None, value: text.parse().unwrap() };
    let lists = ExceptionLists::shared(vec![item("staff"), item("spy")], vec![item("evil")]);
    let limited = RuleSpec { lists, ..rule("r", limit(COUNT, Shape::SlidingLog), Mode::Enforce) };
    let limiter = limiter(vec![node("user", vec![limited])]);
    limiter.replace_overrides(table(&[
        ("evil", None, OverrideEffect::Unlimited, Time::MAX),
        ("staff", None, OverrideEffect::Limit(1), Time::MAX),
        ("spy", None, OverrideEffect::Deny, Time::MAX),
    ]));
    let exception = |value: &str| check(&limiter, &[("user", value)]).exception();
    assert_eq!(exception("evil"), Some(Exception::DenyList));
    assert_eq!(exception("spy"), Some(Exception::Override));
    assert_eq!(admitted_by(&limiter, "staff"), 40);
}
