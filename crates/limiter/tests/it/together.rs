//! Several limits on one request: all or nothing, and its exceptions by name.

use tollgate_core::{Micros, Mode, Outcome, Shape, Verdict};

use crate::support::{START, check, limit, limiter, node, rule, with_request};

fn fixed(count: u32) -> tollgate_core::Limit {
    limit(count, Shape::FixedWindow)
}

fn remaining(reply: &tollgate_limiter::Reply) -> Vec<u64> {
    reply.decisions.iter().map(|decision| decision.remaining).collect()
}

#[test]
fn denied_by_one_means_that_none_is_charged() {
    let limiter = limiter(vec![
        node("a", vec![rule("wide", fixed(10), Mode::Enforce)]),
        node("b", vec![rule("narrow", fixed(1), Mode::Enforce)]),
    ]);
    let both = [("a", "1"), ("b", "1")];
    assert_eq!(remaining(&check(&limiter, &both)), [9, 0]);
    let denied = check(&limiter, &both);
    assert!(denied.verdict.is_deny());
    assert_eq!(denied.decisions[0].verdict, Verdict::Allow, "the wide one would have let it pass");
    assert_eq!(remaining(&denied), [9, 0]);
    assert_eq!(denied.rule(denied.binding().unwrap()).unwrap().name(), "narrow");
    assert_eq!(remaining(&check(&limiter, &both[..1])), [8], "and was not charged for the denied one");
}

#[test]
fn a_list_of_limits_is_charged_together() {
    let limits = vec![rule("burst", fixed(2), Mode::Enforce), rule("sustained", fixed(3), Mode::Enforce)];
    let limiter = limiter(vec![node("user", limits)]);
    for left in [[1, 2], [0, 1], [0, 1], [0, 1]] {
        assert_eq!(remaining(&check(&limiter, &[("user", "42")])), left);
    }
}

#[test]
fn one_key_named_twice_is_charged_twice() {
    let limiter = limiter(vec![node("user", vec![rule("", fixed(3), Mode::Enforce)])]);
    let twice = [("user", "42"), ("user", "42")];
    assert_eq!(remaining(&check(&limiter, &twice)), [2, 1]);
    let denied = check(&limiter, &twice);
    assert_eq!(denied.decisions[0].verdict, Verdict::Allow);
    assert!(denied.decisions[1].verdict.is_deny());
    assert_eq!(remaining(&check(&limiter, &twice[..1])), [0], "the denied one took nothing");
}

#[test]
fn limits_that_count_rejected_requests_count_anyway() {
    let limiter = limiter(vec![
        node("a", vec![rule("counts", fixed(10).counting_rejected(true), Mode::Enforce)]),
        node("b", vec![rule("narrow", fixed(1), Mode::Enforce)]),
    ]);
    let both = [("a", "1"), ("b", "1")];
    for left in [[9, 0], [8, 0], [7, 0]] {
        assert_eq!(remaining(&check(&limiter, &both)), left);
    }
}

#[test]
fn shadow_limits_decide_and_count_on_their_own() {
    let limiter = limiter(vec![
        node("a", vec![rule("trial", fixed(2), Mode::Shadow)]),
        node("b", vec![rule("real", fixed(1), Mode::Enforce)]),
    ]);
    let both = [("a", "1"), ("b", "1")];
    assert_eq!(remaining(&check(&limiter, &both)), [1, 0]);
    assert_eq!(remaining(&check(&limiter, &both)), [0, 0], "counted although the request was denied");
    let over = check(&limiter, &both[..1]);
    assert_eq!(over.verdict, Verdict::Allow);
    assert_eq!(over.outcome(), Outcome::ShadowDenied);
    assert_eq!(remaining(&check(&limiter, &[("b", "2")])), [0], "a shadow denial denies nobody");
}

#[test]
fn a_request_is_denied_by_quotas_only_if_all_of_them_deny() {
    let limiter = limiter(vec![
        node("a", vec![rule("first", fixed(1), Mode::Quota)]),
        node("b", vec![rule("second", fixed(2), Mode::Quota)]),
    ]);
    let both = [("a", "1"), ("b", "1")];
    assert_eq!(check(&limiter, &both).verdict, Verdict::Allow);
    assert_eq!(check(&limiter, &both).verdict, Verdict::Allow, "the second still has one");
    assert!(check(&limiter, &both).verdict.is_deny());
}

#[test]
fn with_every_rule_a_quota_a_descriptor_without_one_lets_the_request_pass() {
    let limiter = limiter(vec![node("a", vec![rule("only", fixed(1), Mode::Enforce)])]).with_all_quota(true);
    assert_eq!(check(&limiter, &[("a", "1")]).verdict, Verdict::Allow);
    assert!(check(&limiter, &[("a", "1")]).verdict.is_deny());
    assert_eq!(check(&limiter, &[("a", "1"), ("unmatched", "x")]).verdict, Verdict::Allow);
}

#[test]
fn the_longest_wait_binds() {
    let leaky = |burst| limit(3_600, Shape::LeakyBucket { burst, max_wait: None });
    let slow =
        tollgate_core::Limit::new(1, Micros::from_secs(10), Shape::LeakyBucket { burst: 5, max_wait: None })
            .unwrap();
    let limits = vec![rule("fast", leaky(100), Mode::Enforce), rule("slow", slow, Mode::Enforce)];
    let limiter = limiter(vec![node("job", limits)]);
    assert_eq!(check(&limiter, &[("job", "x")]).verdict, Verdict::Allow);
    let reply = check(&limiter, &[("job", "x")]);
    assert_eq!(reply.verdict, Verdict::Delay { wait: Micros::from_secs(10) });
    assert_eq!(reply.rule(reply.binding().unwrap()).unwrap().name(), "slow");
}

#[test]
fn the_longest_denial_binds_and_never_is_longest() {
    let limiter = limiter(vec![
        node("a", vec![rule("hour", fixed(1), Mode::Enforce)]),
        node("b", vec![rule("tiny", fixed(1), Mode::Enforce)]),
    ]);
    let reply =
        with_request(&[("a", "1"), ("b", "1")], |request| limiter.check(&request.with_cost(2)).at_once());
    assert_eq!(reply.verdict, Verdict::Deny { retry_after: None });
}

#[test]
fn report_refund_and_reset_reach_every_counter_of_a_request() {
    let limits = vec![rule("burst", fixed(5), Mode::Enforce), rule("sustained", fixed(8), Mode::Enforce)];
    let limiter = limiter(vec![node("user", limits)]);
    let user = [("user", "42")];
    with_request(&user, |request| {
        assert_eq!(
            remaining(&limiter.report(&request.with_cost(7)).at_once()),
            [0, 1],
            "into debt on the first"
        );
        assert!(limiter.check(request).at_once().verdict.is_deny());
        assert_eq!(remaining(&limiter.refund(&request.with_cost(3)).at_once()), [1, 4]);
        assert_eq!(remaining(&limiter.peek(&request.with_cost(0)).at_once()), [1, 4]);
        assert_eq!(remaining(&limiter.peek(request).at_once()), [0, 3], "a peek tells what a check would");
        assert_eq!(remaining(&limiter.peek(request).at_once()), [0, 3], "and changes nothing");
        assert_eq!(limiter.reset(request).at_once(), 2);
        assert_eq!(limiter.reset(request).at_once(), 0);
        assert_eq!(remaining(&limiter.peek(&request.with_cost(0)).at_once()), [5, 8]);
    });
}

#[test]
fn a_reply_tells_why_nothing_was_charged() {
    use tollgate_core::ruleset::Free;
    let limiter = limiter(vec![node("a", vec![rule("", fixed(1), Mode::Enforce)])]);
    let reply = check(&limiter, &[("nobody", "x"), ("a", "1")]);
    assert_eq!(reply.free.as_slice(), [Some(Free::NoRule), None]);
    assert_eq!(reply.decisions[0].descriptor, 1);
    assert_eq!(reply.now, START);
}
