//! Answers of a running server, as they leave its socket.

use crate::support::golden::{Transcript, assert_rounded_up};
use crate::support::{Server, Setup};

const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

/// Every kind of answer, in windows that do not end while a test runs.
const RULES: &str = r#"
domain: shop
descriptors:
  - key: login
    rate_limit: { name: login, algorithm: sliding_log, requests_per_unit: 2, unit: hour, message: "Too many attempts. Ask the help desk: \"0800\"." }
  - key: plain
    rate_limit: { algorithm: token_bucket, requests_per_unit: 1, unit: hour }
  - key: both
    rate_limits:
      - { name: burst, algorithm: sliding_log, requests_per_unit: 2, unit: hour }
      - { name: sustained, algorithm: sliding_log, requests_per_unit: 5, unit: day }
  - key: soft
    rate_limit: { name: soft, algorithm: sliding_log, requests_per_unit: 2, unit: hour, throttle: { soft: { exceed: 50% } } }
  - key: queue
    rate_limit: { name: queue, algorithm: leaky_bucket, requests_per_unit: 1, unit: hour, burst: 1 }
  - key: trial
    shadow_mode: true
    rate_limit: { name: trial, algorithm: sliding_log, requests_per_unit: 1, unit: hour }
  - key: remote_address
    rate_limit: { name: address, algorithm: sliding_log, requests_per_unit: 1, unit: hour, message: slow down }
"#;

const MAPPING: &str = "
mapping:
  domain: shop
  trusted_proxies: [127.0.0.1]
  descriptors:
    - [remote_address: {}]
    - [request_headers: { header_name: x-soft, descriptor_key: soft }]
";

fn asked(key: &str, cost: u64) -> String {
    format!(r#"{{"domain":"shop","descriptors":[{{"{key}":"x"}}],"cost":{cost}}}"#)
}

async fn check(told: &mut Transcript, server: &Server, key: &str, cost: u64) -> String {
    told.ask(server.addresses.http, "POST /v1/check", &asked(key, cost)).await
}

#[tokio::test]
async fn check_tells_what_is_left_and_when_to_come_again() {
    let server = Server::with(RULES).await;
    let mut told = Transcript::new(&[HOUR, DAY]);
    told.note("Two an hour, with a message of the operator's own.");
    for _ in 0..2 {
        check(&mut told, &server, "login", 1).await;
    }
    assert_rounded_up(&check(&mut told, &server, "login", 1).await);
    told.note("More than will ever pass: no time is told.");
    check(&mut told, &server, "login", 3).await;
    told.note("A rule without a name or a message.");
    check(&mut told, &server, "plain", 1).await;
    assert_rounded_up(&check(&mut told, &server, "plain", 1).await);
    told.note("No rule applies.");
    check(&mut told, &server, "nothing", 1).await;
    told.check("told_check");
}

#[tokio::test]
async fn check_tells_of_several_limits_of_soft_ones_of_waits_and_not_of_the_shadow() {
    let server = Server::with(RULES).await;
    let mut told = Transcript::new(&[HOUR, 2 * HOUR, DAY]);
    told.note("Two limits: both are told while it passes, and only the one that refuses after that.");
    check(&mut told, &server, "both", 2).await;
    assert_rounded_up(&check(&mut told, &server, "both", 1).await);
    told.note("A soft limit of two lets a third pass, and says so.");
    check(&mut told, &server, "soft", 2).await;
    check(&mut told, &server, "soft", 1).await;
    assert_rounded_up(&check(&mut told, &server, "soft", 1).await);
    told.note("The second is to wait, and a third is too many.");
    for _ in 0..3 {
        check(&mut told, &server, "queue", 1).await;
    }
    told.note("What is in the shadow is decided and told to nobody.");
    for _ in 0..2 {
        check(&mut told, &server, "trial", 1).await;
    }
    told.check("told_kinds");
}

#[tokio::test]
async fn authz_tells_proxies_and_nginx_the_way_it_understands() {
    let server = Setup::new(&[("rules.yaml", RULES)]).file(MAPPING).start().await;
    let http = server.addresses.http;
    let mut told = Transcript::new(&[HOUR]);
    told.note("One an hour for each address, asked by a proxy.");
    let client = |last: u8| format!("X-Forwarded-For: 203.0.113.{last}");
    told.ask_with(http, "GET /v1/authz", &[&client(1)], "").await;
    assert_rounded_up(&told.ask_with(http, "GET /v1/authz", &[&client(1)], "").await);
    told.note("nginx asks for a 403, which carries the same and the marker.");
    assert_rounded_up(&told.ask_with(http, "GET /v1/authz?deny=403", &[&client(1)], "").await);
    told.note("Soft, and then not even that.");
    for last in 2..6 {
        told.ask_with(http, "GET /v1/authz", &[&client(last), "X-Soft: y"], "").await;
    }
    told.check("told_authz");
}

#[tokio::test]
async fn the_fields_of_the_ietf_can_name_the_counter_or_be_left_out() {
    for (setting, value, golden) in [
        ("TOLLGATE_RATELIMIT_HEADERS", "off", "told_fields_off"),
        ("TOLLGATE_RATELIMIT_HEADERS", "draft-11", "told_fields_draft_11"),
        ("TOLLGATE_PARTITION_KEYS", "true", "told_fields_partition"),
        ("SHADOW_MODE", "true", "told_all_shadow"),
    ] {
        let server = Setup::new(&[("rules.yaml", RULES)]).env(setting, value).start().await;
        let mut told = Transcript::new(&[HOUR, DAY]);
        told.note(&format!("{setting}={value}"));
        for cost in [2, 1] {
            check(&mut told, &server, "both", cost).await;
        }
        told.check(golden);
    }
}
