//! What callers see while the store is away, hangs, or comes back.

use std::time::Duration;

use tollgate_core::{Charge, Decision, Entry, Limit, OnStoreError, Refill, Shape, Verdict};
use tollgate_redis::{RedisStore, StoreFailure};
use tollgate_testkit::RedisServer;
use tollgate_testkit::redis::free_port;

use crate::support::{charge, charge_set, check, check_set, eventually, hasty, limit, store};

const BACK_MAX: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_store_that_is_not_there_yet_is_counted_on_once_it_is() {
    let url = format!("redis://127.0.0.1:{}", free_port());
    let store = hasty(&url);
    let limit = limit(2, 3600, Shape::FixedWindow);
    let mut verdicts = Vec::new();
    for _ in 0..3 {
        let (decision, degraded) = check(&store, "a", &limit).await;
        assert!(degraded);
        verdicts.push(decision.verdict.is_deny());
    }
    assert_eq!(verdicts, [false, false, true], "limited from memory all the same");
    assert!(store.stats().is_degraded());
}

#[tokio::test]
async fn each_limit_does_what_it_says_while_the_store_is_away() {
    let store = hasty(&format!("redis://127.0.0.1:{}", free_port()));
    let one = limit(1, 3600, Shape::SlidingLog);
    for (rule, denied) in [
        (OnStoreError::Local, [false, true]),
        (OnStoreError::Allow, [false, false]),
        (OnStoreError::Deny, [true, true]),
    ] {
        for expected in denied {
            let (decision, degraded) =
                check(&store, &format!("{rule:?}"), &one.with_on_store_error(rule)).await;
            assert_eq!((decision.verdict.is_deny(), degraded), (expected, true), "{rule:?}");
            if rule == OnStoreError::Deny {
                assert!(matches!(decision.verdict, Verdict::Deny { retry_after: Some(_) }), "not for ever");
            }
        }
    }
}

#[tokio::test]
async fn a_killed_store_is_replaced_by_what_was_last_seen_and_counted_on_again() {
    let mut server = RedisServer::start();
    let store = store(&server.url());
    let limit = limit(5, 3600, Shape::SlidingLog);
    for left in [4, 3, 2] {
        let (decision, degraded) = check(&store, "a", &limit).await;
        assert_eq!((decision.remaining, degraded), (left, false));
    }
    server.kill();
    for left in [1, 0] {
        let (decision, degraded) = check(&store, "a", &limit).await;
        assert_eq!((decision.remaining, degraded), (left, true), "goes on from what was seen");
    }
    assert!(check(&store, "a", &limit).await.0.verdict.is_deny());
    server.restart();
    eventually("counting in Redis is back", BACK_MAX, async || !check(&store, "b", &limit).await.1).await;
    let (decision, degraded) = check(&store, "a", &limit).await;
    assert_eq!((decision.remaining, degraded), (4, false), "an empty Redis begins again");
}

#[tokio::test]
async fn a_frozen_store_costs_no_more_than_its_timeout_and_then_nothing() {
    let server = RedisServer::start();
    let store = hasty(&server.url());
    let limit = limit(1_000_000, 3600, Shape::FixedWindow);
    eventually("the store answers", BACK_MAX, async || !check(&store, "a", &limit).await.1).await;
    // It is so hasty that the first answer may be late.
    let timeouts = || store.stats().failures(StoreFailure::Timeout);
    let before = timeouts();
    server.freeze();
    let begin = tokio::time::Instant::now();
    for _ in 0..1000 {
        assert!(check(&store, "a", &limit).await.1);
    }
    // Five time out, one after the other, and open the breaker; a thousand
    // that wait would take twenty seconds.
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!(timeouts() - before, 5, "{:?}", store.stats());
    server.thaw();
    eventually("counting in Redis is back", BACK_MAX, async || !check(&store, "a", &limit).await.1).await;
    assert!(!store.stats().is_degraded());
}

#[tokio::test]
async fn a_script_that_the_server_forgot_is_sent_again() {
    let server = RedisServer::start();
    let store = store(&server.url());
    let limit = limit(2, 3600, Shape::FixedWindow);
    assert_eq!(check(&store, "a", &limit).await.0.remaining, 1);
    server.cli(&["script", "flush"]);
    let (decision, degraded) = check(&store, "a", &limit).await;
    assert_eq!((decision.remaining, degraded), (0, false));
    assert_eq!(store.stats().script_loads.get(), 1);
}

/// A check of cost 0, or a charge.
async fn postpaid(store: &RedisStore, user: &str, limit: &Limit, cost: u64) -> (Decision, bool) {
    let entries = [Entry { key: "user", value: user }];
    let reply = check_set(store, &charge_set([Charge { cost, ..charge(&entries, limit) }])).await;
    (reply.decisions[0], reply.degraded.contains(&true))
}

#[tokio::test]
async fn costs_that_come_afterwards_are_recorded_while_the_store_is_away() {
    let mut server = RedisServer::start();
    let store = store(&server.url());
    let shape = Shape::TokenBucket { burst: 1_000, refill: Refill::Smooth };
    let limit = limit(1_000, 3600, shape).with_postpaid(true);
    for user in ["in debt", "paid up"] {
        assert!(!postpaid(&store, user, &limit, 700).await.0.verdict.is_deny());
    }
    assert!(!postpaid(&store, "in debt", &limit, 700).await.0.verdict.is_deny());
    server.kill();
    let (denied, degraded) = postpaid(&store, "in debt", &limit, 0).await;
    assert!(denied.verdict.is_deny() && degraded, "the debt is remembered: {denied:?}");
    let (begins, _) = postpaid(&store, "paid up", &limit, 0).await;
    assert!(!begins.verdict.is_deny(), "{begins:?}");
    assert!(!postpaid(&store, "paid up", &limit, 700).await.0.verdict.is_deny(), "it is recorded");
    assert!(postpaid(&store, "paid up", &limit, 0).await.0.verdict.is_deny(), "into debt");
    for (rule, denied) in [(OnStoreError::Allow, false), (OnStoreError::Deny, true)] {
        let (decision, _) = postpaid(&store, "new", &limit.with_on_store_error(rule), 0).await;
        assert_eq!(decision.verdict.is_deny(), denied, "{rule:?}");
    }
}
