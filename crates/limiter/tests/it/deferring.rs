//! Which denials may be put off, and how such a request is counted.

use tollgate_core::rule::RuleSpec;
use tollgate_core::{Micros, Mode, Outcome, OverLimit, Shape, Verdict};
use tollgate_limiter::Reply;

use crate::support::{TestLimiter, check, limit, limiter, node, rule, shapes, with_request};

fn deferring(label: &str, count: u32, mode: Mode) -> RuleSpec {
    let shape = Shape::SlidingLog;
    RuleSpec { over_limit: OverLimit::Defer, ..rule(label, limit(count, shape), mode) }
}

fn hard(label: &str, count: u32) -> RuleSpec {
    rule(label, limit(count, Shape::SlidingLog), Mode::Enforce)
}

fn peek(limiter: &TestLimiter, entries: &[(&str, &str)]) -> Reply {
    with_request(entries, |request| limiter.peek(request).at_once())
}

#[test]
fn only_what_limits_that_defer_deny_alone_is_put_off() {
    let limiter = limiter(vec![
        node("later", vec![deferring("a", 1, Mode::Enforce)]),
        node("both", vec![deferring("b", 2, Mode::Enforce), hard("c", 3)]),
        node("same", vec![deferring("d", 1, Mode::Enforce), hard("e", 1)]),
        node("shadow", vec![deferring("f", 1, Mode::Shadow)]),
        node(
            "quota",
            vec![deferring("g", 1, Mode::Quota), rule("h", limit(1, Shape::SlidingLog), Mode::Quota)],
        ),
    ]);
    let deferrable = |entries: &[(&str, &str)]| check(&limiter, entries).is_deferrable();
    for key in ["later", "both", "same", "shadow", "quota"] {
        assert!(!deferrable(&[(key, "x")]), "{key} passes");
    }
    assert!(deferrable(&[("later", "x")]));
    assert!(!deferrable(&[("both", "x")]), "it passes");
    assert!(deferrable(&[("both", "x")]), "the other limit has room");
    assert!(!deferrable(&[("same", "x")]), "the other limit denies, too");
    assert!(!deferrable(&[("later", "x"), ("same", "x")]), "another descriptor's limit denies");
    assert!(!deferrable(&[("shadow", "x")]), "in the shadow nothing is denied");
    assert!(!deferrable(&[("quota", "x")]), "a quota that denies does not defer");
    let never = with_request(&[("later", "y")], |request| limiter.check(&request.with_cost(2)).at_once());
    assert!(never.verdict == (Verdict::Deny { retry_after: None }) && !never.is_deferrable());
}

#[test]
fn every_algorithm_can_defer() {
    for shape in shapes(3) {
        let own = RuleSpec { over_limit: OverLimit::Defer, ..rule("r", limit(3, shape), Mode::Enforce) };
        let limiter = limiter(vec![node("k", vec![own])]);
        let denied = (0..9).map(|_| check(&limiter, &[("k", "x")])).find(|reply| reply.verdict.is_deny());
        let mut denied = denied.unwrap();
        assert!(denied.is_deferrable(), "{shape:?}");
        assert_eq!(denied.outcome(), Outcome::Denied);
        denied.put_off();
        assert_eq!(denied.outcome(), Outcome::Delayed, "{shape:?}");
        assert_eq!(denied.outcome_of(denied.deferring().unwrap()), Outcome::Delayed);
    }
}

#[test]
fn who_lines_up_is_denied_by_the_first_limit_that_defers_though_there_is_room() {
    let limiter = limiter(vec![node("k", vec![hard("hard", 9), deferring("soft", 9, Mode::Enforce)])]);
    let mut reply = peek(&limiter, &[("k", "x")]);
    assert!(!reply.verdict.is_deny());
    reply.line_up(Micros::SECOND);
    assert!(reply.is_deferrable());
    assert_eq!(reply.verdict, Verdict::Deny { retry_after: Some(Micros::SECOND) });
    assert_eq!(reply.rule(reply.binding().unwrap()).unwrap().name(), "soft");
    assert_eq!(check(&limiter, &[("k", "x")]).binding().unwrap().remaining, 8, "nothing was taken");
    let mut free = peek(&limiter, &[("other", "x")]);
    free.line_up(Micros::SECOND);
    assert!(!free.verdict.is_deny(), "no limit of it defers");
}
