//! Requests that arrive together, on a real server.

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tollgate_core::{Entry, Limit, Shape};
use tollgate_redis::RedisStore;
use tollgate_testkit::{RedisCluster, RedisServer};

use crate::support::{charge, charge_set, check, check_set, every_algorithm, limit, store};

fn thread_of_a_worker() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// How many of `callers`, who all come at once, are let through.
async fn admitted(
    store: &Arc<RedisStore>,
    callers: usize,
    users: &'static [&'static str],
    limit: &Limit,
) -> usize {
    let mut asking = JoinSet::new();
    for caller in 0..callers {
        let (store, limit) = (Arc::clone(store), *limit);
        asking.spawn(async move {
            let (decision, degraded) = check(&store, users[caller % users.len()], &limit).await;
            assert!(!degraded, "{:?}", store.stats());
            !decision.verdict.is_deny()
        });
    }
    asking.join_all().await.into_iter().filter(|admitted| *admitted).count()
}

fn calls(server: &RedisServer) -> u64 {
    let stats = server.cli(&["info", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or_default();
    let calls = line.split_once("calls=").and_then(|(_, rest)| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[test]
fn requests_that_arrive_together_share_a_call_and_are_decided_exactly() {
    let server = RedisServer::start();
    let store = Arc::new(store(&server.url()));
    thread_of_a_worker().block_on(async {
        for (number, limit) in every_algorithm(10).into_iter().enumerate() {
            let before = calls(&server);
            // Each limit has counters of its own, but for the two fixed windows.
            let expected = if number == 1 { 0 } else { 20 };
            assert_eq!(admitted(&store, 200, &["anna", "ben"], &limit).await, expected, "{limit:?}");
            let calls = calls(&server) - before;
            assert!((4..=8).contains(&calls), "{calls} calls for 200 requests in batches of 64");
        }
    });
}

#[test]
fn a_foreign_value_is_discarded_without_harm_to_its_batch() {
    let server = RedisServer::start();
    let store = Arc::new(store(&server.url()));
    thread_of_a_worker().block_on(async {
        for limit in every_algorithm(10).iter().skip(1) {
            let entries = [Entry { key: "user", value: "eve" }];
            let name = tollgate_redis::keys::name("", &charge(&entries, limit).key);
            server.cli(&["del", &name]);
            server.cli(&["lpush", &name, "x"]);
            assert_eq!(admitted(&store, 40, &["anna", "eve"], limit).await, 20, "{limit:?}");
            server.cli(&["flushall"]);
        }
        assert!(store.stats().discarded.get() > 0);
    });
}

#[test]
fn lists_that_arrive_together_are_decided_all_or_nothing() {
    let server = RedisServer::start();
    let store = Arc::new(store(&server.url()));
    thread_of_a_worker().block_on(async {
        for limit in every_algorithm(10) {
            server.cli(&["flushall"]);
            let mut asking = JoinSet::new();
            for caller in 0..60 {
                let store = Arc::clone(&store);
                asking.spawn(async move {
                    let mine = [Entry { key: "user", value: if caller % 2 == 0 { "anna" } else { "ben" } }];
                    let ours = [Entry { key: "user", value: "all" }];
                    let (few, many) = (limit, every_algorithm(15)[5]);
                    let answer =
                        check_set(&store, &charge_set([charge(&mine, &few), charge(&ours, &many)])).await;
                    assert!(answer.degraded.is_empty());
                    answer.decisions.iter().all(|decision| !decision.verdict.is_deny())
                });
            }
            let admitted = asking.join_all().await.into_iter().filter(|admitted| *admitted).count();
            assert_eq!(admitted, 15, "the limit of all is the lower one: {limit:?}");
        }
    });
}

#[test]
fn a_batch_that_ends_with_its_runtime_keeps_nobody_waiting() {
    let server = RedisServer::start();
    let store = Arc::new(store(&server.url()));
    let limit = every_algorithm(10)[5];
    let first = thread_of_a_worker();
    // Joins a batch, and the runtime ends before its task runs.
    first.block_on(async {
        let entries = [Entry { key: "user", value: "anna" }];
        let asked = charge_set([charge(&entries, &limit)]);
        let mut asking = std::pin::pin!(check_set(&store, &asked));
        assert!(
            std::future::poll_fn(|context| std::task::Poll::Ready(asking.as_mut().poll(context)))
                .await
                .is_pending()
        );
    });
    drop(first);
    let (decision, degraded) = thread_of_a_worker().block_on(check(&store, "anna", &limit));
    assert!(!degraded, "{:?}", store.stats());
    assert_eq!(decision.remaining, 9);
}

/// Sixty users, whose slots are spread over all servers of a cluster.
const USERS: [&str; 60] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18",
    "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31", "32", "33", "34", "35",
    "36", "37", "38", "39", "40", "41", "42", "43", "44", "45", "46", "47", "48", "49", "50", "51", "52",
    "53", "54", "55", "56", "57", "58", "59",
];

#[test]
fn requests_for_one_server_of_a_cluster_share_a_call_whatever_their_slots() {
    let cluster = RedisCluster::start();
    let store = Arc::new(store(&cluster.url()));
    let calls = || cluster.servers.iter().map(calls).sum::<u64>();
    thread_of_a_worker().block_on(async {
        let ample = limit(1_000, 60, Shape::FixedWindow);
        assert_eq!(admitted(&store, 60, &USERS, &ample).await, 60, "all servers are connected to");
        for (number, limit) in every_algorithm(3).into_iter().enumerate() {
            let before = calls();
            // Each limit has counters of its own, but for the two fixed windows.
            let expected = if number == 1 { 0 } else { 180 };
            assert_eq!(admitted(&store, 300, &USERS, &limit).await, expected, "{limit:?}");
            let calls = calls() - before;
            assert!(
                (3..=12).contains(&calls),
                "{calls} calls for 300 requests to 3 servers in batches of 64"
            );
        }
    });
    assert_eq!(store.stats().redirects.get(), 0);
}

#[test]
fn a_foreign_value_in_a_cluster_is_discarded_without_harm_to_its_batch() {
    let cluster = RedisCluster::start();
    let store = Arc::new(store(&cluster.url()));
    thread_of_a_worker().block_on(async {
        for limit in every_algorithm(3).iter().skip(1) {
            let entries = [Entry { key: "user", value: "7" }];
            let name = tollgate_redis::keys::name("", &charge(&entries, limit).key);
            let master = cluster.master_of(tollgate_redis::keys::slot(&name)).unwrap();
            cluster.servers[master].cli(&["del", &name]);
            cluster.servers[master].cli(&["lpush", &name, "x"]);
            assert_eq!(admitted(&store, 300, &USERS, limit).await, 180, "{limit:?}");
        }
    });
    assert!(store.stats().discarded.get() >= 7, "{:?}", store.stats());
}
