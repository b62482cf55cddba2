//! A denial never reaches the upstream, and the client can read it.

use crate::frames::{Attacker, END_HEADERS, END_STREAM, HEADERS, frame, literal};
use crate::support::{GatewaySetup, Raw, RawUpstream, field};

const ONE: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    rate_limit: { name: by address, unit: hour, requests_per_unit: 1, algorithm: sliding_log }\n";
const ONE_PATH: &str = "domain: gateway\ndescriptors:\n  - key: method\n    descriptors:\n      - key: path\n        rate_limit: { unit: year, requests_per_unit: 1 }\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn a_denial_says_why_and_when_and_keeps_the_connection() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup { rules: ONE, ..GatewaySetup::default() }.start(upstream.address).await;
    let _backend = upstream.answer_all(OK);
    let mut client = Raw::connect(gateway.address).await;
    let (head, body) = client.ask(GET).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!((body.as_str(), field(&head, "x-ratelimit-remaining")), ("ok", Some("0")));
    for _ in 0..2 {
        let (head, body) = client.ask(GET).await;
        assert!(head.starts_with("HTTP/1.1 429"), "{head}");
        assert_eq!(field(&head, "content-type"), Some("application/problem+json"));
        assert_eq!(field(&head, "x-tollgate-verdict"), Some("deny"));
        let wait: u64 = field(&head, "retry-after").unwrap().parse().unwrap();
        assert!((1..=3600).contains(&wait), "{head}");
        assert!(body.contains("\"violated-policies\":[\"by address\"]"), "{body}");
    }
}

#[tokio::test]
async fn a_denial_is_answered_without_its_body_and_can_be_read_after_a_large_one() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup { rules: ONE, ..GatewaySetup::default() }.start(upstream.address).await;
    let _backend = upstream.answer_all(OK);
    let mut client = Raw::connect(gateway.address).await;
    client.ask(GET).await;
    // The body never comes, and the answer does.
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n").await;
    assert!(client.head().await.starts_with("HTTP/1.1 429"));
    // One that is larger than what is drained.
    let mut client = Raw::connect(gateway.address).await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n").await;
    let (mut reader, mut writer) = client.stream.into_split();
    let sending = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        writer.write_all(&vec![b'x'; 1_000_000]).await
    });
    let mut answer = Vec::new();
    crate::support::in_time(async {
        use tokio::io::AsyncReadExt as _;
        while !answer.ends_with(b"}") && reader.read_buf(&mut answer).await.is_ok_and(|count| count > 0) {}
    })
    .await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("violated-policies"), "{answer}");
    sending.abort();
}

/// A client would send its next request on a connection that is being closed, and lose it.
#[tokio::test]
async fn an_answer_after_which_the_connection_is_closed_says_so() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup { rules: ONE, ..GatewaySetup::default() }.start(upstream.address).await;
    let _backend = upstream.answer_all(OK);
    Raw::connect(gateway.address).await.ask(GET).await;
    for (fields, closes) in [
        ("Content-Length: 5\r\n\r\nhello", None),
        ("Content-Length: 262144\r\n\r\n", None),
        ("Content-Length: 262145\r\n\r\n", Some("close")),
        ("Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", Some("close")),
        ("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n", Some("close")),
    ] {
        let mut client = Raw::connect(gateway.address).await;
        let (head, _) = client.ask(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}")).await;
        assert!(head.starts_with("HTTP/1.1 429"), "{head}");
        assert_eq!(field(&head, "connection"), closes, "{fields:?}");
    }
}

#[tokio::test]
async fn an_error_says_that_the_connection_is_closed_if_the_body_is_not_read() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    let _backend = upstream.answer_all("HTTP/1.1 nonsense\r\n\r\n");
    for (fields, closes) in [
        ("Content-Length: 5\r\n\r\nhello", None),
        ("Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", None),
        ("Content-Length: 262145\r\n\r\n", Some("close")),
        ("Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", Some("close")),
    ] {
        let mut client = Raw::connect(gateway.address).await;
        let (head, _) = client.ask(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}")).await;
        assert!(head.starts_with("HTTP/1.1 502"), "{head}");
        assert_eq!(field(&head, "connection"), closes, "{fields:?}");
        if closes.is_none() {
            let (next, _) = client.ask(GET).await;
            assert!(next.starts_with("HTTP/1.1 502"), "{fields:?}: {next}");
        }
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_dodges_its_limit() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup { rules: ONE_PATH, ..GatewaySetup::default() }.start(upstream.address).await;
    let _backend = upstream.answer_all(OK);
    let mut client = Raw::connect(gateway.address).await;
    let (head, _) = client.ask("GET /login HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    for path in [
        "/login",
        "//login",
        "/./login",
        "/a/../login",
        "/%2e/login",
        "/l%6Fgin",
        "/l%6fgin",
        "http://b/login",
    ] {
        let (head, _) = client.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        assert!(head.starts_with("HTTP/1.1 429"), "{path}: {head}");
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_dodges_its_limit_over_http2() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup { rules: ONE_PATH, ..GatewaySetup::default() }.start(upstream.address).await;
    let _backend = upstream.answer_all(OK);
    let mut client = Attacker::connect(gateway.address).await;
    let paths = [
        "/login",
        "/login",
        "//login",
        "/./login",
        "/a/../login",
        "/%2e/login",
        "/l%6Fgin",
        "/l%6fgin",
        "/login?a",
    ];
    for (stream, path) in (1_u32..).step_by(2).zip(paths) {
        let head = [literal(b":path", path.as_bytes()), b"\x82\x86\x41\x01a".to_vec()].concat();
        client.send(vec![frame(HEADERS, END_STREAM | END_HEADERS, stream, &head)]).await;
        let answer = client.next(HEADERS).await.unwrap();
        // What HPACK has for `:status 200`; all others have been denied.
        assert_eq!((answer.stream, answer.payload[0] == 0x88), (stream, stream == 1), "{path}");
    }
}
