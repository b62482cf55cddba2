//! Shadow, quota, replacement and the flags that hold for all rules.

use crate::support::wire::{OK, OVER, ask, ask_one, brief, descriptor, request};
use crate::support::{Server, Setup};

const RULES: &str = "
domain: d
descriptors:
  - key: shadow
    shadow_mode: true
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: one
    rate_limit: { name: one, unit: day, requests_per_unit: 1 }
  - key: quota
    value: a
    quota_mode: true
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: quota
    value: b
    quota_mode: true
    rate_limit: { unit: day, requests_per_unit: 2 }
  - key: vip
    rate_limit: { unit: day, requests_per_unit: 100, replaces: [{ name: one }] }
";

#[tokio::test]
async fn a_shadow_rule_tells_what_is_left_and_denies_nothing() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    for _ in 0..3 {
        let response = ask_one(&mut client, "d", &[("shadow", "x")]).await;
        assert_eq!(brief(&response), "OK: OK 0 of 1/DAY");
    }
    assert_eq!(server.counter("ratelimit.service.rate_limit.d.shadow.shadow_mode").await, 2);
    assert_eq!(server.counter("ratelimit.service.rate_limit.d.shadow.over_limit").await, 2);
}

#[tokio::test]
async fn global_shadow_changes_the_overall_code_and_nothing_else() {
    let server = Setup::new(&[("rules.yaml", RULES)])
        .env("SHADOW_MODE", "true")
        .env("LIMIT_RESPONSE_HEADERS_ENABLED", "true")
        .start()
        .await;
    let mut client = server.client().await;
    ask_one(&mut client, "d", &[("one", "x")]).await;
    let response = ask_one(&mut client, "d", &[("one", "x")]).await;
    assert_eq!(brief(&response), "OK: OVER 0 of 1/DAY \"one\"");
    assert_eq!(response.response_headers_to_add[1].value, "0");
    assert_eq!(server.counter("ratelimit.service.global_shadow_mode").await, 1);
}

#[tokio::test]
async fn quotas_refuse_only_together() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    let both = || request("d", vec![descriptor(&[("quota", "a")]), descriptor(&[("quota", "b")])]);
    let expected = [
        "OK: OK 0 of 1/DAY, OK 1 of 2/DAY",
        "OK: OVER 0 of 1/DAY, OK 0 of 2/DAY",
        "OVER: OVER 0 of 1/DAY, OVER 0 of 2/DAY",
    ];
    for expected in expected {
        assert_eq!(brief(&ask(&mut client, both()).await), expected);
    }
    // A rule that is no quota refuses by itself.
    let mixed = || request("d", vec![descriptor(&[("quota", "b")]), descriptor(&[("one", "q")])]);
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    assert_eq!(ask(&mut client, mixed()).await.overall_code, OK);
    assert_eq!(ask(&mut client, mixed()).await.overall_code, OVER);
}

#[tokio::test]
async fn with_global_quota_one_descriptor_without_a_rule_lets_all_pass() {
    let server = Setup::new(&[("rules.yaml", RULES)]).env("QUOTA_MODE", "true").start().await;
    let mut client = server.client().await;
    let with = |other| request("d", vec![descriptor(&[("one", "x")]), descriptor(&[(other, "x")])]);
    for _ in 0..2 {
        assert_eq!(ask(&mut client, with("no_rule")).await.overall_code, OK);
    }
    let response = ask(&mut client, request("d", vec![descriptor(&[("one", "x")])])).await;
    assert_eq!(brief(&response), "OVER: OVER 0 of 1/DAY \"one\"");
}

#[tokio::test]
async fn headers_pass_over_a_quota_that_is_used_up_for_a_limit_that_refuses() {
    let server =
        Setup::new(&[("rules.yaml", RULES)]).env("LIMIT_RESPONSE_HEADERS_ENABLED", "true").start().await;
    let mut client = server.client().await;
    let asked = || request("d", vec![descriptor(&[("one", "h")]), descriptor(&[("quota", "a")])]);
    ask(&mut client, asked()).await;
    let response = ask(&mut client, asked()).await;
    assert_eq!(brief(&response), "OVER: OVER 0 of 1/DAY \"one\", OVER 0 of 1/DAY");
    assert_eq!(response.response_headers_to_add.len(), 3);
}

#[tokio::test]
async fn a_replaced_rule_is_neither_counted_nor_told() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    for left in [99, 98, 97] {
        let both = request("d", vec![descriptor(&[("one", "r")]), descriptor(&[("vip", "r")])]);
        assert_eq!(brief(&ask(&mut client, both).await), format!("OK: OK 0, OK {left} of 100/DAY"));
    }
    assert_eq!(brief(&ask_one(&mut client, "d", &[("one", "r")]).await), "OK: OK 0 of 1/DAY \"one\"");
}
