//! Stores, charges and limits for tests; waiting without sleeping blindly.

use std::time::Duration;

use tollgate_core::{Charge, Decision, Entry, Key, Limit, Micros, Mode, Operation, Refill, Shape, Time};
use tollgate_limiter::{ChargeSet, Clock, Store, StoreReply, SystemClock};
use tollgate_redis::{RedisConfig, RedisStore};

/// Long enough for a machine that does other things too, where the timeout is
/// not what is tested.
pub(crate) const PATIENT: Duration = Duration::from_secs(10);

pub(crate) fn config(url: &str) -> RedisConfig {
    let mut config = RedisConfig::new(url.parse().unwrap_or_else(|error| panic!("{url}: {error}")));
    config.main.timeout = PATIENT;
    config
}

pub(crate) fn store(url: &str) -> RedisStore {
    RedisStore::new(config(url)).unwrap()
}

/// A store with the timeout that users have.
pub(crate) fn hasty(url: &str) -> RedisStore {
    let mut config = config(url);
    config.main.timeout = tollgate_redis::config::TIMEOUT_DEFAULT;
    RedisStore::new(config).unwrap()
}

pub(crate) fn limit(count: u32, seconds: u64, shape: Shape) -> Limit {
    Limit::new(count, Micros::from_secs(seconds), shape).unwrap()
}

/// One limit of each algorithm, of `count` an hour, that lets exactly `count`
/// through at once.
pub(crate) fn every_algorithm(count: u32) -> Vec<Limit> {
    let hour = |shape| limit(count, 3600, shape);
    vec![
        hour(Shape::FixedWindow),
        hour(Shape::FixedWindow).counting_rejected(true),
        hour(Shape::SlidingLog),
        hour(Shape::SlidingCounter),
        hour(Shape::SlidingBuckets { buckets: 60 }),
        hour(Shape::TokenBucket { burst: count, refill: Refill::Smooth }),
        hour(Shape::TokenBucket { burst: count, refill: Refill::Interval }),
        hour(Shape::LeakyBucket { burst: count - 1, max_wait: None }),
    ]
}

/// A charge of 1 against the counter of `entries`.
pub(crate) fn charge<'a>(entries: &'a [Entry<'a>], limit: &'a Limit) -> Charge<'a> {
    let key = Key { domain: "shop", entries, shared: &[], limit, ordinal: 0 };
    Charge { descriptor: 0, rule: None, key, mode: Mode::Enforce, operation: Operation::Check, cost: 1 }
}

pub(crate) fn charge_set<'a>(charges: impl IntoIterator<Item = Charge<'a>>) -> ChargeSet<'a> {
    ChargeSet { charges: charges.into_iter().collect(), ..ChargeSet::default() }
}

pub(crate) fn now() -> Time {
    SystemClock::new().now()
}

/// Checks one charge of 1 now; whether it was decided without the store.
pub(crate) async fn check(store: &RedisStore, user: &str, limit: &Limit) -> (Decision, bool) {
    let entries = [Entry { key: "user", value: user }];
    let reply = check_set(store, &charge_set([charge(&entries, limit)])).await;
    (reply.decisions[0], reply.degraded.contains(&true))
}

/// Checks several charges now.
pub(crate) async fn check_set(store: &RedisStore, charge_set: &ChargeSet<'_>) -> StoreReply {
    store.check(charge_set, now()).await
}

/// Polls until it holds, and fails if that takes longer than `most`.
pub(crate) async fn eventually<F: Future<Output = bool>>(
    what: &str,
    most: Duration,
    mut holds: impl FnMut() -> F,
) {
    let deadline = tokio::time::Instant::now() + most;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "{what}: not within {most:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
