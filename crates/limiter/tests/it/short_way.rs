//! The short way of requests that meet one limit gives the replies of the long way.
//!
//! One limiter has the rule alone; the other has a rule beside it that replaces a label nobody has, so
//! that nothing in its domain is plain. Random operations at random times are asked of both.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate_core::rule::RuleSpec;
use tollgate_core::{Limit, Micros, Mode, Operation, Time};
use tollgate_limiter::Reply;

use crate::support::{START, TestLimiter, limit, limiter, node, rule, shapes, with_request, without_number};

/// The short way, and the long way.
fn both(limit: Limit, is_all_shadow: bool) -> [TestLimiter; 2] {
    let plain = || node("user", vec![rule("one", limit, Mode::Enforce)]);
    let replaces = RuleSpec { replaces: vec!["nobody".into()], ..rule("two", limit, Mode::Enforce) };
    [vec![plain()], vec![plain(), node("other", vec![replaces])]]
        .map(|descriptors| limiter(descriptors).with_all_shadow(is_all_shadow))
}

/// All that a reply tells.
fn told(reply: &Reply) -> String {
    let Reply { now, verdict, decisions, free, .. } = reply;
    let (outcome, binding) = (reply.outcome(), reply.binding_index());
    let denying: Vec<bool> = decisions.iter().map(|decision| reply.is_denied_by(decision)).collect();
    let outcomes: Vec<_> = decisions.iter().map(|decision| reply.outcome_of(decision)).collect();
    let decisions: Vec<_> = decisions.iter().map(without_number).collect();
    format!("{now:?} {verdict:?} {decisions:?} {free:?} {outcome:?} {binding:?} {denying:?} {outcomes:?}")
}

fn ask(limiter: &TestLimiter, user: &str, operation: Operation, cost: u64, now: Time) -> Reply {
    with_request(&[("user", user)], |request| {
        limiter.operate(&request.with_cost(cost), operation, now).at_once()
    })
}

#[test]
fn the_short_way_and_the_long_way_tell_the_same() {
    let operations = [Operation::Check, Operation::Peek, Operation::Report, Operation::Refund];
    let step = (0..3_usize, 0..operations.len(), prop_oneof![5 => 0..3_u64, 1 => Just(9)], 0..2_000_u64);
    let steps = prop::collection::vec(step, 1..60);
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(steps, any::<[bool; 4]>()), |(steps, [soft, counts, postpaid, shadow])| {
        for shape in shapes(5) {
            let limit = if soft { limit(5, shape).soft(40).unwrap() } else { limit(5, shape) };
            let [short, long] = both(limit.counting_rejected(counts).with_postpaid(postpaid), shadow);
            let mut now = START;
            for &(user, operation, cost, pause_s) in &steps {
                now = now + Micros::from_secs(pause_s);
                let user = ["a", "b", "c"][user];
                let replies = [&short, &long].map(|way| ask(way, user, operations[operation], cost, now));
                prop_assert_eq!(told(&replies[0]), told(&replies[1]), "{:?}", shape);
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
