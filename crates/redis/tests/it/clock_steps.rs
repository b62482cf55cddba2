//! A clock that was a day ahead, as `docs/guide/redis.md` says. The clock is the
//! caller's, because that of a real server cannot be set.

use std::time::Duration;

use tollgate_core::{Charge, Entry, Key, Limit, Micros, Time};
use tollgate_limiter::{ChargeSet, Store as _};
use tollgate_redis::{RedisConfig, RedisStore, keys};
use tollgate_testkit::RedisServer;

use crate::support::{charge, charge_set, config, eventually, every_algorithm, limit, store};

const ENTRIES: [Entry<'static>; 1] = [Entry { key: "user", value: "42" }];
const LIMIT: u32 = 5;
const WINDOW: Micros = Micros::from_secs(3600);
const BACK: Time = Time::from_secs(1_700_000_100);

fn ahead() -> Time {
    BACK + Micros::from_secs(86_400)
}

/// How long a request is denied; zero if it is not.
async fn blocked_for(store: &RedisStore, set: &ChargeSet<'_>, now: Time) -> Micros {
    let decisions = store.check(set, now).await.decisions;
    decisions.iter().map(|decision| decision.blocked_for).max().unwrap()
}

/// How many of so many requests at one instant are admitted.
async fn admitted(store: &RedisStore, limit: &Limit, now: Time, requests: u32) -> u32 {
    let set = charge_set([charge(&ENTRIES, limit)]);
    let mut count = 0;
    for _ in 0..requests {
        count += u32::from(!store.check(&set, now).await.decisions[0].verdict.is_deny());
    }
    count
}

#[tokio::test]
async fn what_was_admitted_ahead_is_not_admitted_again_and_denies_for_a_window_at_most() {
    let server = RedisServer::start();
    for (limit, denial_bytes) in
        every_algorithm(LIMIT).into_iter().flat_map(|limit| [(limit, 0), (limit, 1 << 20)])
    {
        let config = RedisConfig { denial_bytes, ..config(&server.url()) };
        let store = &RedisStore::new(config).unwrap().on_the_callers_clock();
        server.cli(&["flushall"]);
        // The one more is denied, and may be remembered.
        let more = u32::from(!limit.counts_rejected());
        assert_eq!(admitted(store, &limit, ahead(), LIMIT + more).await, LIMIT, "{limit:?}");
        let set = charge_set([charge(&ENTRIES, &limit)]);
        let wait = blocked_for(store, &set, BACK).await;
        assert!(wait > Micros::ZERO && wait <= WINDOW + Micros::from_secs(60), "{wait} {limit:?}");
        let life_ms: u64 = server.cli(&["pttl", &keys::name("", &set.charges[0].key)]).parse().unwrap();
        assert!(life_ms <= 2 * 3_600_000, "{life_ms} ms: {limit:?}");
        assert_eq!(admitted(store, &limit, BACK + WINDOW.times(2), LIMIT).await, LIMIT, "{limit:?}");
    }
}

#[tokio::test]
async fn limits_that_are_decided_together_deny_for_a_window_at_most() {
    let server = RedisServer::start();
    let store = store(&server.url()).on_the_callers_clock();
    for used_up in every_algorithm(LIMIT).into_iter().filter(|limit| !limit.counts_rejected()) {
        server.cli(&["flushall"]);
        assert_eq!(admitted(&store, &used_up, ahead(), LIMIT).await, LIMIT);
        let other = limit(1000, 3600, used_up.shape());
        let beside =
            Charge { key: Key { ordinal: 1, ..charge(&ENTRIES, &other).key }, ..charge(&ENTRIES, &other) };
        let set = charge_set([beside, charge(&ENTRIES, &used_up)]);
        let mut now = BACK;
        for _ in 0..70 {
            if blocked_for(&store, &set, now).await == Micros::ZERO {
                break;
            }
            now = now + Micros::from_secs(60);
        }
        assert!(now > BACK && now <= BACK + WINDOW + Micros::from_secs(60), "{now:?} {used_up:?}");
    }
}

#[tokio::test]
async fn a_counter_that_expired_while_the_clock_was_ahead_begins_again_once() {
    let server = RedisServer::start();
    let store = store(&server.url()).on_the_callers_clock();
    for limit in every_algorithm(LIMIT) {
        server.cli(&["flushall"]);
        assert_eq!(admitted(&store, &limit, BACK, LIMIT).await, LIMIT, "{limit:?}");
        let name = keys::name("", &charge(&ENTRIES, &limit).key);
        // As Redis does when its own clock has passed the end of the counter.
        server.cli(&["pexpire", &name, "1"]);
        eventually("the counter expires", Duration::from_secs(5), async || {
            server.cli(&["exists", &name]) == "0"
        })
        .await;
        assert_eq!(admitted(&store, &limit, BACK, LIMIT).await, LIMIT, "its limit once more: {limit:?}");
        assert_eq!(admitted(&store, &limit, BACK, 1).await, 0, "and not twice: {limit:?}");
    }
}
