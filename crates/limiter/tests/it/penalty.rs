//! Who is denied too often is blocked: with every algorithm, in every mode, and
//! beside other limits.

use tollgate_core::{
    Descriptor, Entry, Limit, Micros, Mode, Operation, Outcome, Penalty, PenaltyStep, Request, Shape, Time,
    Verdict,
};
use tollgate_limiter::{Capacity, ChargeSet, MemoryStore, Reply};
use tollgate_testkit::penalty::{beside_the_oracle, never_longer_than_its_length};

use crate::support::{START, TestLimiter, check, limit, limiter, node, rule, shapes, with_request};

const MINUTE: Micros = Micros::from_secs(60);
/// Two denials within a minute block for ten.
fn penalty() -> Penalty {
    Penalty::new(2, MINUTE, MINUTE.times(10)).unwrap()
}

fn punishing(limit: Limit, mode: Mode) -> TestLimiter {
    limiter(vec![node("a", vec![rule("login", limit.with_penalty(Some(penalty())), mode)])])
}

fn deny(span: Micros) -> Verdict {
    Verdict::Deny { retry_after: Some(span) }
}

fn is_blocked(reply: &Reply) -> bool {
    reply.decisions[0].is_blocked
}

fn operate(limiter: &TestLimiter, operation: Operation, cost: u64) -> Reply {
    with_request(&[("a", "x")], |request| {
        limiter
            .operate(&request.with_cost(cost), operation, tollgate_limiter::Clock::now(limiter.clock()))
            .at_once()
    })
}

#[test]
fn the_memory_store_blocks_as_the_oracle() {
    let engine = |penalty: Penalty| {
        let store = MemoryStore::new(Capacity { keys: 100, ..Capacity::default() });
        // It denies everything, so that every check is a strike.
        let limit = Limit::new(0, Micros::SECOND, Shape::FixedWindow).unwrap().with_penalty(Some(penalty));
        move |now: Time, step: PenaltyStep| {
            let operation = match step {
                PenaltyStep::Look => Operation::Peek,
                PenaltyStep::Strike => Operation::Check,
            };
            let key =
                tollgate_core::Key { domain: "d", entries: &[], shared: &[], limit: &limit, ordinal: 0 };
            let (mode, cost) = (Mode::Enforce, 1);
            let charge = tollgate_core::Charge { descriptor: 0, rule: None, key, mode, operation, cost };
            let mut set = ChargeSet::default();
            set.charges.extend([charge, charge.penalty(operation).unwrap()]);
            store.decide(&set, now)[1].blocked_for
        }
    };
    println!(
        "{} steps compared",
        beside_the_oracle(engine, 3, 200).unwrap_or_else(|failure| panic!("{failure}"))
    );
    never_longer_than_its_length(engine, 200).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn every_algorithm_blocks_and_tells_the_end_of_the_block() {
    for shape in shapes(3) {
        let limiter = punishing(Limit::new(3, Micros::SECOND, shape).unwrap(), Mode::Enforce);
        for _ in 0..3 {
            assert!(!check(&limiter, &[("a", "x")]).verdict.is_deny(), "{shape:?}");
        }
        let first = check(&limiter, &[("a", "x")]);
        assert!(first.verdict.is_deny() && !is_blocked(&first), "{shape:?}");
        let second = check(&limiter, &[("a", "x")]);
        assert_eq!((second.verdict, is_blocked(&second)), (deny(MINUTE.times(10)), true), "{shape:?}");
        assert_eq!((second.decisions.len(), second.decisions[0].remaining), (1, 0), "{shape:?}");
        // The window is over long before the block is.
        limiter.clock().advance(MINUTE.times(9));
        let blocked = check(&limiter, &[("a", "x")]);
        assert_eq!((blocked.verdict, is_blocked(&blocked)), (deny(MINUTE), true), "{shape:?}");
        assert_eq!(blocked.decisions[0].reason(), Some("penalty"));
        assert!(!check(&limiter, &[("a", "y")]).verdict.is_deny(), "another key is not blocked");
        limiter.clock().advance(MINUTE);
        let free = check(&limiter, &[("a", "x")]);
        assert_eq!(
            (free.verdict, free.decisions[0].used),
            (Verdict::Allow, 1),
            "{shape:?}: nothing was taken"
        );
    }
}

#[test]
fn only_a_request_that_is_denied_is_a_strike() {
    let limiter = punishing(limit(1, Shape::SlidingLog), Mode::Enforce);
    assert!(!operate(&limiter, Operation::Check, 1).verdict.is_deny());
    for _ in 0..5 {
        assert!(operate(&limiter, Operation::Peek, 1).verdict.is_deny());
        assert!(!is_blocked(&operate(&limiter, Operation::Check, 0)), "denied in debt, which is no strike");
        assert!(!operate(&limiter, Operation::Report, 1).verdict.is_deny());
    }
    assert!(!is_blocked(&operate(&limiter, Operation::Check, 1)), "the first strike");
    assert!(!operate(&limiter, Operation::Refund, 9).verdict.is_deny(), "gives no strike back");
    assert!(!operate(&limiter, Operation::Check, 1).verdict.is_deny());
    assert!(is_blocked(&operate(&limiter, Operation::Check, 1)), "the second strike");
    // After the block the limit of an hour is still used up, for whatever costs something.
    for (operation, cost, minutes) in
        [(Operation::Peek, 1, 60), (Operation::Peek, 0, 10), (Operation::Check, 0, 10)]
    {
        let seen = operate(&limiter, operation, cost);
        let expected = (deny(MINUTE.times(minutes)), true);
        assert_eq!((seen.verdict, is_blocked(&seen)), expected, "{operation:?} {cost}");
    }
    for operation in [Operation::Report, Operation::Refund] {
        let happened = operate(&limiter, operation, 1);
        assert_eq!((happened.verdict, is_blocked(&happened)), (Verdict::Allow, false), "{operation:?}");
    }
}

#[test]
fn a_denial_while_blocked_makes_no_block_longer() {
    let limiter = punishing(limit(1, Shape::SlidingLog).counting_rejected(true), Mode::Enforce);
    for _ in 0..3 {
        check(&limiter, &[("a", "x")]);
    }
    limiter.clock().advance(MINUTE.times(9));
    for _ in 0..20 {
        assert!(is_blocked(&check(&limiter, &[("a", "x")])));
    }
    limiter.clock().advance(MINUTE);
    let after = check(&limiter, &[("a", "x")]);
    // What the limit counts of rejected requests is the limit's own affair.
    assert!(after.verdict.is_deny() && !is_blocked(&after));
}

#[test]
fn a_shadow_rule_blocks_nobody_and_says_whom_it_would() {
    let limiter = punishing(limit(1, Shape::SlidingLog), Mode::Shadow);
    for _ in 0..3 {
        assert_eq!(check(&limiter, &[("a", "x")]).verdict, Verdict::Allow);
    }
    limiter.clock().advance(Micros::from_secs(599));
    let blocked = check(&limiter, &[("a", "x")]);
    assert_eq!((blocked.verdict, is_blocked(&blocked)), (Verdict::Allow, true));
    assert_eq!(blocked.outcome(), Outcome::ShadowDenied);
}

#[test]
fn a_quota_that_is_blocked_denies_only_with_all_other_quotas() {
    let punished = limit(1, Shape::SlidingLog).with_penalty(Some(penalty()));
    let limiter = limiter(vec![
        node("a", vec![rule("one", punished, Mode::Quota)]),
        node("b", vec![rule("other", limit(4, Shape::SlidingLog), Mode::Quota)]),
    ]);
    for _ in 0..4 {
        assert_eq!(check(&limiter, &[("a", "x"), ("b", "x")]).verdict, Verdict::Allow);
    }
    let both = check(&limiter, &[("a", "x"), ("b", "x")]);
    assert!(both.verdict.is_deny() && is_blocked(&both));
}

#[test]
fn only_the_limit_that_denied_counts_a_strike() {
    let punished = limit(100, Shape::SlidingLog).with_penalty(Some(penalty()));
    let limiter = limiter(vec![
        node("a", vec![rule("wide", punished, Mode::Enforce)]),
        node("b", vec![rule("narrow", limit(1, Shape::SlidingLog), Mode::Enforce)]),
    ]);
    for _ in 0..10 {
        let reply = check(&limiter, &[("a", "x"), ("b", "x")]);
        assert!(!is_blocked(&reply));
    }
    let alone = check(&limiter, &[("a", "x")]);
    assert_eq!((alone.verdict, alone.decisions[0].used), (Verdict::Allow, 2), "all or nothing as ever");
}

#[test]
fn a_blocked_key_takes_nothing_from_the_other_limits_of_a_request() {
    let punished = limit(1, Shape::SlidingLog).with_penalty(Some(penalty()));
    let limiter = limiter(vec![
        node("a", vec![rule("narrow", punished, Mode::Enforce)]),
        node("b", vec![rule("wide", limit(100, Shape::SlidingLog), Mode::Enforce)]),
    ]);
    for _ in 0..9 {
        check(&limiter, &[("a", "x"), ("b", "x")]);
    }
    assert_eq!(check(&limiter, &[("b", "x")]).decisions[0].used, 2);
}

#[test]
fn a_soft_limit_strikes_only_beyond_what_it_gives() {
    let limiter = punishing(limit(1, Shape::SlidingLog).soft(200).unwrap(), Mode::Enforce);
    for _ in 0..3 {
        assert_eq!(check(&limiter, &[("a", "x")]).verdict, Verdict::Allow);
    }
    assert!(!is_blocked(&check(&limiter, &[("a", "x")])));
    let blocked = check(&limiter, &[("a", "x")]);
    assert!(is_blocked(&blocked) && !blocked.decisions[0].soft);
}

#[test]
fn a_postpaid_limit_strikes_when_it_denies_the_question() {
    let limiter = punishing(limit(1, Shape::SlidingLog).with_postpaid(true), Mode::Enforce);
    assert_eq!(operate(&limiter, Operation::Check, 5).verdict, Verdict::Allow, "what is charged is recorded");
    assert!(!is_blocked(&operate(&limiter, Operation::Check, 0)));
    assert!(is_blocked(&operate(&limiter, Operation::Check, 0)));
    assert_eq!(operate(&limiter, Operation::Check, 5).decisions[0].used, 10, "also while blocked");
}

#[test]
fn a_question_whose_cost_follows_the_answer_is_a_request_too() {
    let limiter = punishing(limit(1, Shape::SlidingLog), Mode::Enforce);
    operate(&limiter, Operation::Report, 1);
    let ask = || {
        let entries = [Entry::from(("a", "x"))];
        let descriptors = [Descriptor::new(&entries).with_operation(Operation::Peek)];
        is_blocked(&limiter.check(&Request::new("d", &descriptors)).at_once())
    };
    assert_eq!([ask(), ask()], [false, true]);
}

#[test]
fn a_reset_ends_the_block_and_forgets_the_strikes() {
    let limiter = punishing(limit(1, Shape::SlidingLog), Mode::Enforce);
    for _ in 0..3 {
        check(&limiter, &[("a", "x")]);
    }
    assert_eq!(with_request(&[("a", "x")], |request| limiter.reset(request).at_once()), 2);
    assert_eq!(check(&limiter, &[("a", "x")]).verdict, Verdict::Allow);
    assert!(!is_blocked(&check(&limiter, &[("a", "x")])));
}

#[test]
fn a_block_survives_a_restart() {
    let path = std::env::temp_dir().join(format!("tollgate-penalty-{}", std::process::id()));
    let doubling = penalty().growing(2, MINUTE.times(60)).unwrap();
    let login = rule("login", limit(0, Shape::FixedWindow).with_penalty(Some(doubling)), Mode::Enforce);
    let before = limiter(vec![node("a", vec![login])]);
    for _ in 0..2 {
        check(&before, &[("a", "blocked")]);
    }
    check(&before, &[("a", "struck")]);
    before.store().save(&path).unwrap();
    let store = MemoryStore::restore(&path, Capacity::default(), START).unwrap();
    std::fs::remove_file(&path).unwrap();
    let after = tollgate_limiter::Limiter::with(
        before.rules(),
        store,
        std::sync::Arc::new(tollgate_limiter::ManualClock::at(START)),
        tollgate_limiter::NoSink,
    );
    assert!(is_blocked(&check(&after, &[("a", "blocked")])));
    assert!(is_blocked(&check(&after, &[("a", "struck")])), "its second strike");
    after.clock().advance(MINUTE.times(10));
    assert!(!is_blocked(&check(&after, &[("a", "blocked")])));
    assert!(is_blocked(&check(&after, &[("a", "blocked")])));
    after.clock().advance(Micros::from_secs(20 * 60 - 1));
    assert!(is_blocked(&check(&after, &[("a", "blocked")])), "the second block is twice as long");
    after.clock().advance(Micros::SECOND);
    assert!(!is_blocked(&check(&after, &[("a", "blocked")])));
}

#[test]
fn keys_that_were_never_denied_take_no_room() {
    let limiter = punishing(limit(1, Shape::SlidingLog), Mode::Enforce);
    for key in ["x", "y", "z"] {
        check(&limiter, &[("a", key)]);
    }
    assert_eq!(limiter.store().usage().keys, 3);
    check(&limiter, &[("a", "x")]);
    assert_eq!(limiter.store().usage().keys, 4);
}
