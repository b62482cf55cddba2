//! Bounds on deferred requests, and upstreams that fail.

use serde_json::{Value, json};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{NotingApi, RULES, order, setup, start, until};
use crate::support::{eventually, http, replace_file};

#[tokio::test]
async fn a_full_queue_and_a_long_body_are_denied_with_a_reason() {
    let api = NotingApi::default();
    let bounded = setup(&api, RULES).await.env("TOLLGATE_DEFER_MAX_REQUESTS", "2");
    let (_server, gateway) = start(bounded.env("TOLLGATE_DEFER_MAX_BODY", "10")).await;
    assert_eq!(order(gateway, "/one", "").await.0, 200);
    let long = |told: Value| {
        assert!(told["detail"].as_str().unwrap().ends_with("its body has more than 10 bytes"), "{told}");
        assert_eq!(told["violated-policies"], json!(["one"]));
    };
    let (status, told) = order(gateway, "/one", "eleven long").await;
    assert_eq!(status, 429);
    long(told);
    let chunked = "POST /one HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
                   6\r\neleven\r\n5\r\n long\r\n0\r\n\r\n";
    let (status, told) = http::request(gateway, chunked).await;
    assert_eq!(status, 429);
    long(serde_json::from_str(&told).unwrap());
    let broken =
        "POST /one HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\nx\r\n";
    assert_eq!(http::request(gateway, broken).await.0, 400);
    let statuses = [order(gateway, "/one", "ten is in.").await.0, order(gateway, "/one", "").await.0];
    assert_eq!(statuses, [202, 202]);
    let (status, full) = order(gateway, "/one", "").await;
    assert_eq!(status, 429);
    assert!(full["detail"].as_str().unwrap().ends_with("too many requests wait already"), "{full}");
    assert!(full["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{full}");
    assert_eq!(api.seen().len(), 1, "nothing of them has arrived");
}

#[tokio::test]
async fn what_is_not_sent_in_time_expires() {
    let api = NotingApi::default();
    let short = setup(&api, RULES).await.env("TOLLGATE_DEFER_MAX_AGE", "300ms");
    let (server, gateway) = start(short).await;
    assert_eq!(order(gateway, "/one", "").await.0, 200);
    let (status, told) = order(gateway, "/one", "").await;
    assert_eq!(status, 202);
    let expired = until(gateway, &told, "expired").await;
    assert_eq!(expired["reason"], "it waited for too long");
    assert_eq!(api.seen().len(), 1);
    let (_, metrics) = http::get(server.addresses.admin, "/metrics").await;
    assert!(metrics.contains("tollgate_deferred_total{event=\"expired\"} 1\n"), "{metrics}");
}

#[tokio::test]
async fn an_upstream_that_fails_is_asked_again_and_at_last_given_up() {
    let api = NotingApi::default();
    let twice = setup(&api, RULES).await.env("TOLLGATE_DEFER_MAX_ATTEMPTS", "2");
    let (server, _) = start(twice).await;
    let http = server.addresses.http;
    let call = |address: &str, body: &str| {
        let descriptors = json!([{ "path": "/steady", "remote_address": address }]);
        let request = json!({ "method": "POST", "path": "/", "body": body });
        json!({ "domain": "gateway", "descriptors": descriptors, "request": request }).to_string()
    };
    // Of two keys, so that neither waits for the other.
    let (_, recovers) = order(http, "/v1/defer", &call("10.0.0.1", "503,404")).await;
    let (_, fails) = order(http, "/v1/defer", &call("10.0.0.2", "500,502")).await;
    let done = until(http, &recovers, "done").await;
    assert_eq!((&done["attempts"], &done["response"]["status"]), (&1.into(), &404.into()), "{done}");
    let failed = until(http, &fails, "failed").await;
    assert_eq!((&failed["attempts"], &failed["response"]["status"]), (&2.into(), &502.into()), "{failed}");
    assert_eq!(failed["reason"], "the upstream answered with 502");
}

#[tokio::test]
async fn clients_that_never_read_their_202_hold_nobody_up_and_what_they_sent_is_kept() {
    let api = NotingApi::default();
    let (server, gateway) = start(setup(&api, RULES).await).await;
    assert_eq!(order(gateway, "/one", "0").await.0, 200);
    let mut silent = TcpStream::connect(gateway).await.unwrap();
    for number in 1..=20 {
        let length = number.to_string().len();
        let request = format!("POST /one HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{number}");
        silent.write_all(request.as_bytes()).await.unwrap();
    }
    eventually("all are kept", || async {
        let (_, metrics) = http::get(server.addresses.admin, "/metrics").await;
        metrics.contains("tollgate_deferred_total{event=\"accepted\"} 20\n")
    })
    .await;
    let (status, told) = order(gateway, "/one", "21").await;
    assert_eq!(status, 202);
    let free = RULES.replace(
        "requests_per_unit: 1, unit: year, over_limit",
        "algorithm: token_bucket, requests_per_unit: 100, unit: second, burst: 1, over_limit",
    );
    replace_file(&server.rules_folder().join("gateway.yaml"), free);
    server.control().reload();
    until(gateway, &told, "done").await;
    // Several are on their way at a time, each on a connection of its own, so they may overtake each other.
    eventually("all arrive", || async { api.bodies().len() == 22 }).await;
    let mut arrived: Vec<u32> = api.bodies().iter().map(|body| body.parse().unwrap()).collect();
    arrived.sort_unstable();
    assert_eq!(arrived, (0..=21).collect::<Vec<_>>());
    drop(silent);
}
