//! What the reference's own tests check: its scenarios A, C, F and G.

use crate::support::wire::{OVER, ask, ask_one, brief, descriptor, request, reset_s, short};
use crate::support::{Server, Setup, eventually};

const BASIC: &str = "
domain: basic
descriptors:
  - key: key1
    rate_limit: { unit: second, requests_per_unit: 50 }
  - key: one_per_minute
    rate_limit: { unit: minute, requests_per_unit: 1 }
";

const ANOTHER: &str = "
domain: another
descriptors:
  - key: key2
    rate_limit: { unit: day, requests_per_unit: 20 }
  - key: key3
    rate_limit: { unit: day, requests_per_unit: 10 }
  - key: key4
    rate_limit: { unit: day, requests_per_unit: 20 }
";

async fn base() -> Server {
    Setup::new(&[("basic.yaml", BASIC), ("another.yaml", ANOTHER)]).start().await
}

#[tokio::test]
async fn a1_an_unknown_domain_is_let_pass_without_a_limit() {
    let server = base().await;
    let response = ask_one(&mut server.client().await, "foo", &[("hello", "world")]).await;
    assert_eq!(brief(&response), "OK: OK 0");
    assert!(response.statuses[0].duration_until_reset.is_none());
    let counted = server.counter("ratelimit.service.rate_limit.foo.domain_not_found").await;
    assert_eq!(counted, 1);
}

#[tokio::test]
async fn a2_a_first_call_is_told_its_limit_and_what_is_left() {
    let server = base().await;
    let response = ask_one(&mut server.client().await, "basic", &[("key1", "foo")]).await;
    assert_eq!(brief(&response), "OK: OK 49 of 50/SECOND");
    assert_eq!(reset_s(&response.statuses[0]), 1, "a second that has begun is told as one");
    assert_eq!(server.counter("ratelimit.service.rate_limit.basic.key1.total_hits").await, 1);
}

#[tokio::test]
async fn a3_what_is_left_counts_down_and_then_calls_are_over_the_limit() {
    let server = base().await;
    let mut client = server.client().await;
    for call in 0..25 {
        let response = ask_one(&mut client, "another", &[("key2", "random-1")]).await;
        let expected = match 19_u32.checked_sub(call) {
            Some(left) => format!("OK: OK {left} of 20/DAY"),
            None => "OVER: OVER 0 of 20/DAY".to_owned(),
        };
        assert_eq!(brief(&response), expected, "call {call}");
        let counter = |name: &str| format!("ratelimit.service.rate_limit.another.key2.{name}");
        assert_eq!(server.counter(&counter("total_hits")).await, u64::from(call) + 1);
        let over = u64::from(call + 1).saturating_sub(20);
        assert_eq!(server.counter(&counter("over_limit")).await, over);
    }
}

#[tokio::test]
async fn a4_of_two_descriptors_the_one_that_is_not_over_still_counts_down() {
    let server = base().await;
    let mut client = server.client().await;
    for call in 1..=15 {
        let both = vec![descriptor(&[("key2", "random-2")]), descriptor(&[("key3", "random-3")])];
        let response = ask(&mut client, request("another", both)).await;
        let left = 20 - call;
        let expected = match 10_i32.checked_sub(call).filter(|left| *left >= 0) {
            Some(other) => format!("OK: OK {left} of 20/DAY, OK {other} of 10/DAY"),
            None => format!("OVER: OK {left} of 20/DAY, OVER 0 of 10/DAY"),
        };
        assert_eq!(brief(&response), expected, "call {call}");
    }
}

#[tokio::test]
async fn a4_with_stop_mode_nothing_is_taken_from_the_other_once_one_is_over() {
    let server = Setup::new(&[("another.yaml", ANOTHER)])
        .env("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "true")
        .start()
        .await;
    let mut client = server.client().await;
    let mut last = String::new();
    for _ in 1..=15 {
        let both = vec![descriptor(&[("key2", "random-2")]), descriptor(&[("key3", "random-3")])];
        last = brief(&ask(&mut client, request("another", both)).await);
    }
    assert_eq!(last, "OVER: OK 10 of 20/DAY, OVER 0 of 10/DAY");
}

#[tokio::test]
async fn a5_the_reset_comes_nearer() {
    let server = base().await;
    let mut client = server.client().await;
    let first = reset_s(&ask_one(&mut client, "another", &[("key4", "x")]).await.statuses[0]);
    assert!((1..=86_400).contains(&first), "{first}");
    eventually("the reset came nearer", || {
        let mut client = client.clone();
        async move {
            let now = reset_s(&ask_one(&mut client, "another", &[("key4", "y")]).await.statuses[0]);
            // At midnight a new day begins, once.
            now != first
        }
    })
    .await;
}

#[tokio::test]
async fn c_metrics_are_told_under_the_names_of_the_reference() {
    let server = base().await;
    let mut client = server.client().await;
    ask_one(&mut client, "another", &[("key2", "a")]).await;
    assert_eq!(server.counter("ratelimit.service.config_load_success").await, 1);
    assert_eq!(server.counter("ratelimit_server.ShouldRateLimit.total_requests").await, 1);
    let (status, page) = crate::support::http::get(server.addresses.admin, "/metrics").await;
    assert_eq!(status, 200);
    let series = "ratelimit_service_rate_limit_total_hits{domain=\"another\",key1=\"key2\"} 1";
    assert!(page.contains(series), "{series} is not in\n{page}");
}

#[tokio::test]
async fn f_rules_that_are_added_and_removed_take_effect() {
    let server = base().await;
    let mut client = server.client().await;
    let before = ask_one(&mut client, "reload", &[("key1", "foo")]).await;
    assert_eq!(brief(&before), "OK: OK 0");

    let file = server.rules_folder().join("reload.yaml");
    crate::support::replace_file(&file, BASIC.replace("domain: basic", "domain: reload"));
    let loads = "ratelimit.service.config_load_success";
    eventually("a second load", || async { server.counter(loads).await == 2 }).await;
    let added = ask_one(&mut client, "reload", &[("key1", "foo")]).await;
    assert_eq!(short(&added.statuses[0]), "OK 49 of 50/SECOND");

    std::fs::remove_file(file).unwrap();
    eventually("a third load", || async { server.counter(loads).await == 3 }).await;
    let removed = ask_one(&mut client, "reload", &[("key1", "foo")]).await;
    assert_eq!(brief(&removed), "OK: OK 0");
}

#[tokio::test]
async fn f_a_bad_file_keeps_the_old_rules_and_is_told_everywhere() {
    let server = base().await;
    let file = server.rules_folder().join("bad.yaml");
    crate::support::replace_file(&file, "domain: bad\ndescriptors:\n  - kee: x\n");
    let errors = "ratelimit.service.config_load_error";
    eventually("a failed load", || async { server.counter(errors).await == 1 }).await;
    let response = ask_one(&mut server.client().await, "another", &[("key2", "still-here")]).await;
    assert_eq!(brief(&response), "OK: OK 19 of 20/DAY");
    server.until_verbose("kee").await;
}

#[tokio::test]
async fn g_values_that_share_a_threshold_share_a_counter_and_others_do_not() {
    let rules = "
domain: files
descriptors:
  - key: shared
    value: files/*
    share_threshold: true
    rate_limit: { unit: day, requests_per_unit: 10 }
  - key: own
    value: files/*
    rate_limit: { unit: day, requests_per_unit: 10 }
";
    let server = Server::with(rules).await;
    let mut client = server.client().await;
    for call in 0..10 {
        let response = ask_one(&mut client, "files", &[("shared", "files/a.pdf")]).await;
        assert_eq!(brief(&response), format!("OK: OK {} of 10/DAY", 9 - call));
    }
    let other = ask_one(&mut client, "files", &[("shared", "files/b.csv")]).await;
    assert_eq!(other.overall_code, OVER);
    for call in 0..10 {
        let value = format!("files/{call}");
        let response = ask_one(&mut client, "files", &[("own", &value)]).await;
        assert_eq!(brief(&response), "OK: OK 9 of 10/DAY");
    }
}
