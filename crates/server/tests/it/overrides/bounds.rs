//! As many overrides as there may be, and as much of their log: in a folder and on Redis.

use std::fmt::Write as _;

use serde_json::json;
use tollgate_server::bounds::{AUDIT_MAX, OVERRIDES_MAX};
use tollgate_testkit::RedisServer;

use super::{RULES, json_at, put, remove, send, until_limit};
use crate::support::http::get;
use crate::support::{Server, Setup, eventually};

/// An override of a user, byte for byte as it is kept: what is removed must be what is there.
fn record(user: &str) -> String {
    format!(
        r#"{{"id":"{user}","domain":"shop","descriptor":[{{"key":"user","value":"{user}"}}],"limit":9,"expires_at_unix_s":99999999999,"reason":"full","who":"ada","since_unix_s":0}}"#
    )
}

fn audited(user: &str) -> String {
    format!(r#"{{"at_unix_s":0,"action":"put","override":{}}}"#, record(user))
}

/// One more is refused, another for the same descriptor is not, and there is room once one is removed.
async fn is_full(server: &Server) {
    until_limit(server, "7", 9).await;
    let more = json!({
        "domain": "shop", "descriptor": { "user": "one more" }, "limit": 3, "expires_in_s": 60,
        "reason": "a test", "who": "ada",
    });
    let (status, problem) = send(server.addresses.admin, "PUT", "/v1/overrides", &more.to_string()).await;
    assert_eq!(status, 409, "{problem}");
    let detail = format!("there are {OVERRIDES_MAX} overrides already");
    assert_eq!(problem["detail"].as_str(), Some(detail.as_str()), "{problem}");
    put(server, "7", json!(8), 60).await;
    until_limit(server, "7", 8).await;
    assert_eq!(remove(server, "9").await, 200);
    put(server, "one more", json!(3), 60).await;
    let audit = json_at(server, "/v1/audit").await;
    let entries = audit["entries"].as_array().unwrap();
    assert_eq!(entries.len(), AUDIT_MAX, "the oldest lines have gone");
    assert_eq!(entries[0]["override"]["descriptor"][0]["value"], "one more", "the newest is first");
    assert_eq!(entries[1]["action"], "remove");
}

#[tokio::test]
async fn a_folder_holds_so_many_and_no_more() {
    let data = tempfile::tempdir().unwrap();
    let overrides: Vec<String> = (0..OVERRIDES_MAX).map(|user| record(&user.to_string())).collect();
    let audit: Vec<String> = (0..AUDIT_MAX).map(|user| audited(&user.to_string())).collect();
    let file = format!(r#"{{"overrides":[{}],"audit":[{}]}}"#, overrides.join(","), audit.join(","));
    std::fs::write(data.path().join("overrides.json"), file).unwrap();
    let server = Setup::new(&[("rules.yaml", RULES)]).data(data.path()).start().await;
    eventually("a history", || async { get(server.addresses.admin, "/v1/history/status").await.0 == 200 })
        .await;
    is_full(&server).await;
}

#[tokio::test]
async fn redis_holds_so_many_and_no_more() {
    let redis = RedisServer::start();
    let mut script = String::from("local name, row, note = ARGV[1], ARGV[2], ARGV[3] ");
    write!(
        script,
        "for user = 0, {} do redis.call('HSET', KEYS[1], (name:gsub('USER', user)), (row:gsub('USER', user))) end \
         for user = 1, {AUDIT_MAX} do redis.call('LPUSH', KEYS[2], (note:gsub('USER', user))) end",
        OVERRIDES_MAX - 1
    )
    .unwrap();
    let keys = ["rows", "audit"].map(|name| format!("o1:{{overrides}}:{name}"));
    let name = json!(["shop", [{ "key": "user", "value": "USER" }], null]).to_string();
    let (row, note) = (record("USER"), audited("USER"));
    redis.cli(&["EVAL", &script, "2", &keys[0], &keys[1], &name, &row, &note]);
    let setup = Setup::new(&[("rules.yaml", RULES)]).env("REDIS_TIMEOUT", "2s");
    let server = setup.file(format!("store: {}\n", redis.url())).start().await;
    is_full(&server).await;
}
