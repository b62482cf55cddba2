//! Requests that are handed over together, beside the same ones by themselves.
//!
//! Some meet one limit, some several, some none; operators' overrides come and go between batches, the
//! clock steps back, and every so often the rules are replaced. Replies, events and what counters hold
//! afterwards are the same.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate_core::rule::{DescriptorSpec, Elastic, RuleSpec};
use tollgate_core::{Descriptor, Entry, Limit, Micros, Mode, Operation, Penalty, Request, Shape, Time};
use tollgate_limiter::overrides::{OverrideEffect, OverrideEntry, OverrideTable};
use tollgate_limiter::{CallerCheck, Event, EventSink, LimitEvent, Limiter, ManualClock, MemoryStore, Reply};

use crate::support::{START, limit, node, rule, rules, shapes, without_number};

#[derive(Default)]
struct EventLog(Mutex<Vec<String>>);

impl EventSink for EventLog {
    fn offer(&self, event: Event<'_>) {
        let Event { request, operation, is_request, .. } = event;
        let decision = event.decision.map(without_number);
        self.0.lock().unwrap().push(format!("{request:?} {decision:?} {operation:?} {is_request}"));
    }

    fn offer_limit(&self, event: LimitEvent<'_>) {
        self.0.lock().unwrap().push(format!("{} {:?}", event.name, event.reply));
    }
}

type Watched = Limiter<MemoryStore, ManualClock, Arc<EventLog>>;

fn descriptors(shape: Shape) -> Vec<DescriptorSpec> {
    let one = |label: &str, count, mode| rule(label, limit(count, shape), mode);
    let of = |label: &str, limit: Limit| rule(label, limit, Mode::Enforce);
    let penalty = Penalty::new(2, Micros::from_secs(1_800), Micros::from_secs(3_600)).unwrap();
    let elastic = Some(Box::new(Elastic::new(&limit(2, shape), 100, 80).unwrap()));
    vec![
        node("one", vec![one("one", 3, Mode::Enforce)]),
        node("two", vec![one("small", 2, Mode::Enforce), one("large", 4, Mode::Enforce)]),
        node("shadow", vec![one("shadow", 2, Mode::Shadow)]),
        node("penalty", vec![of("penalty", limit(2, shape).with_penalty(Some(penalty)))]),
        node("elastic", vec![RuleSpec { elastic, ..one("elastic", 2, Mode::Enforce) }]),
        node("postpaid", vec![of("postpaid", limit(3, shape).with_postpaid(true))]),
        node("counting", vec![of("counting", limit(2, shape).counting_rejected(true))]),
        node("soft", vec![of("soft", limit(2, shape).soft(50).unwrap())]),
    ]
}

const KEYS: [&str; 9] =
    ["one", "two", "shadow", "penalty", "elastic", "postpaid", "counting", "soft", "none"];

fn watched(shape: Shape) -> Watched {
    let (clock, sink) = (ManualClock::at(START), Arc::default());
    Limiter::with(rules(descriptors(shape)), MemoryStore::default(), clock, sink)
}

fn told(reply: &Reply) -> String {
    let Reply { now, verdict, decisions, free, .. } = reply;
    let names: Vec<_> =
        decisions.iter().map(|decision| reply.rule(decision).map(|rule| rule.name())).collect();
    let decisions: Vec<_> = decisions.iter().map(without_number).collect();
    format!("{now:?} {verdict:?} {decisions:?} {free:?} {:?} {names:?}", reply.outcome())
}

/// What a batch asks for: a key, a value and a cost each.
type Asked = Vec<(usize, usize, u64)>;

fn ask(limiters: [&Watched; 2], asked: &Asked, now: Time) -> [Vec<String>; 2] {
    let entries: Vec<[Entry<'_>; 1]> =
        asked.iter().map(|(key, value, _)| [Entry::from((KEYS[*key], ["a", "b"][*value]))]).collect();
    let descriptors: Vec<[Descriptor<'_>; 1]> =
        entries.iter().map(|entry| [Descriptor::new(entry)]).collect();
    let requests: Vec<Request<'_>> = descriptors
        .iter()
        .zip(asked)
        .map(|(descriptor, (_, _, cost))| Request::new("d", descriptor).with_cost(*cost))
        .collect();
    let (mut batched, mut numbers) = (Vec::new(), Vec::new());
    assert!(limiters[0].check_batch_at_once(&requests, now, |at, reply| {
        numbers.push(at);
        batched.push(told(reply));
    }));
    assert!(numbers.into_iter().eq(0..requests.len()), "every request has its reply, in order");
    let one = |request| told(&limiters[1].operate(request, Operation::Check, now).at_once());
    [batched, requests.iter().map(one).collect()]
}

fn overrides(count: u32) -> OverrideTable {
    let mut table = OverrideTable::default();
    let effect = if count == 0 { OverrideEffect::Deny } else { OverrideEffect::Limit(count) };
    let until = START + Micros::from_secs(1_000_000);
    table.insert("d", &[Entry::from(("one", "a"))], OverrideEntry { rule: None, effect, until });
    table
}

#[test]
fn requests_together_are_decided_as_one_after_the_other() {
    let asked = prop::collection::vec((0..KEYS.len(), 0..2_usize, 0..3_u64), 0..90);
    let batch = (asked, 0..18_u64, 0..6_u32);
    let batches = prop::collection::vec(batch, 1..8);
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(batches, any::<[bool; 2]>()), |(batches, [quota, shadow])| {
        for shape in shapes(3) {
            let limiters = [(); 2].map(|()| watched(shape).with_all_quota(quota).with_all_shadow(shadow));
            for (asked, minutes, change) in &batches {
                for limiter in &limiters {
                    match change {
                        0..=2 => limiter.replace_overrides(overrides(*change)),
                        3 => limiter.replace_overrides(OverrideTable::default()),
                        _ => limiter.replace_rules(rules(descriptors(shape))),
                    }
                }
                // On, or back. No state runs out within these minutes: one that did would be dropped by whoever comes by
                // it, and which keys are neighbours is up to chance.
                let now = START + Micros::from_secs(600 + minutes * 60);
                let [batched, alone] = ask([&limiters[0], &limiters[1]], asked, now);
                for (batched, alone) in batched.iter().zip(&alone) {
                    prop_assert_eq!(batched, alone, "{:?}", shape);
                }
            }
            let [batched, alone] = limiters.map(|limiter| limiter.sink().0.lock().unwrap().join("\n"));
            prop_assert_eq!(batched, alone);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn limits_of_callers_together_are_decided_as_one_after_the_other() {
    let small = Limit::per_minute(2).build().unwrap();
    let large = Limit::per_minute(5).build().unwrap();
    let shape = Shape::FixedWindow;
    for is_all_shadow in [false, true] {
        let [batched, alone] = [(); 2].map(|()| watched(shape).with_all_shadow(is_all_shadow));
        let checks: Vec<CallerCheck<'_>> = (0..150_u64)
            .map(|n| CallerCheck {
                name: ["ann", "bob", "eve"][usize::try_from(n * n % 3).unwrap()],
                limit: if n % 5 < 2 { &small } else { &large },
                cost: n % 4,
            })
            .collect();
        for now in [START, START + Micros::from_secs(31), START] {
            let mut together = Vec::new();
            assert!(batched.check_limits_at_once(&checks, now, |at, reply| {
                together.push(format!("{at} {reply:?}"));
            }));
            let one = |(at, check): (usize, &CallerCheck<'_>)| {
                let reply = alone.check_limit(check.name, check.limit, check.cost, now).at_once();
                format!("{at} {reply:?}")
            };
            assert_eq!(together, checks.iter().enumerate().map(one).collect::<Vec<_>>());
        }
        assert_eq!(*batched.sink().0.lock().unwrap(), *alone.sink().0.lock().unwrap());
    }
}
