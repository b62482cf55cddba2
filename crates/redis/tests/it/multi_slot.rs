//! One request, several placements: a second Redis.

use tollgate_core::{Entry, Mode, Shape};
use tollgate_redis::RedisStore;
use tollgate_testkit::RedisServer;
use tollgate_testkit::redis::free_port;

use crate::support::{PATIENT, charge, charge_set, check_set, config, limit};

fn split(main: &str, per_second: &str) -> RedisStore {
    let mut config = config(main);
    let mut second: tollgate_redis::Endpoint = per_second.parse().unwrap();
    second.timeout = PATIENT;
    config.per_second = Some(second);
    RedisStore::new(config).unwrap()
}

#[tokio::test]
async fn limits_by_the_second_are_kept_elsewhere_and_decided_together() {
    let (main, second) = (RedisServer::start(), RedisServer::start());
    let store = split(&main.url(), &second.url());
    let (fast, slow) = (limit(1000, 1, Shape::SlidingLog), limit(2, 3600, Shape::SlidingLog));
    let entries = [Entry { key: "user", value: "42" }];
    let both = charge_set([charge(&entries, &fast), charge(&entries, &slow)]);
    for expected in [false, false, true, true] {
        let answer = check_set(&store, &both).await;
        assert_eq!(both.is_denied(&answer.decisions), expected);
        assert!(answer.degraded.is_empty());
    }
    assert_eq!(main.cli(&["keys", "t1:{*"]), "t1:{shop|user|42}|sl3600s");
    assert_eq!(store.stats().given_back.get(), 0, "the slow one is asked first, and denies first");
}

#[tokio::test]
async fn what_one_server_took_is_given_back_when_the_other_denies() {
    let (main, second) = (RedisServer::start(), RedisServer::start());
    let store = split(&main.url(), &second.url());
    let (fast, slow) = (limit(0, 1, Shape::FixedWindow), limit(5, 3600, Shape::SlidingLog));
    let entries = [Entry { key: "user", value: "42" }];
    let answer = check_set(&store, &charge_set([charge(&entries, &slow), charge(&entries, &fast)])).await;
    let [slow_one, fast_one] = answer.decisions.as_slice() else { panic!("two decisions") };
    assert!(fast_one.verdict.is_deny() && !slow_one.verdict.is_deny());
    assert_eq!(slow_one.remaining, 5);
    assert_eq!(store.stats().given_back.get(), 1);
    assert_eq!(main.cli(&["keys", "t1:{*"]), "", "as if it had never been");
    let mut shadow = charge_set([charge(&entries, &slow), charge(&entries, &fast)]);
    shadow.charges[1].mode = Mode::Shadow;
    assert_eq!(
        check_set(&store, &shadow).await.decisions[0].remaining,
        4,
        "a shadow denial gives nothing back"
    );
}

#[tokio::test]
async fn a_second_server_that_is_away_degrades_its_own_limits_only() {
    let main = RedisServer::start();
    let store = split(&main.url(), &format!("redis://127.0.0.1:{}", free_port()));
    let (fast, slow) = (limit(1000, 1, Shape::SlidingLog), limit(5, 3600, Shape::SlidingLog));
    let entries = [Entry { key: "user", value: "42" }];
    let answer = check_set(&store, &charge_set([charge(&entries, &fast), charge(&entries, &slow)])).await;
    assert_eq!(answer.degraded.as_slice(), [true, false]);
    assert_eq!(answer.decisions[1].remaining, 4);
}
