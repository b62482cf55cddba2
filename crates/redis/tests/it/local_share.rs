//! What several nodes admit together while the store is away, as
//! `docs/guide/redis.md` says.

use std::time::Duration;

use tollgate_core::{Charge, Entry, Limit, Micros, Mode, Refill, Shape, Time};
use tollgate_limiter::Store as _;
use tollgate_redis::RedisStore;
use tollgate_testkit::RedisServer;

use crate::support::{charge, charge_set, check, config, eventually, limit};

const HEARTBEAT: Duration = Duration::from_millis(100);

/// Three nodes that know of each other.
async fn three_nodes(server: &RedisServer) -> [RedisStore; 3] {
    let nodes = [(); 3].map(|()| {
        let mut config = config(&server.url());
        config.heartbeat = HEARTBEAT;
        RedisStore::new(config).unwrap()
    });
    let warm = limit(1000, 3600, Shape::FixedWindow);
    for node in &nodes {
        check(node, "warm", &warm).await;
    }
    eventually("all nodes are known", Duration::from_secs(5), async || {
        nodes.iter().all(|node| node.stats().nodes() == 3)
    })
    .await;
    nodes
}

/// How many requests a node admits until it denies one.
async fn admitted(node: &RedisStore, user: &str, limit: &Limit) -> u32 {
    let mut count = 0;
    while !check(node, user, limit).await.0.verdict.is_deny() {
        count += 1;
    }
    count
}

#[tokio::test]
async fn nodes_that_never_saw_a_key_admit_their_share() {
    for shape in [Shape::FixedWindow, Shape::SlidingLog] {
        let mut server = RedisServer::start();
        let nodes = three_nodes(&server).await;
        let limit = limit(1000, 3600, shape);
        for _ in 0..912 {
            assert!(!check(&nodes[0], "a", &limit).await.1);
        }
        server.kill();
        let mut together = Vec::new();
        for node in &nodes {
            together.push(admitted(node, "a", &limit).await);
        }
        assert_eq!(together, [1000 - 912, 1000 / 3, 1000 / 3], "{shape:?}");
    }
}

const WINDOW: Micros = Micros::from_secs(60);
/// On a border of windows, so that an outage meets whole ones.
const BEGIN: Time = Time::from_secs(1_000_000_020);
/// How many windows an outage lasts.
const WINDOWS: u64 = 4;
/// How often a node is asked in each window, and each time until it denies.
const STEPS: u64 = 30;

/// A limit, and what it lets through at once and in each window, the soft part included.
struct Case {
    limit: Limit,
    at_once: u64,
    each_window: u64,
}

/// One limit of `count` a minute by each algorithm.
fn cases(count: u32, percent: u32) -> Vec<Case> {
    let hard = u64::from(count) + u64::from(count) * u64::from(percent) / 100;
    let case = |shape, at_once, each_window| {
        let limit = Limit::new(count, WINDOW, shape).unwrap();
        let limit = if percent == 0 { limit } else { limit.soft(percent).unwrap() };
        Case { limit, at_once, each_window }
    };
    let window = |shape| case(shape, 0, hard);
    // What a bucket by interval has on top is room, which refills as the limit does.
    let bucket = |shape, each_window| case(shape, hard, each_window);
    vec![
        window(Shape::FixedWindow),
        window(Shape::SlidingLog),
        window(Shape::SlidingCounter),
        window(Shape::SlidingBuckets { buckets: 6 }),
        bucket(Shape::TokenBucket { burst: count, refill: Refill::Smooth }, hard),
        bucket(Shape::TokenBucket { burst: count, refill: Refill::Interval }, u64::from(count)),
        bucket(Shape::LeakyBucket { burst: count - 1, max_wait: None }, hard),
    ]
}

/// How many requests a node admits at `now` until it denies one.
async fn admitted_at(node: &RedisStore, charge: Charge<'_>, now: Time) -> u64 {
    let mut count = 0;
    while !node.check(&charge_set([charge]), now).await.decisions[0].verdict.is_deny() {
        count += 1;
    }
    count
}

/// What `docs/guide/redis.md` says that all nodes let through in an outage.
#[tokio::test]
async fn no_outage_lets_more_through_than_the_guide_says() {
    for (count, percent) in [(30, 0), (31, 0), (30, 50), (2, 0), (2, 100), (4, 10)] {
        let mut server = RedisServer::start();
        let nodes = three_nodes(&server).await.map(RedisStore::on_the_callers_clock);
        let cases = cases(count, percent);
        let users = [[Entry { key: "user", value: "seen" }], [Entry { key: "user", value: "new" }]];
        for case in &cases {
            // Each node has seen the first, of which one is used.
            let first = charge_set([charge(&users[0], &case.limit)]);
            assert!(!nodes[0].check(&first, BEGIN).await.decisions[0].verdict.is_deny());
            for node in &nodes {
                let look = Charge { cost: 0, ..charge(&users[0], &case.limit) };
                let reply = node.check(&charge_set([look]), BEGIN).await;
                assert!(reply.degraded.is_empty(), "{reply:?}");
            }
        }
        server.kill();
        for case in &cases {
            for (user, mode) in users.iter().flat_map(|user| [(user, Mode::Enforce), (user, Mode::Quota)]) {
                let mut total = 0;
                for step in 0..WINDOWS * STEPS {
                    let now = BEGIN + Micros::new(WINDOW.get() / STEPS * step);
                    for node in &nodes {
                        let mut charge = Charge { mode, ..charge(user, &case.limit) };
                        // A counter of its own for each mode.
                        charge.key.ordinal = u32::from(mode == Mode::Quota);
                        total += admitted_at(node, charge, now).await;
                    }
                }
                let share = |whole: u64| if whole == 0 { 0 } else { (whole / 3).max(1) };
                let most = 3 * (share(case.at_once) + WINDOWS * share(case.each_window));
                let shape = case.limit.shape();
                println!("{shape:?} {count}+{percent}% {}: {total} of {most}", user[0].value);
                assert!(total <= most, "{shape:?} {count}+{percent}% {}: {total} > {most}", user[0].value);
                // And not much less: what is lost is rounding, and what was used before.
                assert!(total * 2 >= most, "{shape:?} {count}+{percent}%: {total} of {most} is too few");
            }
        }
    }
}

#[tokio::test]
async fn a_node_that_was_asked_nothing_yet_is_counted() {
    let server = RedisServer::start();
    let mut config = config(&server.url());
    config.heartbeat = HEARTBEAT;
    let idle = RedisStore::new(config.clone()).unwrap();
    idle.announce();
    let busy = RedisStore::new(config).unwrap();
    busy.announce();
    eventually("both are known", Duration::from_secs(5), async || {
        [&idle, &busy].iter().all(|node| node.stats().nodes() == 2)
    })
    .await;
}

#[tokio::test]
async fn a_limit_that_is_smaller_than_the_fleet_admits_one_at_each_node() {
    let mut server = RedisServer::start();
    let nodes = three_nodes(&server).await;
    let two = limit(2, 3600, Shape::SlidingLog);
    server.kill();
    for node in &nodes {
        assert_eq!(admitted(node, "a", &two).await, 1);
    }
}

#[tokio::test]
async fn a_node_that_is_gone_is_not_counted_for_long() {
    let server = RedisServer::start();
    let [first, second, third] = three_nodes(&server).await;
    let list = first.stats().node_list();
    assert_eq!((list.len(), list.iter().filter(|node| node.is_this).count()), (3, 1), "{list:?}");
    drop((second, third));
    eventually("it is alone", Duration::from_secs(5), async || first.stats().nodes() == 1).await;
    let list = first.stats().node_list();
    assert!(matches!(&list[..], [own] if own.is_this && own.age.is_zero()), "{list:?}");
}
