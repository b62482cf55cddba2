//! Nodes on one Redis have one history, and outlive it.

use serde_json::json;
use tollgate_testkit::RedisServer;

use super::{RULES, asked, row, top, v1};
use crate::support::http::get;
use crate::support::{Server, Setup, eventually};

async fn node(redis: &RedisServer) -> Server {
    Setup::new(&[("rules.yaml", RULES)])
        .env("REDIS_SOCKET_TYPE", "tcp")
        .env("REDIS_URL", format!("127.0.0.1:{}", redis.port()))
        // Long enough for a machine that builds something else meanwhile.
        .env("REDIS_TIMEOUT", "500ms")
        .env("CACHE_KEY_PREFIX", "shop:")
        .start()
        .await
}

fn check(path: &str) -> String {
    format!(r#"{{"domain":"shop","descriptors":[{{"path":"{path}"}}]}}"#)
}

#[tokio::test]
async fn every_node_answers_for_all() {
    let redis = RedisServer::start();
    let nodes = [node(&redis).await, node(&redis).await];
    for (node, times) in nodes.iter().zip([3, 4]) {
        v1(node, "/v1/check", &check("/cart"), times).await;
        v1(node, "/v1/check", &check(&format!("/{times}")), times).await;
    }
    // A node answers for itself at once, and for the others once they have flushed.
    eventually("both have written", || async {
        let mut told = Vec::new();
        for node in &nodes {
            if get(node.addresses.admin, "/v1/history/summary?last=1h").await.0 == 200 {
                told.push(asked(node, "/v1/history/summary?last=1h").await["total"].clone());
            }
        }
        told == [json!(14), json!(14)]
    })
    .await;
    for node in &nodes {
        assert_eq!(top(node, "route").await, [row("/cart", 7, 0), row("/4", 4, 0), row("/3", 3, 0)]);
        let status = asked(node, "/v1/history/status").await;
        assert_eq!(status["place"], format!("redis://127.0.0.1:{}", redis.port()));
        assert_eq!((&status["open"], &status["damaged"]), (&json!(true), &json!(0)));
    }
    assert_eq!(redis.cli(&["exists", "shop:h1:{history}:l"]), "1", "behind the prefix of the counters");
}

#[tokio::test]
async fn what_was_counted_while_redis_was_gone_comes_later_and_once() {
    let mut redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let node = node(&redis).await;
    v1(&node, "/v1/check", &check("/before"), 2).await;
    // It is opened in the background, and read once it is open.
    eventually("it is kept", || async {
        get(node.addresses.admin, "/v1/history/top?last=1h").await.0 == 200
            && top(&node, "route").await == [row("/before", 2, 0)]
    })
    .await;
    eventually("it is written", || async { redis.cli(&["exists", "shop:h1:{history}:root"]) == "1" }).await;
    redis.kill();
    assert_eq!(v1(&node, "/v1/check", &check("/meanwhile"), 3).await, [200, 200, 200], "limiting goes on");
    eventually("the status says so", || async {
        let status = asked(&node, "/v1/history/status").await;
        status["error"].as_str().is_some_and(|error| error.contains("could not be asked"))
    })
    .await;
    redis.restart();
    eventually("it is kept again", || async {
        get(node.addresses.admin, "/v1/history/top?last=1h").await.0 == 200
            && top(&node, "route").await == [row("/meanwhile", 3, 0), row("/before", 2, 0)]
    })
    .await;
}
