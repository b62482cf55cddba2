//! Upstreams that are away, that hang up, and whose connections are used again.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tollgate_gateway::bounds::{FIELDS_MAX, UPSTREAM_HEAD_MAX};

use crate::support::{GatewaySetup, Raw, RawUpstream, field, length, pass};

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
    let slow_post = "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nContent-Length: 0\r\n\r\n";
    let slow_put = "PUT / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nContent-Length: 1\r\n\r\nx";
    for (request, is_repeated) in [
        (GET, true),
        (delete, true),
        (post, false),
        (empty_post, false),
        (put_with_body, false),
        (slow_post, false),
        (slow_put, false),
    ] {
        let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
        let first = if request.contains("TE: trailers") { delete } else { GET };
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

/// The short way through the gateway, and hyper's.
const WAYS: [&str; 2] = ["", "TE: trailers\r\n"];

/// An answer after which the upstream says this about its connection.
fn kept(says: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{says}Content-Length: 2\r\n\r\nok")
}

/// It says how long it keeps a connection, and nothing is sent on it near the end of that time.
#[tokio::test]
async fn a_connection_is_kept_for_as_long_as_the_upstream_says() {
    for way in WAYS {
        for (says, pause, is_kept) in [
            ("", 1, true),
            ("", 5, false),
            ("Keep-Alive: timeout=31\r\n", 20, true),
            ("Keep-Alive: timeout=31, max=1000\r\nConnection: keep-alive\r\n", 30, false),
            ("Keep-Alive: timeout=2\r\n", 1, false),
            ("Keep-Alive: timeout=1\r\n", 0, false),
            // And never longer than a minute.
            ("Keep-Alive: timeout=3600\r\n", 45, true),
            ("Keep-Alive: timeout=3600\r\n", 60, false),
        ] {
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{way}\r\n");
            let (upstream, gateway, mut client) = GatewaySetup::default().meet().await;
            let mut backend = upstream.forwarded(&mut client, &request).await;
            backend.send(kept(says)).await;
            let head = client.head().await;
            assert_eq!(field(&head, "keep-alive"), None, "it is about another connection");
            client.bytes(2).await;
            pass(Duration::from_secs(pause)).await;
            // Another one, because clients are not waited for for ever either.
            let mut client = Raw::connect(gateway.address).await;
            client.send(&request).await;
            let mut backend = match is_kept {
                true => backend,
                false => upstream.accept().await,
            };
            backend.head().await;
            backend.send(kept("")).await;
            let head = client.head().await;
            assert!(head.starts_with("HTTP/1.1 200"), "{way}, {says:?}, after {pause} s: {head}");
        }
    }
}

/// A connection that is kept for a long time is not lost behind one that is not.
#[tokio::test]
async fn a_connection_whose_time_is_over_does_not_hide_another_one() {
    for way in WAYS {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{way}\r\n");
        let (upstream, gateway, mut one) = GatewaySetup::default().meet().await;
        let mut two = Raw::connect(gateway.address).await;
        let mut long = upstream.forwarded(&mut one, &request).await;
        let mut short = upstream.forwarded(&mut two, &request).await;
        for (client, backend, says) in
            [(&mut one, &mut long, "Keep-Alive: timeout=30\r\n"), (&mut two, &mut short, "")]
        {
            backend.send(kept(says)).await;
            client.head().await;
            client.bytes(2).await;
        }
        pass(Duration::from_secs(10)).await;
        one.send(&request).await;
        long.head().await;
    }
}

/// It cannot be sent twice, and need not be: the connection is known to be closed.
#[tokio::test]
async fn a_post_after_the_end_of_a_kept_connection_takes_a_new_one() {
    for way in WAYS {
        let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
        let mut backend =
            upstream.forwarded(&mut client, format!("GET / HTTP/1.1\r\nHost: a\r\n{way}\r\n")).await;
        backend.send(OK).await;
        client.head().await;
        client.bytes(2).await;
        drop(backend);
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{way}Content-Length: 2\r\n\r\nhi")).await;
        let mut backend = upstream.accept().await;
        assert!(backend.head().await.starts_with("POST / "), "{way}");
        assert_eq!(backend.bytes(2).await, "hi");
        backend.send(OK).await;
        assert!(client.head().await.starts_with("HTTP/1.1 200"), "{way}");
        upstream.was_left_alone().await;
    }
}

/// Whenever the close comes, before the request, with it or after it: an upstream that has read a request never sees
/// it again, and a client is told 200 only of what was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_that_races_the_close_of_its_connection_is_never_sent_twice() {
    const TURNS: usize = 200;
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    let (seen, answered) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (own_seen, own_answered) = (Arc::clone(&seen), Arc::clone(&answered));
    let serving = tokio::spawn(async move {
        for turn in 0_usize.. {
            let mut backend = upstream.accept().await;
            let (seen, answered) = (Arc::clone(&own_seen), Arc::clone(&own_answered));
            tokio::spawn(async move {
                // It answers the first, and then closes: at once, in a moment, or when it has read the next one.
                let Some(path) = read_post(&mut backend).await else { return };
                seen.lock().push(path.clone());
                answered.lock().push(path);
                backend.send(OK).await;
                match turn % 3 {
                    0 => {}
                    1 => tokio::task::yield_now().await,
                    _ => {
                        let next = read_post(&mut backend).await;
                        seen.lock().extend(next);
                    }
                }
            });
        }
    });
    let mut statuses = [0, 0];
    for turn in 0..TURNS {
        let way = WAYS[turn % 2];
        let mut client = Raw::connect(gateway.address).await;
        let request = format!("POST /{turn} HTTP/1.1\r\nHost: a\r\n{way}Content-Length: 2\r\n\r\nhi");
        let (head, _) = client.ask(&request).await;
        let is_ok = head.starts_with("HTTP/1.1 200");
        assert!(is_ok || head.starts_with("HTTP/1.1 502"), "{head}");
        let path = format!("/{turn}");
        assert_eq!(answered.lock().contains(&path), is_ok, "{path}: {head}");
        statuses[usize::from(is_ok)] += 1;
    }
    serving.abort();
    let mut seen = seen.lock().clone();
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count, "a request came twice");
    assert!(statuses[0] > 0 && statuses[1] > 0, "both happen: {statuses:?}");
}

/// The path of a whole request with a body of two bytes; none if the connection ends before.
async fn read_post(backend: &mut Raw) -> Option<String> {
    let head = backend.try_head().await?;
    backend.until(b"hi").await?;
    head.split(' ').nth(1).map(str::to_owned)
}
