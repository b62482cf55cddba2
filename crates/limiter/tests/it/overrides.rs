//! Overrides that come and go, against a memory of every request.

use tollgate_core::ruleset::Free;
use tollgate_core::{Descriptor, Entry, Micros, Mode, Refill, Request, Shape, Time, Verdict};
use tollgate_limiter::Exception;
use tollgate_limiter::overrides::{OverrideEffect, OverrideEntry, OverrideTable};

use crate::support::{START, TestLimiter, check, limit, limiter, node, rule, shapes};

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
        assert!(decision.overridden && decision.limit == 10 && decision.count == 10, "{decision:?}");
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
