//! Tunnels: only after the upstream's 101, both ways, with each side closed on its own.

use tokio::io::AsyncWriteExt as _;

use crate::support::{GatewaySetup, Raw, TestGateway, eventually, field};

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

/// HTTP in a tunnel would pass every limit: HTTP/2 is not asked for by an upgrade any more (RFC 9113, 3.1).
#[tokio::test]
async fn an_upgrade_to_http2_is_an_ordinary_request() {
    for upgrade in [
        "Upgrade: h2c",
        "Upgrade: websocket, H2C",
        "Upgrade: websocket\r\nUpgrade: foo/1,\th2c ,bar",
        "Upgrade: h2c-16",
        "Upgrade: h2",
        "Upgrade: HTTP/2.0",
    ] {
        let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n\
             {upgrade}\r\n\r\n"
        );
        client.send(&request).await;
        let mut backend = upstream.accept().await;
        let head = backend.head().await;
        for name in ["connection", "upgrade", "http2-settings"] {
            assert_eq!(field(&head, name), None, "{upgrade}: {head}");
        }
        // It is answered as any other, and what follows is a request.
        backend.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await;
        assert!(client.head().await.starts_with("HTTP/1.1 204"), "{upgrade}");
        let mut backend = upstream.forwarded(&mut client, &request).await;
        // An upstream that switches nevertheless is not followed.
        backend.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n").await;
        assert!(client.head().await.starts_with("HTTP/1.1 502"), "{upgrade}");
    }
}

#[tokio::test]
async fn a_101_to_a_protocol_that_was_not_asked_for_is_a_502() {
    for (answer, status) in [
        ("Upgrade: WebSocket\r\n", "101"),
        ("Upgrade: h2c\r\n", "502"),
        ("Upgrade: websocket, h2c\r\n", "502"),
        ("Upgrade: websocket\r\nUpgrade: h2c\r\n", "502"),
        ("Upgrade:\r\n", "502"),
        ("", "502"),
    ] {
        let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
        let mut backend = upstream.forwarded(&mut client, UPGRADE).await;
        backend
            .send(format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{answer}\r\n"))
            .await;
        let head = client.head().await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{answer:?}: {head}");
    }
}

const SWITCHED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// A tunnel that is open, with its gateway.
async fn open() -> (TestGateway, Raw, Raw) {
    let (upstream, gateway, mut client) = GatewaySetup::default().meet().await;
    let mut backend = upstream.forwarded(&mut client, UPGRADE).await;
    backend.send(SWITCHED).await;
    assert!(client.head().await.starts_with("HTTP/1.1 101"));
    (gateway, client, backend)
}

/// Whichever end has nothing more to say, the other one may go on, and is heard to its last byte.
#[tokio::test]
async fn an_end_that_has_said_all_goes_on_listening() {
    for upstream_ends_first in [true, false] {
        let (gateway, client, backend) = open().await;
        let (mut first, mut second) = if upstream_ends_first { (backend, client) } else { (client, backend) };
        first.send("last words").await;
        first.stream.shutdown().await.unwrap();
        assert_eq!(second.rest().await, "last words");
        for turn in 0..3 {
            second.send(format!("still here {turn}")).await;
            assert_eq!(first.bytes(12).await, format!("still here {turn}"));
        }
        assert_eq!(gateway.gateway.upstreams()[0].in_flight, 1);
        // More than sockets and buffers hold, so that the end cannot overtake it.
        let large = vec![b'x'; 8 << 20];
        let sending = async {
            second.send(&large).await;
            second.stream.shutdown().await.unwrap();
        };
        let (rest, ()) = tokio::join!(first.rest(), sending);
        assert_eq!(rest.len(), large.len(), "the upstream ends first: {upstream_ends_first}");
        eventually(|| gateway.gateway.upstreams()[0].in_flight == 0).await;
    }
}

/// The end of one side may come with its 101.
#[tokio::test]
async fn an_upstream_that_says_all_at_once_still_hears_the_client() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    let mut backend = upstream.forwarded(&mut client, UPGRADE).await;
    backend.send(format!("{SWITCHED}all of it")).await;
    backend.stream.shutdown().await.unwrap();
    assert!(client.head().await.starts_with("HTTP/1.1 101"));
    assert_eq!(client.rest().await, "all of it");
    client.send("thanks").await;
    client.stream.shutdown().await.unwrap();
    assert_eq!(backend.rest().await, "thanks");
}

/// An end that is gone is no end that listens.
#[tokio::test]
async fn an_end_that_breaks_off_ends_the_other_one() {
    for upstream_breaks_off in [true, false] {
        let (gateway, client, backend) = open().await;
        let (broken, mut other) = if upstream_breaks_off { (backend, client) } else { (client, backend) };
        // Closed with a reset.
        broken.stream.set_zero_linger().unwrap();
        drop(broken);
        assert_eq!(other.rest().await, "");
        eventually(|| gateway.gateway.upstreams()[0].in_flight == 0).await;
    }
}
