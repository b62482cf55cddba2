//! Side by side with envoyproxy/ratelimit on one Redis.

use redis::Pipeline;
use redis::aio::MultiplexedConnection;
use tollgate_core::{Entry, Limit, Operation, Shape, Time};
use tollgate_limiter::Store;
use tollgate_redis::RedisStore;
use tollgate_redis::config::Layout;
use tollgate_testkit::RedisServer;

use crate::support::{charge, charge_set, config, limit, now};

/// Gives exactly the reference's commands, and decides by its arithmetic.
struct ReferenceClient(MultiplexedConnection);

impl ReferenceClient {
    async fn new(server: &RedisServer) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        Self(client.get_multiplexed_async_connection().await.unwrap())
    }

    async fn is_over_limit(&mut self, user: &str, limit: u64, now: Time) -> bool {
        let seconds = now.get() / 1_000_000;
        let key = format!("shop_user_{user}_{}", seconds - seconds % 3600);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("INCRBY").arg(&key).arg(1).cmd("EXPIRE").arg(&key).arg(3600 + 17);
        let (after, _): (u64, u64) = pipeline.query_async(&mut self.0).await.unwrap();
        after > limit
    }
}

fn shared(server: &RedisServer) -> RedisStore {
    let mut config = config(&server.url());
    config.layout = Layout::Envoy { jitter_max_s: 300 };
    RedisStore::new(config).unwrap()
}

fn hourly(count: u32) -> Limit {
    limit(count, 3600, Shape::FixedWindow).counting_rejected(true)
}

#[tokio::test]
async fn both_services_together_admit_exactly_the_limit() {
    let server = RedisServer::start();
    let store = shared(&server);
    let mut reference = ReferenceClient::new(&server).await;
    let limit = hourly(21);
    let now = now();
    let (mut ours, mut theirs) = (0, 0);
    for _ in 0..20 {
        let entries = [Entry { key: "user", value: "42" }];
        let answer = store.check(&charge_set([charge(&entries, &limit)]), now).await;
        assert!(answer.degraded.is_empty());
        ours += u32::from(!answer.decisions[0].verdict.is_deny());
        theirs += u32::from(!reference.is_over_limit("42", 21, now).await);
    }
    assert_eq!((ours, theirs), (11, 10), "one after the other");
    let keys = server.cli(&["keys", "shop_*"]);
    let seconds = now.get() / 1_000_000;
    assert_eq!(keys, format!("shop_user_42_{}", seconds - seconds % 3600), "in one counter");
    assert_eq!(server.cli(&["get", &keys]), "40", "which counts the rejected too");
    let life: u64 = server.cli(&["ttl", &keys]).parse().unwrap();
    assert!((3590..=3900).contains(&life), "{life}");
}

#[tokio::test]
async fn a_limit_that_the_reference_does_not_know_is_kept_as_ours_and_all_or_nothing() {
    let server = RedisServer::start();
    let store = shared(&server);
    let (theirs, ours) = (hourly(1), limit(10, 60, Shape::SlidingLog));
    let entries = [Entry { key: "user", value: "42" }];
    let both = charge_set([charge(&entries, &ours), charge(&entries, &theirs)]);
    let first = store.check(&both, now()).await;
    assert_eq!(first.decisions.iter().map(|decision| decision.remaining).collect::<Vec<_>>(), [9, 0]);
    let second = store.check(&both, now()).await;
    assert!(second.decisions[1].verdict.is_deny());
    assert!(!second.decisions[0].verdict.is_deny());
    assert_eq!(second.decisions[0].remaining, 9, "not taken, for the other one denies");
}

#[tokio::test]
async fn peeks_and_refunds_keep_the_counter_a_number_above_zero() {
    let server = RedisServer::start();
    let store = shared(&server);
    let limit = hourly(5);
    let entries = [Entry { key: "user", value: "42" }];
    let now = now();
    let ask = async |operation, cost| {
        let mut asked = charge_set([charge(&entries, &limit)]);
        asked.charges[0].operation = operation;
        asked.charges[0].cost = cost;
        let answer = store.check(&asked, now).await;
        assert!(answer.degraded.is_empty());
        answer.decisions[0].remaining
    };
    assert_eq!(ask(Operation::Peek, 1).await, 4, "what it would leave");
    assert_eq!(ask(Operation::Check, 3).await, 2);
    assert_eq!(ask(Operation::Refund, 1).await, 3);
    assert_eq!(ask(Operation::Refund, 9).await, 5);
    assert_eq!(ask(Operation::Check, 1).await, 4, "nobody gained by giving back too much");
    assert_eq!(ask(Operation::Report, 9).await, 0);
    assert!(store.reset(&charge(&entries, &limit).key, now).await);
    assert_eq!(ask(Operation::Peek, 0).await, 5);
}
