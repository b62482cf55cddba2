//! Checks that were prepared, beside the same ones that were not.
//!
//! One limiter is asked by a prepared check, another one with the same rules by `check`. Random values at random
//! times, while rules and overrides come and go and the clock steps back, are told the same by both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate_core::list::{ExceptionLists, ListItem};
use tollgate_core::rule::{DescriptorSpec, Elastic, RuleSpec};
use tollgate_core::{Entry, Limit, Micros, Mode, Operation, Penalty, Shape, Time};
use tollgate_limiter::overrides::{OverrideEffect, OverrideEntry, OverrideTable};
use tollgate_limiter::{Event, EventSink, Limiter, ManualClock, MemoryStore, PreparedCheck, PreparedReply};

use crate::support::{START, TestLimiter, check, limit, limiter, node, rule, rules, shapes};

const RULE_KINDS: usize = 14;
const USERS: [&str; 4] = ["ann", "bob", "x.eve", ""];

/// Rules on `user` of every kind that a check can meet; which of them are in force is a number.
fn rule_kinds(limit: Limit) -> Vec<Vec<DescriptorSpec>> {
    let plain = || rule("plain", limit, Mode::Enforce);
    let penalty = Penalty::new(2, Micros::from_secs(1_800), Micros::from_secs(3_600)).unwrap();
    let deny = vec![ListItem { key: None, value: "bob".parse().unwrap() }];
    let lists = ExceptionLists::shared(Vec::new(), deny);
    let elastic = Elastic::new(&limit, 40, 80).ok().map(Box::new);
    let of_value = |value: &str| DescriptorSpec { value: Some(value.into()), ..node("user", vec![plain()]) };
    let other =
        |count| rule("other", Limit::new(count, limit.window(), limit.shape()).unwrap(), Mode::Enforce);
    let replaces = RuleSpec { replaces: vec!["plain".into()], ..other(2) };
    vec![
        vec![node("user", vec![plain()])],
        vec![node("user", vec![plain()]), node("path", vec![other(1)])],
        vec![node("user", vec![plain(), other(3)])],
        vec![node("user", vec![rule("shadow", limit, Mode::Shadow)])],
        vec![node("user", vec![rule("quota", limit, Mode::Quota)])],
        vec![node("user", vec![rule("penalty", limit.with_penalty(Some(penalty)), Mode::Enforce)])],
        vec![node("user", vec![RuleSpec { lists, ..plain() }])],
        vec![node("user", vec![RuleSpec { elastic, ..plain() }])],
        vec![of_value("ann"), node("user", vec![other(1)])],
        vec![of_value("x.*"), node("user", vec![other(1)])],
        vec![node("us*", vec![other(1)]), node("user", vec![plain()])],
        vec![node("user", vec![plain()]), node("path", vec![replaces])],
        vec![node("path", vec![plain()])],
        vec![],
    ]
}

/// What `check` tells, in the words of a prepared one.
fn unprepared(limiter: &TestLimiter, user: &str) -> PreparedReply {
    let reply = check(limiter, &[("user", user)]);
    let decision = reply.binding().map(|binding| tollgate_core::Decision {
        verdict: binding.verdict,
        limit: binding.limit,
        used: binding.used,
        remaining: binding.remaining,
        reset_after: binding.reset_after,
        soft: binding.soft,
        blocked_for: Micros::ZERO,
    });
    PreparedReply { verdict: reply.verdict, decision, rule: reply.binding().and_then(|binding| binding.rule) }
}

/// How long a request stays denied by a decision is told by the verdict.
fn without_block(mut reply: PreparedReply) -> PreparedReply {
    if let Some(decision) = &mut reply.decision {
        decision.blocked_for = Micros::ZERO;
    }
    reply
}

fn override_table(effect: OverrideEffect, until: Time) -> OverrideTable {
    let mut table = OverrideTable::default();
    table.insert("d", &[Entry::from(("user", "ann"))], OverrideEntry { rule: None, effect, until });
    table
}

#[derive(Debug, Clone)]
enum Step {
    Check {
        user: usize,
    },
    /// Some of them more than once, and more than are fetched ahead together.
    Batch {
        users: Vec<usize>,
    },
    Clock {
        ms: u64,
    },
    Rules {
        kind: usize,
    },
    Override {
        effect: Option<OverrideEffect>,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let effects = [OverrideEffect::Deny, OverrideEffect::Unlimited, OverrideEffect::Limit(1)];
    let step = prop_oneof![
        12 => (0..USERS.len()).prop_map(|user| Step::Check { user }),
        2 => prop::collection::vec(0..USERS.len(), 0..80).prop_map(|users| Step::Batch { users }),
        3 => (0..1_080_000_u64).prop_map(|ms| Step::Clock { ms }),
        1 => (0..RULE_KINDS).prop_map(|kind| Step::Rules { kind }),
        1 => prop::option::of(prop::sample::select(effects.to_vec())).prop_map(|effect| Step::Override { effect }),
    ];
    prop::collection::vec(step, 1..60)
}

fn play(
    limit: Limit,
    first: usize,
    [is_all_shadow, is_all_quota, goes_back]: [bool; 3],
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let kinds = || rule_kinds(limit);
    let [prepared, plain] = [(); 2].map(|()| {
        let descriptors = kinds().swap_remove(first);
        limiter(descriptors).with_all_shadow(is_all_shadow).with_all_quota(is_all_quota)
    });
    let both = [&prepared, &plain];
    let mut users = prepared.prepare("d", ["user"]);
    let mut now = START;
    for step in steps {
        match step {
            Step::Check { user } => {
                let (one, other) = (users.check([USERS[*user]]), unprepared(&plain, USERS[*user]));
                prop_assert_eq!(without_block(one), other, "{}", USERS[*user]);
            }
            Step::Batch { users: batch } => {
                let together = users.check_batch(batch.iter().map(|user| [USERS[*user]]));
                let together: Vec<_> = together.into_iter().map(without_block).collect();
                let alone: Vec<_> = batch.iter().map(|user| unprepared(&plain, USERS[*user])).collect();
                prop_assert_eq!(together, alone, "{:?}", batch);
            }
            // On and on; or on and back, within minutes in which no state runs out: one that did would be dropped by
            // whoever comes by it, and which keys are neighbours is up to chance.
            Step::Clock { ms } if goes_back => {
                now = START + Micros::from_secs(600) + Micros::from_millis(*ms);
            }
            Step::Clock { ms } => now = now + Micros::from_millis(4 * *ms),
            Step::Rules { kind } => {
                both.iter().for_each(|limiter| limiter.replace_rules(rules(kinds().swap_remove(*kind))));
            }
            Step::Override { effect } => {
                let until = now + Micros::from_secs(1_800);
                both.iter().for_each(|limiter| {
                    let table =
                        effect.map_or_else(OverrideTable::default, |effect| override_table(effect, until));
                    limiter.replace_overrides(table);
                });
            }
        }
        both.iter().for_each(|limiter| limiter.clock().set(now));
    }
    Ok(())
}

type TestCaseError = proptest::test_runner::TestCaseError;

#[test]
fn a_prepared_check_tells_what_a_check_does() {
    let mut runner = TestRunner::new(Config { cases: 120, failure_persistence: None, ..Config::default() });
    assert_eq!(rule_kinds(limit(5, Shape::FixedWindow)).len(), RULE_KINDS);
    let cases = (steps(), 0..RULE_KINDS, any::<[bool; 2]>(), any::<[bool; 3]>());
    let outcome = runner.run(&cases, |(steps, first, [counts, postpaid], how)| {
        for shape in shapes(5) {
            let limit = limit(5, shape).counting_rejected(counts).with_postpaid(postpaid);
            play(limit, first, how, &steps)?;
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn prepared_or_not_a_key_has_one_counter() {
    for shape in shapes(3) {
        let limiter = limiter(vec![node("user", vec![rule("r", limit(3, shape), Mode::Enforce)])]);
        let mut users = limiter.prepare("d", ["user"]);
        assert!(!users.check(["ann"]).verdict.is_deny());
        assert!(!check(&limiter, &[("user", "ann")]).verdict.is_deny());
        assert_eq!(users.clone().check(["ann"]).decision.unwrap().remaining, 0, "{shape:?}");
        assert!(check(&limiter, &[("user", "ann")]).verdict.is_deny(), "{shape:?}");
        assert!(users.check(["ann"]).verdict.is_deny(), "{shape:?}");
        assert!(!users.check(["bob"]).verdict.is_deny(), "{shape:?}");
    }
}

/// Rules that were replaced between two batches are in force at the second one, and counters go on.
#[test]
fn a_batch_goes_by_the_rules_of_its_beginning() {
    let with = |count| vec![node("user", vec![rule("r", limit(count, Shape::FixedWindow), Mode::Enforce)])];
    let limiter = limiter(with(1));
    let mut users = limiter.prepare("d", ["user"]);
    let denied = |replies: &[PreparedReply]| -> Vec<bool> {
        replies.iter().map(|reply| reply.verdict.is_deny()).collect()
    };
    assert_eq!(denied(&users.check_batch([["ann"], ["ann"]])), [false, true]);
    limiter.replace_rules(rules(with(3)));
    assert_eq!(denied(&users.check_batch([["ann"], ["ann"], ["ann"], ["ann"]])), [false, false, true, true]);
    assert!(users.check_batch([]).is_empty());
}

/// The values of two entries are told apart wherever one ends and the other begins.
#[test]
fn entries_below_each_other_are_prepared_too() {
    let shape = shapes(1)[4];
    let below = node("user", vec![rule("r", limit(1, shape), Mode::Enforce)]);
    let org = DescriptorSpec { key: "org".into(), descriptors: vec![below], ..Default::default() };
    let limiter = limiter(vec![org]);
    let mut users: PreparedCheck<'_, 2, _, _, _> = limiter.prepare("d", ["org", "user"]);
    let values = [["ab", "c"], ["a", "bc"], ["abc", ""], ["", "abc"]];
    assert!(values.iter().all(|values| !users.check(*values).verdict.is_deny()));
    assert!(values.iter().all(|values| users.check(*values).verdict.is_deny()));
}

#[test]
fn whoever_keeps_count_is_told_of_prepared_checks() {
    #[derive(Default)]
    struct Count(AtomicU64);
    impl EventSink for Count {
        fn offer(&self, event: Event<'_>) {
            assert_eq!((event.operation, event.rule_name()), (Operation::Check, "r"));
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let sink = Arc::new(Count::default());
    let descriptors = vec![node("user", vec![rule("r", limit(3, shapes(3)[4]), Mode::Enforce)])];
    let clock = ManualClock::at(START);
    let limiter = Limiter::with(rules(descriptors), MemoryStore::default(), clock, Arc::clone(&sink));
    let mut users = limiter.prepare("d", ["user"]);
    for _ in 0..5 {
        users.check(["ann"]);
    }
    assert_eq!(sink.0.load(Ordering::Relaxed), 5);
    users.check_batch([["ann"], ["bob"], ["ann"]]);
    assert_eq!(sink.0.load(Ordering::Relaxed), 8);
}
