//! Upstreams that are away, that hang up, and whose connections are used again.

use tokio::io::AsyncWriteExt as _;
use tollgate_gateway::bounds::{FIELDS_MAX, UPSTREAM_HEAD_MAX};

use crate::support::{GatewaySetup, Raw, RawUpstream, field, length};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn an_upstream_that_is_down_is_a_502_and_limits_go_on() {
    const TWO: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: year, requests_per_unit: 2 }\n";
    let address = RawUpstream::new().await.address;
    let gateway = GatewaySetup { rules: TWO, ..GatewaySetup::default() }.start(address).await;
    let mut client = Raw::connect(gateway.address).await;
    for status in ["502", "502", "429"] {
        let (head, body) = client.ask(GET).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        assert_eq!(field(&head, "content-type"), Some("application/problem+json"));
        assert!(body.contains("\"detail\""), "{body}");
    }
}

#[tokio::test]
async fn an_upstream_that_hangs_up_or_talks_nonsense_is_a_502() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    for nonsense in ["", "hello\r\n\r\n"] {
        let mut client = Raw::connect(gateway.address).await;
        let mut backend = upstream.forwarded(&mut client, GET).await;
        backend.send(nonsense).await;
        drop(backend);
        assert!(client.head().await.starts_with("HTTP/1.1 502"), "{nonsense:?}");
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    client.send(GET).await;
    let mut backend = upstream.accept().await;
    for _ in 0..3 {
        backend.head().await;
        backend.send(OK).await;
        client.head().await;
        client.bytes(2).await;
        client.send(GET).await;
    }
    backend.head().await;
}

/// The keep-alive race: a connection that the upstream closes while a request is on its way.
#[tokio::test]
async fn a_request_is_sent_again_only_if_that_is_safe() {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
    let empty_post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let put_with_body = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
    // What wants trailers takes hyper's way.
    let delete = "DELETE / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n";
    for (request, is_repeated) in
        [(GET, true), (delete, true), (post, false), (empty_post, false), (put_with_body, false)]
    {
        let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
        let first = if request == delete { delete } else { GET };
        let mut backend = upstream.forwarded(&mut client, first).await;
        backend.send(OK).await;
        client.head().await;
        client.bytes(2).await;
        client.send(request).await;
        backend.head().await;
        drop(backend);
        if is_repeated {
            let mut second = upstream.accept().await;
            second.head().await;
            // And not a third time.
            drop(second);
        }
        assert!(client.head().await.starts_with("HTTP/1.1 502"), "{request:?}");
        upstream.was_left_alone().await;
    }
}

/// An upstream that has begun to answer has done what it was asked for.
#[tokio::test]
async fn nothing_is_sent_again_after_a_byte_of_an_answer() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(101));
    let large = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(200 << 10));
    for way in ["", "TE: trailers\r\n"] {
        for part in ["H", "HTTP/1.1 200 OK\r\nX-Half: an ans", "hello\r\n\r\n", &many, &large] {
            let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
            let request = format!("DELETE / HTTP/1.1\r\nHost: a\r\n{way}\r\n");
            let mut backend = upstream.forwarded(&mut client, &request).await;
            backend.send(OK).await;
            client.head().await;
            client.bytes(2).await;
            client.send(&request).await;
            backend.head().await;
            // Nobody reads the end of one that is too large.
            drop(backend.stream.write_all(part.as_bytes()).await);
            drop(backend);
            let head = client.head().await;
            assert!(head.starts_with("HTTP/1.1 502"), "{way:?}, {} bytes: {head}", part.len());
            upstream.was_left_alone().await;
        }
    }
}

#[tokio::test]
async fn a_request_on_a_new_connection_is_sent_once() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    let backend = upstream.forwarded(&mut client, GET).await;
    drop(backend);
    assert!(client.head().await.starts_with("HTTP/1.1 502"));
    upstream.was_left_alone().await;
}

/// On both ways, and whether it is one large field or many.
#[tokio::test]
async fn an_answer_whose_head_is_too_large_is_a_502() {
    let field = |count: usize| format!("X-Large: {}\r\n", "y".repeat(count));
    let fits = field(UPSTREAM_HEAD_MAX - 1024);
    let (large, many) = (field(UPSTREAM_HEAD_MAX + 36_000), "X: y\r\n".repeat(FIELDS_MAX));
    for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n"]
    {
        for (fields, status) in [(&fits, 200), (&large, 502), (&many, 502)] {
            let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
            let mut backend = upstream.forwarded(&mut client, request).await;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{fields}\r\n");
            // Whoever does not want it may close before it was sent.
            let (sent, head) = tokio::join!(backend.stream.write_all(head.as_bytes()), client.head());
            drop(sent);
            assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{:.80}", head);
            if status == 502 {
                let body = client.bytes(length(&head)).await;
                assert!(body.contains("65536 bytes or 100 fields"), "{body}");
            }
        }
    }
}
