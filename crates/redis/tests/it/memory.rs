//! What a user costs in Redis, and denials that need not be asked again.

use std::time::Duration;

use tollgate_core::{Entry, Limit, Micros, Operation, Penalty, Refill, Shape, Time, Verdict};
use tollgate_limiter::Store;
use tollgate_redis::{RedisStore, keys};
use tollgate_testkit::RedisServer;

use crate::support::{charge, charge_set, check, check_set, config, limit, store};

const HOUR_S: u64 = 3600;

/// A user who makes all of 500 requests an hour, one every 7.2 s and a bit.
async fn bytes_of_a_busy_user(server: &RedisServer, limit: &Limit) -> u64 {
    let store = store(&server.url()).on_the_callers_clock();
    let entries = [Entry { key: "user", value: "42" }];
    let asked = charge_set([charge(&entries, limit)]);
    let mut now = Time::from_secs(1_700_000_000);
    for request in 0..700_u64 {
        now = now + Micros::new(7_200_000 + request * 7919 % 1_000_000);
        let answer = store.check(&asked, now).await;
        assert!(answer.degraded.is_empty());
    }
    let name = keys::name("", &asked.charges[0].key);
    server.cli(&["memory", "usage", &name]).parse().unwrap()
}

#[tokio::test]
async fn a_user_takes_no_more_memory_than_promised() {
    let server = RedisServer::start();
    let hour = |shape| limit(500, HOUR_S, shape);
    let rows = [
        (hour(Shape::FixedWindow), 120),
        (hour(Shape::SlidingLog), 4096),
        (hour(Shape::SlidingCounter), 120),
        (hour(Shape::SlidingBuckets { buckets: 60 }), 1024),
        (hour(Shape::TokenBucket { burst: 500, refill: Refill::Smooth }), 120),
        (hour(Shape::TokenBucket { burst: 500, refill: Refill::Interval }), 120),
        (hour(Shape::LeakyBucket { burst: 500, max_wait: None }), 120),
    ];
    for (limit, most) in rows {
        let bytes = bytes_of_a_busy_user(&server, &limit).await;
        let entries = [Entry { key: "user", value: "42" }];
        let name = keys::name("", &charge(&entries, &limit).key);
        let besides = bytes - u64::try_from(name.len()).unwrap();
        let measured = if most > 120 { bytes } else { besides };
        assert!(measured <= most, "{measured} > {most}: {limit:?}");
    }
}

fn remembering(server: &RedisServer) -> RedisStore {
    let mut config = config(&server.url());
    config.denial_bytes = 1 << 20;
    RedisStore::new(config).unwrap()
}

#[tokio::test]
async fn who_is_denied_does_not_ask_again_before_the_time() {
    let server = RedisServer::start();
    let store = remembering(&server);
    let one = limit(1, HOUR_S, Shape::SlidingLog);
    let calls = || {
        server.cli(&["info", "commandstats"]).lines().find(|line| line.contains("evalsha")).map(str::to_owned)
    };
    assert!(!check(&store, "a", &one).await.0.verdict.is_deny());
    let (first, _) = check(&store, "a", &one).await;
    assert!(first.verdict.is_deny());
    let before = calls();
    for _ in 0..100 {
        let (again, degraded) = check(&store, "a", &one).await;
        assert!(again.verdict.is_deny() && !degraded);
        assert!(again.reset_after <= first.reset_after);
    }
    assert_eq!(calls(), before, "the server was not asked");
    assert_eq!(store.stats().denials_remembered.get(), 100);
    let two = limit(2, HOUR_S, Shape::SlidingLog);
    assert!(!check(&store, "a", &two).await.0.verdict.is_deny(), "a raised limit is asked about");
}

#[tokio::test]
async fn a_denial_is_forgotten_when_its_time_comes() {
    let server = RedisServer::start();
    let store = remembering(&server);
    let soon = Limit::new(1, Micros::from_secs(3), Shape::SlidingLog).unwrap();
    assert!(!check(&store, "a", &soon).await.0.verdict.is_deny());
    let denied_at = tokio::time::Instant::now();
    let (denied, _) = check(&store, "a", &soon).await;
    let Verdict::Deny { retry_after: Some(wait) } = denied.verdict else { panic!("denied") };
    crate::support::eventually("allowed again", Duration::from_secs(30), async || {
        !check(&store, "a", &soon).await.0.verdict.is_deny()
    })
    .await;
    assert!(denied_at.elapsed() >= Duration::from(wait), "not before");
    assert!(denied_at.elapsed() < Duration::from(wait) + Duration::from_secs(10), "and not much later");
}

#[tokio::test]
async fn a_refund_and_a_reset_let_the_denied_ask_again() {
    let server = RedisServer::start();
    let store = remembering(&server);
    let one = limit(1, HOUR_S, Shape::SlidingLog);
    let entries = [Entry { key: "user", value: "a" }];
    for forget in [true, false] {
        assert!(!check(&store, "a", &one).await.0.verdict.is_deny());
        assert!(check(&store, "a", &one).await.0.verdict.is_deny());
        assert!(check(&store, "a", &one).await.0.verdict.is_deny());
        if forget {
            let mut refund = charge_set([charge(&entries, &one)]);
            refund.charges[0].operation = Operation::Refund;
            check_set(&store, &refund).await;
        } else {
            assert!(store.reset(&charge(&entries, &one).key, crate::support::now()).await);
        }
    }
    assert!(!check(&store, "a", &one).await.0.verdict.is_deny());
}

#[tokio::test]
async fn a_list_with_one_denial_is_denied_from_memory_with_the_others_as_last_seen() {
    let server = RedisServer::start();
    let store = remembering(&server);
    let (burst, sustained) = (limit(2, HOUR_S, Shape::SlidingLog), limit(500, HOUR_S, Shape::SlidingCounter));
    let entries = [Entry { key: "user", value: "a" }];
    let list = || charge_set([charge(&entries, &burst), charge(&entries, &sustained)]);
    for _ in 0..3 {
        check_set(&store, &list()).await;
    }
    let again = check_set(&store, &list()).await;
    assert_eq!(store.stats().denials_remembered.get(), 1);
    assert!(again.decisions[0].verdict.is_deny() && !again.decisions[1].verdict.is_deny());
    assert_eq!(again.decisions[1].remaining, 498);
    let counting = sustained.counting_rejected(true);
    let mixed = charge_set([charge(&entries, &burst), charge(&entries, &counting)]);
    assert_eq!(
        check_set(&store, &mixed).await.decisions[1].remaining,
        497,
        "what counts rejected requests is asked"
    );
    assert_eq!(check_set(&store, &mixed).await.decisions[1].remaining, 496);
}

#[tokio::test]
async fn a_block_is_remembered_and_the_denials_before_it_are_strikes() {
    let server = RedisServer::start();
    let store = remembering(&server);
    let day = Micros::from_secs(24 * HOUR_S);
    let penalty = Penalty::new(3, Micros::from_secs(HOUR_S), day).unwrap();
    let punishing = |count| limit(count, HOUR_S, Shape::SlidingLog).with_penalty(Some(penalty));
    let (one, five) = (punishing(1), punishing(5));
    let entries = [Entry { key: "user", value: "a" }];
    let with_penalty = |limit| {
        let charge = charge(&entries, limit);
        charge_set([charge, charge.penalty(Operation::Check).unwrap()])
    };
    assert!(!check_set(&store, &with_penalty(&one)).await.decisions[0].verdict.is_deny());
    for _ in 0..3 {
        let denied = check_set(&store, &with_penalty(&one)).await;
        assert!(denied.decisions[0].verdict.is_deny() && !denied.remembered, "each is a strike");
    }
    // The one that finds the block out is the last that asks.
    check_set(&store, &with_penalty(&one)).await;
    let before = store.stats().denials_remembered.get();
    for limit in [&one, &five, &one] {
        let blocked = check_set(&store, &with_penalty(limit)).await;
        let Verdict::Deny { retry_after: Some(wait) } = blocked.decisions[1].verdict else {
            panic!("blocked")
        };
        assert!(blocked.remembered && wait <= day && wait.get() > day.get() - 60_000_000, "{wait}");
    }
    assert_eq!(store.stats().denials_remembered.get(), before + 3, "another number does not end a block");
    let other = [Entry { key: "user", value: "b" }];
    let others = charge(&other, &one);
    let others = charge_set([others, others.penalty(Operation::Check).unwrap()]);
    assert!(!check_set(&store, &others).await.decisions[1].verdict.is_deny(), "nobody else is meant");
    let block = with_penalty(&one).charges[1].key;
    assert!(store.reset(&block, crate::support::now()).await);
    assert!(!check_set(&store, &with_penalty(&one)).await.decisions[1].verdict.is_deny(), "a reset ends it");
}
