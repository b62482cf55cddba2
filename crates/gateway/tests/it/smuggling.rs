//! Requests that two programs could read differently are answered with 400, the connection is
//! closed, and nothing is forwarded. The cases are written from RFC 9112.

use std::time::Duration;

use crate::support::{GatewaySetup, Raw, RawUpstream};

const INNER: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn ambiguous_requests_are_refused_and_nothing_is_forwarded() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    let chunked = "Transfer-Encoding: chunked\r\n";
    let heads = [
        ("400", format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n{chunked}\r\n0\r\n\r\nG")),
        ("400", format!("POST / HTTP/1.1\r\nHost: a\r\n{chunked}Content-Length: 6\r\n\r\n0\r\n\r\nG")),
        ("400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".into()),
        ("400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\nab".into()),
        ("400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n".into()),
        ("400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n".into()),
        ("400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n".into()),
        ("400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n".into()),
        ("400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n".into()),
        ("400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\n\r\n0\r\n\r\n".into()),
        ("400", format!("POST / HTTP/1.1\r\nHost: a\r\nX: y\r{chunked}\r\n0\r\n\r\n")),
        ("400", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into()),
        ("400", "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n".into()),
        ("400", "GET / HTTP/1.1\r\n\r\n".into()),
        ("400", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".into()),
        ("400", "GET / HTTP/1.1\r\nHost: u:p@a\r\n\r\n".into()),
        ("400", "GET / HTTP/1.1\nHost: a\n\n".into()),
        ("400", "GET / HTTP/1.1 x\r\nHost: a\r\n\r\n".into()),
        ("400", "\0GET / HTTP/1.1\r\nHost: a\r\n\r\n".into()),
        ("405", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n".into()),
        ("431", format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(40 << 10))),
    ];
    for (status, head) in heads {
        let mut client = Raw::connect(gateway.address).await;
        client.send(format!("{head}{INNER}")).await;
        let answer = client.rest().await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head:?}: {answer:?}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "one answer, and closed: {head:?}: {answer:?}");
        assert!(answer.contains("\"detail\""), "{answer}");
    }
    upstream.was_left_alone().await;
}

#[tokio::test]
async fn a_request_behind_a_good_one_is_refused_in_its_turn() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    client.send("GET /good HTTP/1.1\r\nHost: a\r\n\r\nGET /bad HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").await;
    let mut backend = upstream.accept().await;
    assert!(backend.head().await.starts_with("GET /good HTTP/1.1\r\n"));
    backend.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let answers = client.rest().await;
    let (first, second) = (answers.find("200 OK").unwrap(), answers.find("400 Bad Request").unwrap());
    assert!(first < second, "{answers}");
}

#[tokio::test]
async fn a_malformed_chunked_body_never_arrives_whole() {
    for body in
        ["5\r\nhelloX\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "-5\r\nhello\r\n"]
    {
        let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
        client
            .send(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}{INNER}"))
            .await;
        let answer = client.rest().await;
        let forwarded = match tokio::time::timeout(Duration::from_millis(200), upstream.accept()).await {
            Ok(mut backend) => backend.rest().await,
            Err(_) => String::new(),
        };
        assert!(
            !forwarded.contains("smuggled") && !forwarded.ends_with("0\r\n\r\n"),
            "{body:?}: {forwarded:?}"
        );
        assert!(!answer.contains("HTTP/1.1 2"), "{body:?}: {answer:?}");
    }
}

#[tokio::test]
async fn every_request_is_framed_anew() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    client
        .send("\r\nPOST /a//b/%2e%2E/?q HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n003;x=y\r\nabc\r\n0\r\n\r\n")
        .await;
    let mut backend = upstream.accept().await;
    let head = backend.head().await;
    assert!(head.starts_with("POST /a//b/%2e%2E/?q HTTP/1.1\r\n"), "the path as it came: {head}");
    assert_eq!(backend.until(b"0\r\n\r\n").await.unwrap(), "3\r\nabc\r\n0\r\n\r\n");
    backend.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert!(client.head().await.starts_with("HTTP/1.1 204"));
}
