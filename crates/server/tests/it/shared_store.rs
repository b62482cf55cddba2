//! Servers that share a real Redis: one limit for all of them, and life without it.

use std::time::Duration;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use tollgate_testkit::RedisServer;

use crate::support::http::{get, post, raw};
use crate::support::wire::{descriptor, request};
use crate::support::{Server, Setup, eventually};

const RULES: &str = "
domain: d
descriptors:
  - key: user
    rate_limit: { name: year, unit: year, requests_per_unit: 100, algorithm: token_bucket, burst: 100 }
  - key: strict
    rate_limit: { unit: year, requests_per_unit: 100, on_store_error: deny }
  - key: open
    rate_limit: { unit: year, requests_per_unit: 1, on_store_error: allow }
";

/// Long enough for a machine that builds something else meanwhile.
const TIMEOUT: &str = "500ms";

fn setup(redis: &RedisServer) -> Setup {
    Setup::new(&[("rules.yaml", RULES)])
        .env("REDIS_SOCKET_TYPE", "tcp")
        .env("REDIS_URL", format!("127.0.0.1:{}", redis.port()))
        .env("REDIS_TIMEOUT", TIMEOUT)
        .env("TOLLGATE_RESP", "127.0.0.1:0")
}

async fn two(redis: &RedisServer) -> [Server; 2] {
    [setup(redis).start().await, setup(redis).start().await]
}

const CHECK: &str = r#"{"domain":"d","descriptors":[{"user":"42"}]}"#;

/// A bulk command.
fn command(words: &[&str]) -> String {
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    let count = words.matches('$').count();
    format!("*{count}\r\n{words}")
}

#[tokio::test]
async fn all_interfaces_of_all_servers_share_one_limit() {
    let redis = RedisServer::start();
    let servers = two(&redis).await;
    let mut asking = tokio::task::JoinSet::new();
    for server in &servers {
        let (http, resp) = (server.addresses.http, server.addresses.resp.unwrap());
        for _ in 0..4 {
            let mut client = server.client().await;
            asking.spawn(async move {
                let mut admitted = 0;
                for _ in 0..10 {
                    let asked = request("d", vec![descriptor(&[("user", "42")])]);
                    let reply = client.should_rate_limit(asked).await.unwrap();
                    admitted += usize::from(reply.get_ref().overall_code() == Code::Ok);
                }
                admitted
            });
            asking.spawn(async move {
                let mut admitted = 0;
                for _ in 0..5 {
                    admitted += usize::from(post(http, "/v1/check", CHECK).await.0 == 200);
                }
                admitted
            });
            asking.spawn(async move {
                let ten = command(&["TOLLGATE.CHECK", "d", "user", "42"]).repeat(10) + &command(&["QUIT"]);
                raw(resp, ten.as_bytes()).await.matches("allow").count()
            });
        }
    }
    let admitted: usize = asking.join_all().await.into_iter().sum();
    assert_eq!(admitted, 100, "200 were asked for");
}

#[tokio::test]
async fn a_pipeline_is_answered_in_its_order() {
    let redis = RedisServer::start();
    let server = setup(&redis).start().await;
    let mut bytes = String::new();
    for _ in 0..300 {
        bytes += &command(&["CL.THROTTLE", "k", "299", "300", "31536000"]);
    }
    bytes += &command(&["ECHO", "between"]);
    bytes += &command(&["CL.THROTTLE", "k", "299", "300", "31536000"]);
    bytes += &command(&["QUIT"]);
    let answers = raw(server.addresses.resp.unwrap(), bytes.as_bytes()).await;
    let (before, after) = answers.split_once("between").unwrap();
    let remaining: Vec<u64> = before
        .split("*5\r\n")
        .skip(1)
        .map(|answer| answer.split("\r\n").nth(2).unwrap().trim_start_matches(':').parse().unwrap())
        .collect();
    let expected: Vec<u64> = (0..300).rev().collect();
    assert_eq!(remaining, expected, "each took one, in the order in which they were sent");
    assert!(after.contains("*5\r\n:1\r\n:300\r\n:0\r\n"), "{after}");
}

#[tokio::test]
async fn without_the_store_limits_do_what_their_rules_say_and_everybody_is_told() {
    let mut redis = RedisServer::start();
    let server = setup(&redis).start().await;
    let http = server.addresses.http;
    server.until_verbose("\"store\":\"ok\"").await;
    let ask = |key: &str| {
        let body = format!(r#"{{"domain":"d","descriptors":[{{"{key}":"42"}}]}}"#);
        let head = format!(
            "POST /v1/check HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}",
            body.len()
        );
        async move { raw(http, format!("{head}\r\n\r\n{body}").as_bytes()).await }
    };
    let before = ask("user").await;
    assert!(before.starts_with("HTTP/1.1 200") && before.contains("\"remaining\":99"), "{before}");
    assert!(!before.contains("x-ratelimit-degraded"), "{before}");

    redis.kill();
    eventually("degraded", || async { ask("user").await.contains("x-ratelimit-degraded: true") }).await;
    let local = ask("user").await;
    assert!(local.starts_with("HTTP/1.1 200") && local.contains("\"degraded\":true"), "{local}");
    assert!(ask("strict").await.starts_with("HTTP/1.1 429"));
    for _ in 0..3 {
        assert!(ask("open").await.starts_with("HTTP/1.1 200"), "one a year, but it is let through");
    }
    let mut client = server.client().await;
    let reply = client.should_rate_limit(request("d", vec![descriptor(&[("user", "42")])])).await.unwrap();
    let headers = &reply.get_ref().response_headers_to_add;
    assert!(headers.iter().any(|header| header.key == "X-Ratelimit-Degraded"), "{headers:?}");
    server.until_verbose("\"store\":\"degraded\"").await;
    assert_eq!(get(http, "/healthcheck").await.0, 200, "a node goes on without its store");
    let (_, page) = get(server.addresses.admin, "/metrics").await;
    assert!(page.contains("tollgate_store_degraded 1\n"), "{page}");
    assert!(!page.contains("tollgate_store_degraded_requests_total 0\n"));

    redis.restart();
    server.until_verbose("\"store\":\"ok\"").await;
    eventually("the store decides again", || async { !ask("user").await.contains("degraded: true") }).await;
    assert!(redis.cli(&["DBSIZE"]).trim() != "0", "it counts there");
}

#[tokio::test]
async fn the_start_does_not_wait_for_the_store() {
    let mut redis = RedisServer::start();
    redis.kill();
    let server = setup(&redis).start().await;
    assert_eq!(post(server.addresses.http, "/v1/check", CHECK).await.0, 200);
    server.until_verbose("\"store\":\"degraded\"").await;
    redis.restart();
    server.until_verbose("\"store\":\"ok\"").await;
}

#[tokio::test]
async fn who_must_not_go_on_without_the_store_is_ill_without_it() {
    let mut redis = RedisServer::start();
    let server = setup(&redis).env("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "true").start().await;
    server.until_verbose("\"store\":\"ok\"").await;
    assert_eq!(get(server.addresses.http, "/healthcheck").await.0, 200);
    redis.kill();
    server.until_verbose("\"store\":\"failed\"").await;
    assert_eq!(get(server.addresses.http, "/healthcheck").await.0, 500);
}

#[tokio::test]
async fn a_key_is_looked_at_and_forgotten_where_all_see_it() {
    let redis = RedisServer::start();
    let [one, other] = two(&redis).await;
    for _ in 0..3 {
        assert_eq!(post(one.addresses.http, "/v1/check", CHECK).await.0, 200);
    }
    let (_, seen) = get(other.addresses.admin, "/v1/keys?domain=d&user=42").await;
    assert!(seen.contains("\"used\":3"), "{seen}");
    let (_, reset) = post(other.addresses.admin, "/v1/keys/reset", CHECK).await;
    assert_eq!(reset, r#"{"forgotten":1}"#);
    let (_, seen) = get(one.addresses.admin, "/v1/keys?domain=d&user=42").await;
    assert!(seen.contains("\"used\":0"), "{seen}");
}

/// Or each would take more than its share if Redis went away before the first request.
#[tokio::test]
async fn servers_know_of_each_other_before_anybody_asks() {
    let redis = RedisServer::start();
    let servers = two(&redis).await;
    // The second knows of the first at once; the first learns of it by its next heartbeat.
    let knows_both = async || {
        let (_, page) = get(servers[1].addresses.admin, "/metrics").await;
        page.contains("tollgate_store_nodes 2")
    };
    eventually("they know of each other", knows_both).await;
}

/// No answer takes longer than the timeout and what a busy machine adds; here
/// only that one comes at all while the store hangs, and soon comes at once.
#[tokio::test]
async fn a_store_that_hangs_holds_nobody_up_for_long() {
    let redis = RedisServer::start();
    let server = setup(&redis).start().await;
    assert_eq!(post(server.addresses.http, "/v1/check", CHECK).await.0, 200);
    redis.freeze();
    let asked = async {
        for _ in 0..20 {
            assert_eq!(post(server.addresses.http, "/v1/check", CHECK).await.0, 200);
        }
    };
    let all = tokio::time::timeout(Duration::from_secs(20), asked).await;
    redis.thaw();
    assert!(all.is_ok(), "twenty timeouts would take 10 s, and after five nobody waits");
}
