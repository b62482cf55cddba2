//! Each timeout has its status and says what happened. Time is tokio's, so that nobody waits.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tollgate_gateway::GatewayTimeouts;

use crate::support::{GatewaySetup, Raw, RawUpstream};

const SHORT: GatewayTimeouts = GatewayTimeouts {
    connect: Duration::from_millis(200),
    first_byte: Duration::from_millis(200),
    idle: Duration::from_millis(200),
    total: None,
};

/// Bytes come all the time, but it takes too long altogether.
#[tokio::test]
async fn an_answer_that_takes_too_long_altogether_is_cut_off() {
    let total = Some(Duration::from_millis(300));
    let timeouts = GatewayTimeouts { total, ..GatewayTimeouts::default() };
    let (upstream, gateway, mut client) = GatewaySetup { timeouts, ..GatewaySetup::default() }.meet().await;
    let mut backend = upstream.forwarded(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    backend.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n").await;
    let dripping = async {
        while backend.stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(client.head().await.starts_with("HTTP/1.1 200"));
    let (rest, ()) = tokio::join!(client.rest(), dripping);
    assert!(rest.len() < 1000, "{} bytes came", rest.len());
    // And one that never begins.
    let mut client = Raw::connect(gateway.address).await;
    let asked = client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_backend, (head, _)) = tokio::join!(upstream.accept(), asked);
    assert!(head.starts_with("HTTP/1.1 504"), "{head}");
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_a_504() {
    let (upstream, _gateway, mut client) =
        GatewaySetup { timeouts: SHORT, ..GatewaySetup::default() }.meet().await;
    let asked = client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_backend, (head, body)) = tokio::join!(upstream.accept(), asked);
    assert!(head.starts_with("HTTP/1.1 504") && body.contains("did not answer in time"), "{head}{body}");
}

#[tokio::test]
async fn a_body_that_stops_is_a_408() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup {
        timeouts: GatewayTimeouts { first_byte: crate::support::DEADLINE, ..SHORT },
        ..GatewaySetup::default()
    }
    .start(upstream.address)
    .await;
    let mut client = Raw::connect(gateway.address).await;
    let asked = client.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    let (_backend, (head, body)) = tokio::join!(upstream.accept(), asked);
    assert!(head.starts_with("HTTP/1.1 408") && body.contains("did not arrive in time"), "{head}{body}");
}

#[tokio::test]
async fn an_answer_that_stops_is_cut_off() {
    let (upstream, _gateway, mut client) =
        GatewaySetup { timeouts: SHORT, ..GatewaySetup::default() }.meet().await;
    let mut backend = upstream.forwarded(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    backend.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab").await;
    client.head().await;
    assert_eq!(client.rest().await, "ab");
}

#[tokio::test]
async fn a_head_that_stops_is_a_408() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    client.send("GET / HTTP/1.1\r\nHost:").await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("did not arrive within"), "{answer}");
    upstream.was_left_alone().await;
}
