//! A server's clock that steps back, as `docs/guide/redis.md` says.

use std::time::Duration;

use tollgate_core::{Entry, Limit, Micros, Time};
use tollgate_limiter::Store as _;
use tollgate_redis::{RedisStore, keys};
use tollgate_testkit::RedisServer;

use crate::support::{charge, charge_set, eventually, every_algorithm, store};

const ENTRIES: [Entry<'static>; 1] = [Entry { key: "user", value: "42" }];
const LIMIT: u32 = 5;

/// How many requests are admitted at one instant, until one is denied.
async fn admitted(store: &RedisStore, limit: &Limit, now: Time) -> u32 {
    let set = charge_set([charge(&ENTRIES, limit)]);
    let mut count = 0;
    while !store.check(&set, now).await.decisions[0].verdict.is_deny() {
        count += 1;
    }
    count
}

#[tokio::test]
async fn a_step_back_admits_nothing_extra_unless_the_counter_has_expired() {
    let server = RedisServer::start();
    let store = store(&server.url()).on_the_callers_clock();
    let ahead = Time::from_secs(1_700_000_000);
    let back = ahead.before(Micros::from_secs(7 * 3600));
    for limit in every_algorithm(LIMIT) {
        server.cli(&["flushall"]);
        assert_eq!(admitted(&store, &limit, ahead).await, LIMIT, "{limit:?}");
        assert_eq!(admitted(&store, &limit, back).await, 0, "nothing extra: {limit:?}");
        let name = keys::name("", &charge(&ENTRIES, &limit).key);
        // As Redis does when its own clock has passed the end of the counter.
        server.cli(&["pexpire", &name, "1"]);
        eventually("the counter expires", Duration::from_secs(5), async || {
            server.cli(&["exists", &name]) == "0"
        })
        .await;
        assert_eq!(admitted(&store, &limit, back).await, LIMIT, "its limit once more: {limit:?}");
        assert_eq!(admitted(&store, &limit, back).await, 0, "and not twice: {limit:?}");
    }
}
