//! Costs that become known afterwards: a check of cost 0, then a charge of what
//! it came to. This is how gateways in front of language models count tokens.

use tollgate_core::{
    Descriptor, Entry, Limit, Micros, Mode, Operation, Outcome, Refill, Request, Shape, Time, Verdict,
};
use tollgate_limiter::Reply;

use crate::support::{START, TestLimiter, limit, limiter, node, rule, rules, shapes, with_request};

const HOUR: Micros = Micros::from_secs(3_600);

fn postpaid(limit: Limit, mode: Mode) -> TestLimiter {
    limiter(vec![node("u", vec![rule("tokens", limit.with_postpaid(true), mode)])])
}

fn ask(limiter: &TestLimiter, cost: u64, operation: Operation, now: Time) -> Reply {
    with_request(&[("u", "x")], |request| limiter.operate(&request.with_cost(cost), operation, now).at_once())
}

fn check(limiter: &TestLimiter, cost: u64, now: Time) -> Reply {
    ask(limiter, cost, Operation::Check, now)
}

#[test]
fn a_thousand_tokens_an_hour_let_two_calls_of_700_through_and_then_wait() {
    let shape = Shape::TokenBucket { burst: 1_000, refill: Refill::Smooth };
    let limiter = postpaid(limit(1_000, shape), Mode::Enforce);
    for left in [300, 0] {
        assert_eq!(check(&limiter, 0, START).verdict, Verdict::Allow);
        let charged = check(&limiter, 700, START);
        assert_eq!((charged.verdict, charged.decisions[0].remaining), (Verdict::Allow, left));
    }
    let denied = check(&limiter, 0, START);
    // 400 of debt and the one that is asked for, at 1,000 an hour.
    let retry_after = Micros::new(HOUR.get() * 401 / 1_000);
    assert_eq!(denied.verdict, Verdict::Deny { retry_after: Some(retry_after) });
    assert_eq!((denied.decisions[0].used, denied.decisions[0].remaining), (1_400, 0));
}

#[test]
fn every_algorithm_records_into_debt_and_tells_when_something_is_left() {
    for shape in shapes(5) {
        for counts in [false, true] {
            let limit = limit(5, shape).counting_rejected(counts);
            let played = || {
                let limiter = postpaid(limit, Mode::Enforce);
                for cost in [4, 4] {
                    assert!(!check(&limiter, 0, START).verdict.is_deny(), "{shape:?}");
                    assert_eq!(check(&limiter, cost, START).verdict, Verdict::Allow, "{shape:?}");
                }
                limiter
            };
            let limiter = played();
            let denied = check(&limiter, 0, START);
            assert_eq!(denied.decisions[0].used, 8, "{shape:?}: all of it is recorded");
            let Verdict::Deny { retry_after: Some(retry_after) } = denied.verdict else {
                panic!("{shape:?}: {:?}", denied.verdict)
            };
            assert_eq!(
                check(&limiter, 0, START).verdict,
                denied.verdict,
                "a check of cost 0 changes nothing"
            );
            let before = START + Micros::new(retry_after.get() - 1);
            assert!(check(&limiter, 0, before).verdict.is_deny(), "{shape:?} counts {counts}");
            assert!(!check(&limiter, 0, START + retry_after).verdict.is_deny(), "{shape:?} counts {counts}");
            assert!(!ask(&played(), 0, Operation::Peek, START + retry_after).verdict.is_deny());
            let refunded = played();
            ask(&refunded, 4, Operation::Refund, START);
            assert!(!check(&refunded, 0, START).verdict.is_deny(), "{shape:?}: what is given back is there");
        }
    }
}

#[test]
fn a_charge_stands_although_another_limit_denies_the_request() {
    let shape = Shape::TokenBucket { burst: 10, refill: Refill::Smooth };
    let tokens = rule("tokens", limit(10, shape).with_postpaid(true), Mode::Enforce);
    let calls = rule("calls", limit(1, Shape::FixedWindow), Mode::Enforce);
    let limiter = limiter(vec![node("u", vec![tokens, calls])]);
    assert_eq!(check(&limiter, 1, START).verdict, Verdict::Allow);
    let denied = check(&limiter, 1, START);
    assert!(denied.verdict.is_deny());
    assert_eq!(denied.decisions[0].used, 2, "recorded");
    assert_eq!(denied.decisions[1].used, 1, "not counted");
}

#[test]
fn nothing_left_keeps_the_other_limits_from_being_charged() {
    let shape = Shape::TokenBucket { burst: 10, refill: Refill::Smooth };
    let tokens = rule("tokens", limit(10, shape).with_postpaid(true), Mode::Enforce);
    let calls = rule("calls", limit(5, Shape::FixedWindow), Mode::Enforce);
    let limiter = limiter(vec![node("u", vec![tokens]), node("c", vec![calls])]);
    with_request(&[("u", "x")], |request| {
        drop(limiter.operate(&request.with_cost(10), Operation::Check, START).at_once());
    });
    let entries = [Entry::from(("u", "x"))];
    let call = [Entry::from(("c", "x"))];
    let descriptors = [Descriptor { cost: Some(0), ..Descriptor::new(&entries) }, Descriptor::new(&call)];
    let request = Request::new("d", &descriptors);
    let denied = limiter.operate(&request, Operation::Check, START).at_once();
    assert!(denied.verdict.is_deny());
    assert_eq!(denied.decisions[1].used, 0, "the call is not counted");
}

#[test]
fn in_shadow_mode_it_denies_nothing_and_is_counted() {
    let limiter = postpaid(limit(1, Shape::FixedWindow), Mode::Shadow);
    drop(check(&limiter, 3, START));
    let reply = check(&limiter, 0, START);
    assert_eq!((reply.verdict, reply.outcome()), (Verdict::Allow, Outcome::ShadowDenied));
    assert!(reply.binding().is_none());
}

#[test]
fn a_soft_limit_marks_what_begins_on_its_allowance_and_then_denies() {
    for shape in [Shape::FixedWindow, Shape::SlidingLog, Shape::SlidingCounter] {
        let limiter = postpaid(limit(10, shape).soft(50).unwrap(), Mode::Enforce);
        assert!(!check(&limiter, 0, START).decisions[0].soft, "{shape:?}");
        drop(check(&limiter, 12, START));
        let soft = check(&limiter, 0, START);
        assert_eq!((soft.verdict, soft.decisions[0].soft), (Verdict::Allow, true), "{shape:?}");
        assert_eq!(soft.outcome(), Outcome::Soft);
        drop(check(&limiter, 3, START));
        assert!(check(&limiter, 0, START).verdict.is_deny(), "{shape:?}: the allowance is used up");
    }
}

#[test]
fn debt_stays_when_rules_are_reloaded() {
    let of = |count: u32, is_postpaid: bool| {
        let own = limit(count, Shape::SlidingLog).with_postpaid(is_postpaid);
        rules(vec![node("u", vec![rule("tokens", own, Mode::Enforce)])])
    };
    let limiter = postpaid(limit(10, Shape::SlidingLog), Mode::Enforce);
    drop(check(&limiter, 14, START));
    assert!(check(&limiter, 0, START).verdict.is_deny());
    limiter.replace_rules(of(20, true));
    let raised = check(&limiter, 0, START);
    assert_eq!((raised.verdict, raised.decisions[0].remaining), (Verdict::Allow, 6));
    limiter.replace_rules(of(10, true));
    assert!(check(&limiter, 0, START).verdict.is_deny(), "lowered again");
    limiter.replace_rules(of(10, false));
    assert!(check(&limiter, 1, START).verdict.is_deny(), "what was charged is still there");
    limiter.replace_rules(of(10, true));
    assert_eq!(check(&limiter, 0, START).decisions[0].used, 14, "and what was denied is not");
}

#[test]
fn a_clock_that_steps_back_lets_nothing_begin_in_debt() {
    // Both are in one window, on whose edge START is.
    let (earlier, now) = (START + Micros::from_secs(60), START + Micros::from_secs(120));
    for shape in shapes(5) {
        let limiter = postpaid(limit(5, shape), Mode::Enforce);
        drop(check(&limiter, 8, now));
        assert!(check(&limiter, 0, now).verdict.is_deny(), "{shape:?}");
        assert!(check(&limiter, 0, earlier).verdict.is_deny(), "{shape:?}");
        assert_eq!(check(&limiter, 1, earlier).verdict, Verdict::Allow, "{shape:?}: it is recorded");
        let Verdict::Deny { retry_after: Some(retry_after) } = check(&limiter, 0, earlier).verdict else {
            panic!("{shape:?} is in debt")
        };
        let before = earlier + Micros::new(retry_after.get() - 1);
        assert!(check(&limiter, 0, before).verdict.is_deny(), "{shape:?}");
        assert!(!check(&limiter, 0, earlier + retry_after).verdict.is_deny(), "{shape:?}");
    }
}
