//! Other rules while requests flow: usage stays where the algorithm allows it.

use tollgate_core::{Limit, Micros, Mode, Shape};

use crate::support::{check, limit, limiter, node, rule, rules, shapes};

#[test]
fn a_changed_number_keeps_the_usage_of_every_algorithm() {
    for (before, after) in shapes(10).into_iter().zip(shapes(20)) {
        let limiter = limiter(vec![node("user", vec![rule("", limit(10, before), Mode::Enforce)])]);
        for _ in 0..10 {
            assert!(!check(&limiter, &[("user", "42")]).verdict.is_deny());
        }
        assert!(check(&limiter, &[("user", "42")]).verdict.is_deny());
        limiter.replace_rules(rules(vec![node("user", vec![rule("", limit(20, after), Mode::Enforce)])]));
        let passed = (0..30).filter(|_| !check(&limiter, &[("user", "42")]).verdict.is_deny()).count();
        // Windows count on from 10. Smooth buckets and queues keep the instant
        // at which they are done, so an empty one stays empty; a bucket that
        // refills by interval keeps how many tokens are missing.
        let expected = match after {
            Shape::TokenBucket { refill: tollgate_core::Refill::Smooth, .. } | Shape::LeakyBucket { .. } => 0,
            Shape::FixedWindow
            | Shape::SlidingLog
            | Shape::SlidingCounter
            | Shape::SlidingBuckets { .. }
            | Shape::TokenBucket { .. } => 10,
        };
        assert_eq!(passed, expected, "{after:?}");
    }
}

#[test]
fn a_changed_window_starts_afresh() {
    let limiter = limiter(vec![node("user", vec![rule("", limit(1, Shape::FixedWindow), Mode::Enforce)])]);
    check(&limiter, &[("user", "42")]);
    assert!(check(&limiter, &[("user", "42")]).verdict.is_deny());
    let minute = Limit::new(1, Micros::from_secs(60), Shape::FixedWindow).unwrap();
    limiter.replace_rules(rules(vec![node("user", vec![rule("", minute, Mode::Enforce)])]));
    assert!(!check(&limiter, &[("user", "42")]).verdict.is_deny());
}

#[test]
fn a_reply_keeps_the_rules_it_was_made_by() {
    let limiter = limiter(vec![node("user", vec![rule("old", limit(1, Shape::FixedWindow), Mode::Enforce)])]);
    let reply = check(&limiter, &[("user", "42")]);
    limiter.replace_rules(rules(Vec::new()));
    assert_eq!(reply.rule(&reply.decisions[0]).unwrap().name(), "old");
    assert!(check(&limiter, &[("user", "42")]).decisions.is_empty());
}
