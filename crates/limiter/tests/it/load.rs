//! Elastic limits: the gauge beside an oracle that replays everything it was
//! told, and decisions that follow it.
#![expect(clippy::float_arithmetic, reason = "a load is a measurement")]

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate_core::rule::{Elastic, RuleSpec};
use tollgate_core::{Limit, Micros, Mode, Outcome, Penalty, Time, Verdict};
use tollgate_limiter::{Load, LoadGauge, LoadSource};

use crate::support::{START, TestLimiter, check, limit, limiter, node, rule, shapes};

const SECOND: Micros = Micros::SECOND;
const HOST: LoadSource<'_> = LoadSource { name: "host", domain: None };

fn elastic(limit: Limit, percent: u32, below_load_percent: u32) -> RuleSpec {
    let elastic = Elastic::new(&limit, percent, below_load_percent).unwrap();
    RuleSpec { elastic: Some(Box::new(elastic)), ..rule("elastic", limit, Mode::Enforce) }
}

fn report(limiter: &TestLimiter, percent: u32) {
    let now = tollgate_limiter::Clock::now(limiter.clock());
    limiter.load().report(HOST, Load::percent(percent), SECOND.times(1_000), now).unwrap();
}

fn admitted(limiter: &TestLimiter, tries: u32) -> (u32, u32) {
    let replies = (0..tries).map(|_| check(limiter, &[("a", "x")]));
    replies.fold((0, 0), |(passed, soft), reply| {
        (passed + u32::from(!reply.verdict.is_deny()), soft + u32::from(reply.decisions[0].soft))
    })
}

/// Everything that a gauge was told, and asked.
#[derive(Debug, Clone, Copy)]
enum GaugeEvent {
    /// Source, domain or all, load in percent, interval in seconds.
    Report(usize, usize, u32, u64),
    /// Domain, mark in percent.
    Ask(usize, u32),
}

const DOMAINS: [&str; 2] = ["a", "b"];
const SOURCES: [&str; 2] = ["host", "push"];
/// The time from one look of the oracle to the next.
const TICK: Micros = Micros::from_millis(100);

/// The load of a domain at `now`, from all reports before it: written as the
/// sentences of `spec/load.md`, with nothing kept from one question to the next.
fn oracle_load(past: &[(Time, GaugeEvent)], domain: usize, now: Time) -> f64 {
    let mut most: Option<f64> = None;
    for (source, scope) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
        if scope != 2 && scope != domain {
            continue;
        }
        // (reported, counted as, at, interval)
        let mut last: Option<(f64, f64, Time, u64)> = None;
        let value = |(reported, peak, at, interval): (f64, f64, Time, u64), now: Time| {
            let age = f64::from(u32::try_from(now.since(at).get() / 1_000).unwrap()) / 1_000.0;
            let silent = age >= f64::from(u32::try_from(interval * 3).unwrap());
            if silent { 1.0 } else { reported + (peak - reported) * 0.5_f64.powf(age / 10.0) }
        };
        for (at, event) in past.iter().filter(|(at, _)| *at <= now) {
            if let GaugeEvent::Report(who, about, percent, interval) = *event
                && (who, about) == (source, scope)
            {
                let load = f64::from(percent) / 100.0;
                let peak = last.map_or(load, |last| value(last, *at).max(load));
                last = Some((load, peak, *at, interval));
            }
        }
        if let Some(last) = last {
            most = Some(most.unwrap_or(0.0).max(value(last, now)));
        }
    }
    most.unwrap_or(1.0)
}

/// Whether a limit may be exceeded at `now`: the whole past again, in small steps
/// and at every report, from the first question about this mark on.
fn oracle_may_exceed(past: &[(Time, GaugeEvent)], domain: usize, mark: u32, now: Time) -> bool {
    let is_ask = |(_, event): &(Time, GaugeEvent)| matches!(event, GaugeEvent::Ask(of, at) if (*of, *at) == (domain, mark));
    // What was reported before that question, perhaps at the same instant, granted nothing.
    let first = past.iter().position(is_ask).unwrap_or(past.len());
    let start = past.get(first).map_or(now, |(at, _)| *at);
    let mut instants: Vec<(Time, usize)> = Vec::new();
    let mut at = start;
    while at <= now {
        let until = past.iter().take_while(|(when, _)| *when <= at).count();
        instants.push((at, until));
        at = at + TICK;
    }
    for (index, (when, _)) in past.iter().enumerate().skip(first).filter(|(_, (when, _))| *when <= now) {
        instants.push((*when, index));
        instants.push((*when, index + 1));
    }
    instants.push((now, past.len()));
    instants.sort();
    let mut granted = false;
    for (at, until) in instants {
        let load = oracle_load(&past[..until], domain, at);
        let mark = f64::from(mark) / 100.0;
        granted = if granted { load < mark - 1e-9 } else { load <= mark - 0.1 + 1e-9 };
    }
    granted
}

#[test]
fn the_gauge_grants_as_the_oracle_after_any_reports() {
    let event = prop_oneof![
        3 => (0..2_usize, 0..3_usize, 0..=100_u32, 1..8_u64)
            .prop_map(|(source, scope, load, interval)| GaugeEvent::Report(source, scope, load, interval)),
        2 => (0..2_usize, prop_oneof![Just(50_u32), Just(73), Just(100)])
            .prop_map(|(domain, mark)| GaugeEvent::Ask(domain, mark)),
    ];
    let events = prop::collection::vec((0..80_u64, event), 1..40);
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&events, |events| {
        let gauge = LoadGauge::default();
        let (mut now, mut past) = (START, Vec::new());
        for (pause, event) in events {
            now = now + TICK.times(pause);
            past.push((now, event));
            match event {
                GaugeEvent::Report(source, scope, percent, interval) => {
                    let source = LoadSource { name: SOURCES[source], domain: DOMAINS.get(scope).copied() };
                    gauge.report(source, Load::percent(percent), SECOND.times(interval), now).unwrap();
                }
                GaugeEvent::Ask(domain, mark) => {
                    let (expected, got) = (oracle_load(&past, domain, now), gauge.load(DOMAINS[domain], now));
                    prop_assert!((expected - got.get()).abs() < 1e-9, "{past:?}: {expected} {got:?}");
                    let rule = Elastic::new(&limit(1, tollgate_core::Shape::SlidingLog), 100, mark).unwrap();
                    let granted = gauge.may_exceed(DOMAINS[domain], &rule, now);
                    prop_assert_eq!(granted, oracle_may_exceed(&past, domain, mark, now), "{:?}", past);
                }
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn every_algorithm_lets_more_through_while_the_load_is_low_and_marks_it() {
    for shape in shapes(4) {
        let limiter = limiter(vec![node("a", vec![elastic(limit(4, shape), 100, 70)])]);
        assert_eq!(admitted(&limiter, 3), (3, 0), "{shape:?}: no load is known, so there is no allowance");
        report(&limiter, 40);
        let (passed, soft) = admitted(&limiter, 20);
        assert_eq!((passed, soft), (5, 4), "{shape:?}: the rest of the limit and 100% more");
        report(&limiter, 71);
        assert_eq!(admitted(&limiter, 20), (0, 0), "{shape:?}: it goes at once");
    }
}

#[test]
fn what_was_withdrawn_comes_back_ten_points_below_the_mark() {
    let shape = tollgate_core::Shape::TokenBucket { burst: 1, refill: tollgate_core::Refill::Smooth };
    let small = Limit::new(1, SECOND, shape).unwrap();
    let limiter = limiter(vec![node("a", vec![elastic(small, 100, 70)])]);
    let in_force = || check(&limiter, &[("a", "y")]).decisions[0].exceed_percent == 100;
    report(&limiter, 65);
    assert!(!in_force(), "never granted yet, and above 60");
    report(&limiter, 60);
    limiter.clock().advance(SECOND.times(60));
    report(&limiter, 50);
    limiter.clock().advance(SECOND.times(60));
    assert!(in_force());
    report(&limiter, 69);
    assert!(in_force(), "below the mark it stays");
    report(&limiter, 70);
    assert!(!in_force());
    // From 70 towards 50: 60 is reached after one half-life.
    report(&limiter, 50);
    limiter.clock().advance(SECOND.times(9));
    assert!(!in_force());
    limiter.clock().advance(SECOND.times(1));
    assert!(in_force());
}

#[test]
fn the_allowance_is_counted_and_told_as_soft_is() {
    let limiter =
        limiter(vec![node("a", vec![elastic(limit(1, tollgate_core::Shape::SlidingLog), 100, 70)])]);
    report(&limiter, 10);
    assert_eq!(check(&limiter, &[("a", "x")]).outcome(), Outcome::Allowed);
    let exceeding = check(&limiter, &[("a", "x")]);
    assert_eq!((exceeding.outcome(), exceeding.is_soft()), (Outcome::Soft, true));
    assert_eq!(
        (exceeding.decisions[0].limit, exceeding.decisions[0].remaining),
        (1, 0),
        "the limit is what it was"
    );
    assert_eq!(check(&limiter, &[("a", "x")]).outcome(), Outcome::Denied);
}

#[test]
fn a_domain_of_its_own_can_be_full_while_others_are_not() {
    let limiter =
        limiter(vec![node("a", vec![elastic(limit(1, tollgate_core::Shape::SlidingLog), 100, 70)])]);
    report(&limiter, 10);
    let push = |domain| LoadSource { name: "push", domain: Some(domain) };
    let now = START;
    limiter.load().report(push("other"), Load::FULL, SECOND, now).unwrap();
    assert_eq!(limiter.load().load("d", now), Load::percent(10));
    limiter.load().report(push("d"), Load::FULL, SECOND, now).unwrap();
    assert_eq!(admitted(&limiter, 9), (1, 0));
    assert!(limiter.load().forget(push("d"), now));
    assert_eq!(admitted(&limiter, 9), (1, 1));
}

#[test]
fn a_penalty_is_for_what_the_allowance_does_not_let_through() {
    let penalty = Penalty::new(1, SECOND, SECOND.times(60)).unwrap();
    let limit = limit(1, tollgate_core::Shape::SlidingLog).with_penalty(Some(penalty));
    let limiter = limiter(vec![node("a", vec![elastic(limit, 100, 70)])]);
    report(&limiter, 10);
    assert_eq!(admitted(&limiter, 2), (2, 1));
    let blocked = check(&limiter, &[("a", "x")]);
    assert!(blocked.verdict.is_deny() && blocked.decisions[0].is_blocked);
    assert_eq!(
        blocked.verdict,
        Verdict::Deny { retry_after: Some(SECOND.times(3_600)) },
        "the limit is used up for longer"
    );
}

/// An upstream with room for 100 requests a second, whose users may send 40 a
/// second and send what they like. Load is what passed of its room in the last
/// second. However many users come, it is never asked for more than its room and
/// one second's mistake, and while few come they get more than their limit.
#[test]
fn spare_capacity_is_used_up_to_the_mark() {
    let each = Limit::new(40, SECOND, tollgate_core::Shape::FixedWindow).unwrap();
    let limiter = limiter(vec![node("user", vec![elastic(each, 100, 80)])]);
    let second = |users: u32, each: u32| {
        let passed = (0..users).map(|user| {
            let name = user.to_string();
            (0..each).filter(|_| !check(&limiter, &[("user", &name)]).verdict.is_deny()).count()
        });
        let passed: usize = passed.sum();
        let now = tollgate_limiter::Clock::now(limiter.clock());
        let load = Load::clamped(f64::from(u32::try_from(passed).unwrap()) / 100.0);
        limiter.load().report(HOST, load, SECOND, now).unwrap();
        limiter.clock().advance(SECOND);
        passed
    };
    assert_eq!(second(1, 70), 40, "nothing is known yet");
    let alone: Vec<usize> = (0..30).map(|_| second(1, 70)).collect();
    assert_eq!(
        alone.iter().filter(|passed| **passed == 70).count(),
        30,
        "one user uses what is free: {alone:?}"
    );
    let crowd: Vec<usize> = (0..30).map(|_| second(2, 70)).collect();
    assert_eq!(crowd[0], 140, "the second in which the crowd comes");
    assert!(crowd[1..].iter().all(|passed| *passed == 80), "then each has its limit and no more: {crowd:?}");
    let again: Vec<usize> = (0..60).map(|_| second(1, 70)).collect();
    assert_eq!((again[0], again[59]), (40, 70), "and when the crowd has gone it is granted again: {again:?}");
}
