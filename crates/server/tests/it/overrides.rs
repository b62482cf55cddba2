//! Overrides as operators make them: over HTTP, in a folder, and on a Redis that nodes share.

mod bounds;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::{RedisCluster, RedisServer};

use crate::support::http::{get, post, request};
use crate::support::{Server, Setup, eventually};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { name: yearly, unit: year, requests_per_unit: 2, algorithm: sliding_counter }
  - key: both
    rate_limits:
      - { name: one, unit: year, requests_per_unit: 2 }
      - { name: two, unit: day, requests_per_unit: 2, algorithm: sliding_log }
";

async fn send(admin: SocketAddr, method: &str, path: &str, body: &str) -> (u16, Value) {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    let head = head + &format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    let (status, body) = request(admin, &(head + body)).await;
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

async fn put(server: &Server, user: &str, limit: Value, seconds: u64) -> String {
    let body = json!({
        "domain": "shop", "descriptor": { "user": user }, "limit": limit, "expires_in_s": seconds,
        "reason": "a test", "who": "ada",
    });
    let (status, made) = send(server.addresses.admin, "PUT", "/v1/overrides", &body.to_string()).await;
    assert_eq!(status, 200, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

async fn remove(server: &Server, id: &str) -> u16 {
    let path = format!("/v1/overrides?id={id}&who=bob&reason=done");
    send(server.addresses.admin, "DELETE", &path, "").await.0
}

async fn check(server: &Server, user: &str) -> Value {
    let body = json!({ "domain": "shop", "descriptors": [{ "user": user }] }).to_string();
    serde_json::from_str(&post(server.addresses.http, "/v1/check", &body).await.1).unwrap()
}

async fn peek(server: &Server, user: &str) -> Value {
    let body = json!({ "domain": "shop", "descriptors": [{ "user": user }] }).to_string();
    serde_json::from_str(&post(server.addresses.http, "/v1/peek", &body).await.1).unwrap()
}

async fn json_at(server: &Server, path: &str) -> Value {
    serde_json::from_str(&get(server.addresses.admin, path).await.1).unwrap()
}

async fn until_limit(server: &Server, user: &str, limit: u64) {
    eventually(&format!("a limit of {limit} for {user}"), || async {
        peek(server, user).await["decisions"][0]["limit"] == limit
    })
    .await;
}

#[tokio::test]
async fn an_override_is_made_listed_obeyed_and_removed_and_the_log_has_it_all() {
    let server = Server::with(RULES).await;
    let raised = put(&server, "42", json!(10), 3_600).await;
    let seen = check(&server, "42").await;
    assert_eq!(
        (&seen["decisions"][0]["limit"], &seen["decisions"][0]["overridden"]),
        (&json!(10), &json!(true))
    );
    assert_eq!(seen["decisions"][0]["remaining"], 9);
    assert_eq!(check(&server, "43").await["decisions"][0]["limit"], 2, "nobody else is meant");
    let key = json_at(&server, "/v1/keys?domain=shop&user=42").await;
    assert_eq!((&key["counters"][0]["limit"], &key["counters"][0]["overridden"]), (&json!(10), &json!(true)));

    put(&server, "7", json!("unlimited"), 3_600).await;
    let free = check(&server, "7").await;
    assert_eq!(
        (&free["verdict"], &free["reason"], &free["decisions"]),
        (&json!("allow"), &json!("override"), &json!([]))
    );
    put(&server, "666", json!("deny"), 3_600).await;
    let denied = check(&server, "666").await;
    assert_eq!((&denied["verdict"], &denied["reason"]), (&json!("deny"), &json!("override")));
    assert_eq!((&denied["retry_after_ms"], &denied["status"]), (&Value::Null, &json!(429)));

    let list = json_at(&server, "/v1/overrides").await;
    assert_eq!((&list["kept_in"], list["overrides"].as_array().unwrap().len()), (&json!("folder"), 3));
    // A second one for the same descriptor takes the place of the first.
    let again = put(&server, "42", json!(1), 3_600).await;
    assert_eq!(remove(&server, &raised).await, 404);
    assert_eq!(check(&server, "42").await["verdict"], "deny");
    assert_eq!(remove(&server, &again).await, 200);
    assert_eq!(check(&server, "42").await["decisions"][0]["limit"], 2);

    let audit = json_at(&server, "/v1/audit").await;
    let lines: Vec<(&str, &str)> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["action"].as_str().unwrap(), entry["override"]["who"].as_str().unwrap()))
        .collect();
    assert_eq!(lines, [("remove", "bob"), ("put", "ada"), ("put", "ada"), ("put", "ada"), ("put", "ada")]);
}

#[tokio::test]
async fn an_override_ends_by_itself_and_what_cannot_be_is_refused() {
    let server = Server::with(RULES).await;
    put(&server, "42", json!(5), 1).await;
    until_limit(&server, "42", 2).await;
    eventually("an empty list", || async {
        json_at(&server, "/v1/overrides").await["overrides"].as_array().unwrap().is_empty()
    })
    .await;

    let admin = server.addresses.admin;
    let good = json!({
        "domain": "shop", "descriptor": { "user": "42" }, "limit": 5, "expires_in_s": 60, "reason": "r", "who": "w",
    });
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body.to_string()
    };
    let cases = [
        (with("domain", json!("")), "/domain"),
        (with("descriptor", json!({})), "/descriptor"),
        (with("descriptor", json!({ "nobody": "x" })), "/descriptor"),
        (with("descriptor", json!({ "both": "x" })), "/rule"),
        (with("rule", json!("yaerly")), "/rule"),
        (with("expires_in_s", json!(0)), "/expires_in_s"),
        (with("expires_in_s", json!(1_u64 << 40)), "/expires_in_s"),
        (with("reason", json!(" ")), "/reason"),
        (with("who", json!("x".repeat(501))), "/who"),
        (with("limit", json!("none")), ""),
        (with("limit", json!(-1)), ""),
        (with("colour", json!("red")), ""),
        ("[".to_owned(), ""),
    ];
    for (body, pointer) in cases {
        let (status, problem) = send(admin, "PUT", "/v1/overrides", &body).await;
        assert_eq!((status, problem["pointer"].as_str()), (400, Some(pointer)), "{body} {problem}");
    }
    let named = with("descriptor", json!([{ "key": "both", "value": "x" }]))
        .replace("\"who\"", "\"rule\":\"two\",\"who\"");
    assert_eq!(send(admin, "PUT", "/v1/overrides", &named).await.0, 200);
    // What another web site could make a browser send is refused.
    let plain = good.to_string();
    let head = format!(
        "PUT /v1/overrides HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n",
        plain.len()
    );
    assert_eq!(request(admin, &format!("{head}content-type: text/plain\r\n\r\n{plain}")).await.0, 415);
    let foreign =
        format!("{head}content-type: application/json\r\norigin: http://evil.example\r\n\r\n{plain}");
    assert_eq!(request(admin, &foreign).await.0, 403);
}

#[tokio::test]
async fn overrides_and_their_log_outlive_the_process_in_a_file_of_its_owner_alone() {
    let data = tempfile::tempdir().unwrap();
    let start = || Setup::new(&[("rules.yaml", RULES)]).data(data.path()).start();
    let server = start().await;
    eventually("a history", || async { get(server.addresses.admin, "/v1/history/status").await.0 == 200 })
        .await;
    put(&server, "42", json!(7), 3_600).await;
    server.stop().unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let file = std::fs::metadata(data.path().join("overrides.json")).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }
    let server = start().await;
    until_limit(&server, "42", 7).await;
    assert_eq!(json_at(&server, "/v1/audit").await["entries"].as_array().unwrap().len(), 1);
    server.stop().unwrap();
    std::fs::write(data.path().join("overrides.json"), "{").unwrap();
    let server = start().await;
    assert_eq!(peek(&server, "42").await["decisions"][0]["limit"], 2, "rubbish is nobody's exception");
    assert!(data.path().join("overrides.json.damaged").exists());
}

async fn three(store: &str) -> Vec<Server> {
    let mut servers = Vec::new();
    for _ in 0..3 {
        let setup = Setup::new(&[("rules.yaml", RULES)]).env("REDIS_TIMEOUT", "500ms");
        servers.push(setup.file(format!("store: {store}\n")).start().await);
    }
    servers
}

/// What three nodes do with an override, and what they do without the one that made it.
async fn shared_by_three(mut servers: Vec<Server>) {
    let id = put(&servers[0], "42", json!(9), 3_600).await;
    for server in &servers {
        let asked = std::pin::pin!(until_limit(server, "42", 9));
        tokio::time::timeout(Duration::from_secs(5), asked).await.unwrap();
    }
    let mut admitted = 0;
    for turn in 0..20 {
        admitted += usize::from(check(&servers[turn % 3], "42").await["verdict"] == "allow");
    }
    assert_eq!(admitted, 9, "all nodes count by the same other limit");
    // The node that made it goes; the others remember, and another one removes it.
    servers.remove(0).stop().unwrap();
    assert_eq!(peek(&servers[0], "42").await["decisions"][0]["limit"], 9);
    assert_eq!(remove(&servers[1], &id).await, 200);
    until_limit(&servers[0], "42", 2).await;
    for server in &servers {
        assert_eq!(json_at(server, "/v1/audit").await["entries"].as_array().unwrap().len(), 2);
        assert_eq!(json_at(server, "/v1/overrides").await["kept_in"], "redis");
    }
    // One that comes later knows what is in force.
    put(&servers[0], "43", json!("deny"), 3_600).await;
    eventually("the other denies, too", || async { peek(&servers[1], "43").await["verdict"] == "deny" })
        .await;
}

/// How long it takes until one node obeys what was put on another; the middle of several times, because a
/// machine that builds something else meanwhile may be late once or twice.
#[tokio::test]
async fn an_override_is_in_force_on_another_node_within_a_second() {
    let redis = RedisServer::start();
    let servers = three(&redis.url()).await;
    let mut took = Vec::new();
    for user in 0..7 {
        let user = user.to_string();
        put(&servers[0], &user, json!(9), 3_600).await;
        let put_at = tokio::time::Instant::now();
        until_limit(&servers[1], &user, 9).await;
        took.push(put_at.elapsed());
    }
    took.sort();
    assert!(took[3] < Duration::from_secs(1), "{took:?}");
}

#[tokio::test]
async fn three_nodes_on_one_redis_obey_the_same_overrides() {
    let redis = RedisServer::start();
    shared_by_three(three(&redis.url()).await).await;
}

#[tokio::test]
async fn three_nodes_on_a_cluster_obey_the_same_overrides() {
    let cluster = RedisCluster::start();
    shared_by_three(three(&cluster.url()).await).await;
}

#[tokio::test]
async fn without_redis_what_was_known_holds_until_it_ends_and_nothing_is_changed() {
    let mut redis = RedisServer::start();
    let servers = three(&redis.url()).await;
    put(&servers[0], "42", json!("deny"), 3_600).await;
    put(&servers[0], "43", json!("deny"), 4).await;
    for user in ["42", "43"] {
        eventually("all deny", || async { peek(&servers[2], user).await["verdict"] == "deny" }).await;
    }
    redis.kill();
    assert_eq!(check(&servers[2], "42").await["reason"], "override");
    let body = json!({
        "domain": "shop", "descriptor": { "user": "1" }, "limit": 5, "expires_in_s": 60, "reason": "r", "who": "w",
    });
    let (status, problem) = send(servers[0].addresses.admin, "PUT", "/v1/overrides", &body.to_string()).await;
    assert_eq!(status, 503, "{problem}");
    eventually("the short one ends", || async { peek(&servers[2], "43").await["verdict"] == "allow" }).await;
    assert_eq!(check(&servers[2], "42").await["verdict"], "deny", "the long one does not");
}
