//! Tunnels: only after the upstream's 101, both ways, with each side closed on its own.

use tokio::io::AsyncWriteExt as _;

use crate::support::{GatewaySetup, field};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Key: x\r\n\r\n";

#[tokio::test]
async fn bytes_flow_both_ways_after_a_101_and_each_side_closes_by_itself() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    // What a client sends too early is held until it is known what it is.
    client.send(format!("{UPGRADE}early")).await;
    let mut backend = upstream.accept().await;
    let head = backend.head().await;
    assert_eq!(field(&head, "connection"), Some("upgrade"));
    assert_eq!(field(&head, "upgrade"), Some("websocket"));
    assert_eq!(field(&head, "sec-websocket-key"), Some("x"));
    backend
        .send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
        .await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert_eq!(field(&head, "upgrade"), Some("websocket"));
    assert_eq!(client.bytes(5).await, "hello");
    assert_eq!(backend.bytes(5).await, "early");
    client.send("GET / HTTP/1.1\r\n\0\n").await;
    assert_eq!(backend.bytes(18).await, "GET / HTTP/1.1\r\n\0\n");
    client.stream.shutdown().await.unwrap();
    assert_eq!(backend.rest().await, "");
    backend.send("bye").await;
    assert_eq!(client.bytes(3).await, "bye");
}

#[tokio::test]
async fn without_a_101_it_stays_http() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    let mut backend = upstream.forwarded(&mut client, UPGRADE).await;
    backend.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await;
    assert!(client.head().await.starts_with("HTTP/1.1 403"));
    // The bytes behind are requests, and judged as such.
    client.send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").await;
    assert!(client.head().await.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn a_101_that_nobody_asked_for_is_a_502() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    client.send("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n").await;
    let mut backend = upstream.accept().await;
    assert_eq!(field(&backend.head().await, "upgrade"), None, "Connection does not name it");
    backend
        .send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        .await;
    assert!(client.head().await.starts_with("HTTP/1.1 502"));
}
