//! What several nodes admit together while the store is away, as
//! `docs/guide/redis.md` says.

use std::time::Duration;

use tollgate_core::{Limit, Shape};
use tollgate_redis::RedisStore;
use tollgate_testkit::RedisServer;

use crate::support::{check, config, eventually, limit};

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
