//! Bodies: exact, at once, with trailers, and never gathered.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{GatewaySetup, Raw, RawUpstream, field, in_time};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn events_are_passed_on_one_by_one() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    let mut backend = upstream.forwarded(&mut client, GET).await;
    backend
        .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let head = client.head().await;
    assert_eq!(field(&head, "transfer-encoding"), Some("chunked"));
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        let chunk = format!("{:X}\r\n{event}\r\n", event.len());
        backend.send(&chunk).await;
        // The next is not sent before this one has arrived.
        assert_eq!(client.bytes(chunk.len()).await, chunk);
    }
}

#[tokio::test]
async fn trailers_go_both_ways() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    client
        .send(
            "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n\
             1\r\na\r\n0\r\nX-Sum: 7\r\n\r\n",
        )
        .await;
    let mut backend = upstream.accept().await;
    assert_eq!(field(&backend.head().await, "trailer"), Some("x-sum"));
    let body = backend.until(b"\r\n\r\n").await.unwrap();
    assert_eq!(body.to_lowercase(), "1\r\na\r\n0\r\nx-sum: 7\r\n\r\n");
    backend
        .send("HTTP/1.1 200 OK\r\nTrailer: x-end\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\nX-End: 8\r\n\r\n")
        .await;
    client.head().await;
    let body = client.until(b"\r\n\r\n").await.unwrap();
    assert_eq!(body.to_lowercase(), "1\r\nb\r\n0\r\nx-end: 8\r\n\r\n");
}

/// Many servers put trailers among the other fields, where they would pass for what we say.
#[tokio::test]
async fn trailers_say_nothing_that_a_client_may_not_say_in_a_head() {
    let names = [
        "x-forwarded-for",
        "x_forwarded_for",
        "x-real-ip",
        "forwarded",
        "via",
        "x-tollgate-client",
        "x-tollgate-verdict",
        "content-length",
        "content_length",
        "transfer-encoding",
        "host",
        "trailer",
        "te",
        "connection",
        "keep-alive",
        "upgrade",
        "proxy",
        "proxy-authorization",
        "authorization",
        "cookie",
        "expect",
        "content-type",
        "range",
    ];
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    let trailers: String = names.iter().map(|name| format!("{name}: 6\r\n")).collect();
    client
        .send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTrailer: x-sum, {}\r\nTransfer-Encoding: chunked\r\n\r\n\
             1\r\na\r\n0\r\n{trailers}X-Sum: 7\r\n\r\n",
            names.join(", ")
        ))
        .await;
    let mut backend = upstream.accept().await;
    backend.head().await;
    let body = backend.until(b"\r\n\r\n").await.unwrap();
    assert_eq!(body.to_lowercase(), "1\r\na\r\n0\r\nx-sum: 7\r\n\r\n");
}

#[tokio::test]
async fn answers_without_a_body_have_none() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut backend = upstream.accept().await;
    for (answer, next) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", GET),
        ("HTTP/1.1 204 No Content\r\n\r\n", GET),
        ("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", GET),
    ] {
        backend.head().await;
        backend.send(answer).await;
        let head = client.head().await;
        assert_eq!(head.lines().next(), answer.lines().next());
        assert!(field(&head, "transfer-encoding").is_none(), "{head}");
        client.send(next).await;
    }
}

#[tokio::test]
async fn an_answer_without_a_length_ends_with_its_connection() {
    for (version, wish, expected) in [
        ("1.1", "close", "5\r\nhello\r\n0\r\n\r\n"),
        ("1.0", "close", "hello"),
        // It knows no chunks, so that the connection cannot be kept.
        ("1.0", "keep-alive", "hello"),
    ] {
        let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
        let mut backend = upstream
            .forwarded(&mut client, format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: {wish}\r\n\r\n"))
            .await;
        backend.send("HTTP/1.1 200 OK\r\n\r\nhello").await;
        drop(backend);
        let head = client.head().await;
        let says = head.lines().filter(|line| line.starts_with("connection:")).collect::<Vec<_>>();
        assert!(says == ["connection: close"] || (says.is_empty() && version == "1.0"), "{wish}: {head}");
        assert_eq!(client.rest().await, expected);
    }
}

#[tokio::test]
async fn http_1_0_can_keep_its_connection_where_answers_have_a_length() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    let request = "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
    for (answer, next) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "keep-alive"),
        ("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", "keep-alive"),
    ] {
        let mut backend = upstream.forwarded(&mut client, request).await;
        backend.send(answer).await;
        let head = client.head().await;
        assert_eq!(field(&head, "connection"), Some(next), "{head}");
    }
}

#[tokio::test]
async fn a_broken_answer_is_broken_for_the_client_too() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    let mut backend = upstream.forwarded(&mut client, GET).await;
    backend.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
    client.head().await;
    drop(backend);
    assert!(!client.rest().await.ends_with("0\r\n\r\n"), "the client must notice");
}

#[tokio::test]
async fn a_body_is_asked_for_when_the_upstream_wants_it() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    let mut client = Raw::connect(gateway.address).await;
    client.send(head).await;
    let mut backend = upstream.accept().await;
    assert_eq!(field(&backend.head().await, "expect"), Some("100-continue"));
    backend.send("HTTP/1.1 100 Continue\r\n\r\n").await;
    assert!(client.head().await.starts_with("HTTP/1.1 100"));
    client.send("ab").await;
    assert_eq!(backend.bytes(2).await, "ab");
    backend.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    assert!(client.head().await.starts_with("HTTP/1.1 200"));
    // An upstream that does not want it says so, and the client is never asked for it.
    let mut client = Raw::connect(gateway.address).await;
    client.send(head).await;
    backend.head().await;
    backend.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n").await;
    assert!(client.head().await.starts_with("HTTP/1.1 401"));
}

/// Bytes that nobody reads pile up nowhere but in the sockets' buffers.
#[tokio::test]
async fn a_slow_reader_slows_the_upstream_down() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    let mut backend = upstream.forwarded(&mut client, GET).await;
    const SIZE: usize = 64 << 20;
    backend.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n")).await;
    let taken = fill(&mut backend.stream).await;
    assert!(taken < 32 << 20, "{taken} bytes were taken that nobody reads");
    // And all of it arrives once it is read.
    let sending = tokio::spawn(async move {
        let mut left = SIZE - taken;
        while left > 0 {
            let piece = vec![b'x'; left.min(1 << 20)];
            backend.stream.write_all(&piece).await.unwrap();
            left -= piece.len();
        }
        backend
    });
    client.head().await;
    assert_eq!(swallow(&mut client, SIZE).await, SIZE);
    drop(sending.await.unwrap());
}

#[tokio::test]
async fn a_slow_upstream_slows_the_client_down() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    const SIZE: usize = 64 << 20;
    let _backend = upstream
        .forwarded(&mut client, format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {SIZE}\r\n\r\n"))
        .await;
    let taken = fill(&mut client.stream).await;
    assert!(taken < 32 << 20, "{taken} bytes were taken that nobody reads");
}

/// Writes until nothing is taken for a while; how many bytes were taken.
async fn fill(stream: &mut tokio::net::TcpStream) -> usize {
    let piece = vec![b'x'; 64 << 10];
    let mut taken = 0;
    while let Ok(count) = tokio::time::timeout(Duration::from_millis(300), stream.write(&piece)).await {
        taken += count.unwrap();
    }
    taken
}

/// Reads and forgets so many bytes.
async fn swallow(client: &mut Raw, size: usize) -> usize {
    let mut buffer = vec![0; 1 << 20];
    let mut read = client.forget();
    in_time(async {
        while read < size {
            match client.stream.read(&mut buffer).await.unwrap() {
                0 => break,
                count => read += count,
            }
        }
    })
    .await;
    read
}

/// A client of HTTP/1.0 takes what comes first for its answer.
#[tokio::test]
async fn a_client_of_http_1_0_never_sees_a_status_below_200() {
    let end = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno",
    ];
    for (body, answer) in
        [("Content-Length: 2\r\n\r\nab", end[0]), ("\r\n", end[0]), ("Content-Length: 2\r\n\r\nab", end[1])]
    {
        let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
        // It sends its body at once, as if it had never heard of waiting.
        let request = format!("POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n{body}");
        client.send(request).await;
        let mut backend = upstream.accept().await;
        assert_eq!(field(&backend.head().await, "expect"), None, "nobody waits for the upstream");
        for early in ["100 Continue", "103 Early Hints\r\nLink: </a.css>", "100 Continue"] {
            backend.send(format!("HTTP/1.1 {early}\r\n\r\n")).await;
        }
        backend.send(answer).await;
        let seen = client.rest().await;
        let (status, text) = (&answer[9..12], &answer[answer.len() - 2..]);
        assert!(seen.starts_with(&format!("HTTP/1.0 {status} ")), "{seen}");
        assert!(seen.ends_with(&format!("\r\n\r\n{text}")) && seen.matches("HTTP/1.").count() == 1, "{seen}");
    }
}

/// 100 goes to whoever waits for it, once, and no sooner than the upstream says it; all others are dropped.
#[tokio::test]
async fn a_client_that_waits_gets_one_100_and_others_none() {
    const EARLY: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
    const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    let mut backend = upstream
        .forwarded(
            &mut client,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
        )
        .await;
    // A hint is no leave to send.
    backend.send(EARLY).await;
    let early = tokio::time::timeout(Duration::from_millis(100), client.try_head()).await;
    assert!(early.is_err(), "{early:?}");
    backend.send(format!("{CONTINUE}{CONTINUE}")).await;
    assert!(client.head().await.starts_with("HTTP/1.1 100 Continue\r\n"));
    client.send("ab").await;
    assert_eq!(backend.bytes(2).await, "ab");
    backend.send(format!("{EARLY}{OK}")).await;
    assert!(client.head().await.starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(client.bytes(2).await, "ok");
    // On the short way and on hyper's, who does not wait is told nothing.
    for way in ["", "TE: trailers\r\n"] {
        let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n{way}\r\nab");
        let mut backend = upstream.forwarded(&mut client, request).await;
        backend.send(format!("{CONTINUE}{EARLY}{OK}")).await;
        assert!(client.head().await.starts_with("HTTP/1.1 200 OK\r\n"), "{way}");
        assert_eq!(client.bytes(2).await, "ok");
    }
}
