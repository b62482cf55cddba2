//! `/v1/keys/blocked`: whom penalties block, on memory and on a Redis that servers share.

use std::net::SocketAddr;

use serde_json::Value;
use tollgate_testkit::RedisServer;

use crate::support::http::{get, post};
use crate::support::{Server, Setup, eventually, replace_file};

const RULES: &str = "
domain: shop
descriptors:
  - key: login
    rate_limit: { name: guesses, algorithm: sliding_log, requests_per_unit: 1, unit: hour, penalty: { after: 2, within: 1h, block: 10m } }
  - key: trial
    shadow_mode: true
    rate_limit: { name: trial, algorithm: sliding_log, requests_per_unit: 1, unit: hour, penalty: { after: 1, within: 1h, block: 5m } }
";

fn one(key: &str, value: &str) -> String {
    serde_json::json!({ "domain": "shop", "descriptors": [{ key: value }] }).to_string()
}

async fn check(server: &Server, key: &str, value: &str, times: usize) {
    for _ in 0..times {
        post(server.addresses.http, "/v1/check", &one(key, value)).await;
    }
}

async fn list(admin: SocketAddr, query: &str) -> Value {
    let (status, text) = get(admin, &format!("/v1/keys/blocked{query}")).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// `guesses login=mallory 3`, with how often it was denied.
async fn blocked(server: &Server) -> Vec<String> {
    let listed = list(server.addresses.admin, "").await;
    let text = |own: &Value, name: &str| own[name].as_str().unwrap_or("?").to_owned();
    let row = |own: &Value| format!("{} {} {}", text(own, "rule"), text(own, "key"), own["denied"]);
    listed["keys"].as_array().unwrap().iter().map(row).collect()
}

#[tokio::test]
async fn blocked_keys_are_listed_until_they_are_not() {
    let server = Setup::new(&[("rules.yaml", RULES)]).start().await;
    let admin = server.addresses.admin;
    check(&server, "login", "alice", 2).await;
    assert_eq!(blocked(&server).await, [""; 0], "one denial is no block");
    check(&server, "login", "mallory", 5).await;
    check(&server, "trial", "bob", 2).await;
    assert_eq!(blocked(&server).await, ["guesses login=mallory 3", "trial trial=bob 1"]);
    let listed = list(admin, "?rule=guesses&domain=shop").await;
    let (own, left) = (&listed["keys"][0], listed["keys"][0]["blocked_for_ms"].as_u64().unwrap());
    assert!((500_000..=600_000).contains(&left), "{left}");
    assert_eq!((own["shadow"].as_bool(), own["path"].as_str()), (Some(false), Some("shop.login")));
    assert_eq!((listed["keys"].as_array().unwrap().len(), listed["names"].as_str()), (1, Some("clear")));
    assert_eq!(list(admin, "?rule=trial").await["keys"][0]["shadow"], true);
    let cut = list(admin, "?limit=1").await;
    assert_eq!((cut["keys"].as_array().unwrap().len(), cut["more"].as_u64()), (1, Some(1)));
    for (query, part) in [("?limit=0", "/limit"), ("?limit=201", "/limit"), ("?rul=x", "rul")] {
        let (status, text) = get(admin, &format!("/v1/keys/blocked{query}")).await;
        assert!((status, text.contains(part)) == (400, true), "{query}: {text}");
    }

    post(admin, "/v1/keys/reset", &one("login", "mallory")).await;
    assert_eq!(blocked(&server).await, ["trial trial=bob 1"], "a reset ends the block");
    let without = RULES.replace(", penalty: { after: 1, within: 1h, block: 5m }", "");
    replace_file(&server.rules_folder().join("rules.yaml"), without);
    eventually("no penalty is left", || async { blocked(&server).await.is_empty() }).await;
}

#[tokio::test]
async fn names_are_kept_as_in_the_history_and_long_ones_not_at_all() {
    let hashed = Setup::new(&[("rules.yaml", RULES)]).env("TOLLGATE_HISTORY_KEYS", "hashed").start().await;
    check(&hashed, "login", "mallory", 3).await;
    let listed = list(hashed.addresses.admin, "").await;
    let key = listed["keys"][0]["key"].as_str().unwrap();
    assert!(!key.is_empty() && !key.contains("mallory"), "{key}");
    check(&hashed, "login", &"x".repeat(2_000), 3).await;
    let listed = list(hashed.addresses.admin, "").await;
    assert_eq!((listed["keys"].as_array().unwrap().len(), listed["unlisted"].as_u64()), (1, Some(1)));

    let off = Setup::new(&[("rules.yaml", RULES)]).env("TOLLGATE_HISTORY", "false").start().await;
    check(&off, "login", "mallory", 3).await;
    let listed = list(off.addresses.admin, "").await;
    assert_eq!((listed["names"].as_str(), listed["keys"][0].get("key")), (Some("off"), None));
    assert_eq!(listed["keys"][0]["rule"], "guesses");
}

#[tokio::test]
async fn on_redis_a_block_is_listed_where_it_was_met_and_a_reset_anywhere_ends_it() {
    let redis = RedisServer::start();
    let start = || {
        Setup::new(&[("rules.yaml", RULES)])
            .env("REDIS_SOCKET_TYPE", "tcp")
            .env("REDIS_URL", format!("127.0.0.1:{}", redis.port()))
            .env("REDIS_TIMEOUT", "500ms")
            .start()
    };
    let (one_node, other) = (start().await, start().await);
    check(&one_node, "login", "mallory", 3).await;
    assert_eq!(blocked(&one_node).await, ["guesses login=mallory 1"]);
    assert_eq!(blocked(&other).await, [""; 0], "it was not here");
    check(&other, "login", "mallory", 1).await;
    assert_eq!(blocked(&other).await, ["guesses login=mallory 1"]);
    post(other.addresses.admin, "/v1/keys/reset", &one("login", "mallory")).await;
    assert_eq!(blocked(&one_node).await, [""; 0]);

    check(&one_node, "login", "mallory", 3).await;
    drop(redis);
    eventually("it is listed without the store", || async {
        list(one_node.addresses.admin, "").await["keys"][0]["degraded"] == true
    })
    .await;
}
