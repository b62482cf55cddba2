//! The short way and hyper's way give the same.
//!
//! An empty line before a request, which `strict` drops, sends it to hyper; nothing else about it
//! changes. So each case is asked twice, and everybody gets the same lines both times. Where hyper
//! sorts fields by name, order does not matter.

use std::future::pending;
use std::sync::Arc;

use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufWriter, DuplexStream, duplex,
};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tollgate_gateway::ClientSocket;
use tollgate_gateway::bounds::{DIRECT_OUT_BYTES, WRITE_WAIT_MAX};

use crate::support::{GatewaySetup, Raw, RawUpstream, TestGateway, in_time};

/// What both sides got.
#[derive(Debug, PartialEq, Eq)]
struct BothSides {
    forwarded: Option<Message>,
    answered: Message,
}

/// A message as it was sent, its fields sorted and without times.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    first_line: String,
    fields: Vec<String>,
    body: String,
}

impl Message {
    fn new(head: &str, body: String) -> Self {
        let mut lines = head.trim_end().split("\r\n").map(str::to_owned);
        let first_line = lines.next().unwrap();
        let lines = lines.filter(|line| !line.starts_with("date: "));
        let mut fields: Vec<String> = lines.map(|line| without_times(&line)).collect();
        fields.sort();
        Self { first_line, fields, body }
    }

    /// Reads one, whatever frames its body.
    async fn read(from: &mut Raw, has_body: bool) -> Self {
        let head = from.head().await;
        let is_chunked = head.contains("\r\ntransfer-encoding: chunked\r\n");
        let body = match (has_body, is_chunked) {
            (false, _) => String::new(),
            (true, false) => from.bytes(crate::support::length(&head)).await,
            (true, true) => {
                let mut body = String::new();
                loop {
                    let line = in_time(from.until(b"\r\n")).await.unwrap();
                    let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
                    let chunk = from.bytes(size + 2).await;
                    if size == 0 {
                        break body;
                    }
                    body.push_str(chunk.trim_end_matches("\r\n"));
                }
            }
        };
        Self::new(&head, body)
    }
}

/// A field without the seconds that are left, of which one may pass between two requests.
fn without_times(line: &str) -> String {
    let mut parts = line.split(";t=");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |line, part| line + ";t=" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// What becomes of a request, on either way, if the upstream answers like this and perhaps hangs up.
async fn play(gateway: &TestGateway, upstream: &RawUpstream, way: &str, case: &ExchangeCase) -> BothSides {
    let mut client = Raw::connect(gateway.address).await;
    client.send(format!("{way}{}", case.request)).await;
    let mut forwarded = None;
    if let Some(answer) = case.answer {
        let mut backend = upstream.accept().await;
        forwarded = Some(Message::read(&mut backend, true).await);
        backend.send(answer).await;
        backend.stream.shutdown().await.unwrap();
    }
    let has_body = !case.request.starts_with("HEAD") && !case.is_bodiless;
    let answered = Message::read(&mut client, has_body).await;
    // Whatever is left of an answer would be taken for the next one.
    client.send("GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    if case.answer.is_some() {
        let mut backend = upstream.accept().await;
        assert!(backend.head().await.starts_with("GET /next "), "{case:?}");
        backend.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext").await;
    }
    let next = client.head().await;
    assert!(next.starts_with("HTTP/1.1 "), "{case:?}: {next}");
    BothSides { forwarded, answered }
}

#[derive(Debug, Clone, Copy)]
struct ExchangeCase {
    request: &'static str,
    /// None if it is not forwarded.
    answer: Option<&'static str>,
    is_bodiless: bool,
}

const fn case(request: &'static str, answer: &'static str) -> ExchangeCase {
    ExchangeCase { request, answer: Some(answer), is_bodiless: false }
}

const GET: &str = "GET /a/./b?c=%41 HTTP/1.1\r\nHost: a.example\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

const CASES: &[ExchangeCase] = &[
    case(GET, OK),
    // Requests.
    case(
        "GET / HTTP/1.1\r\nhost: a:80\r\nAccept: */*\r\nUser-Agent: x/1\r\nX-Empty:\r\nX-Tab: a\tb\r\nX-One: 1\r\nX-One: 2\r\n\r\n",
        OK,
    ),
    case(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nCookie: a=b; c=d\r\nContent-Length: 0\r\n\r\n",
        OK,
    ),
    case("POST /p HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello", OK),
    case("POST /p HTTP/1.1\r\nHost: a\r\n\r\n", OK),
    case("DELETE /p HTTP/1.1\r\nHost: a\r\n\r\n", OK),
    case("OPTIONS /p HTTP/1.1\r\nHost: a\r\n\r\n", OK),
    case(
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7\r\nX-Forwarded-Proto: gopher\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Port: 1\r\nX_Forwarded_For: 8.8.8.8\r\nX-Real-IP: 9.9.9.9\r\nForwarded: for=6.6.6.6\r\nVia: 1.0 evil\r\nX-Tollgate-Client: me\r\nx-tollgate_verdict: allow\r\n\r\n",
        OK,
    ),
    case("GET / HTTP/1.1\r\nHost: a\r\nX-Odd: \u{e9}\r\n\r\n", OK),
    // Answers.
    case(
        GET,
        "HTTP/1.1 200 Fine\r\nDate: Tue, 17 Nov 2026 00:00:00 GMT\r\nSet-Cookie: a=b\r\nX-A: 1\r\nSet-Cookie: c=d\r\nContent-Length: 0\r\n\r\n",
    ),
    case(GET, "HTTP/1.1 404 \r\nContent-Length: 2\r\n\r\nno"),
    case(GET, "HTTP/1.1 299 \r\ncontent-length: 2\r\n\r\nok"),
    case(GET, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"),
    case(
        GET,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n",
    ),
    case(GET, "HTTP/1.1 200 OK\r\n\r\nuntil the end"),
    case(GET, "HTTP/1.1 200 OK\r\n\r\n"),
    case(GET, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    case(GET, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nok"),
    case(
        GET,
        "HTTP/1.1 200 OK\r\nConnection: close, X-Gone, content-length\r\nX-Gone: 1\r\nX-Stays: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\nTE: x\r\nUpgrade: h2c\r\nTrailer: X-Sum\r\nContent-Length: 2\r\n\r\nok",
    ),
    case(
        GET,
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ),
    case(
        GET,
        "HTTP/1.1 200 OK\r\nX-RateLimit-Limit: 99\r\nX-RateLimit-Other: 1\r\nRetry-After: 3\r\nX-Tollgate-Verdict: x\r\nContent-Length: 2\r\n\r\nok",
    ),
    case("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
    case("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    case("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"),
    ExchangeCase { is_bodiless: true, ..case(GET, "HTTP/1.1 204 No Content\r\n\r\n") },
    ExchangeCase { is_bodiless: true, ..case(GET, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n") },
    ExchangeCase { is_bodiless: true, ..case(GET, "HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n") },
    ExchangeCase {
        is_bodiless: true,
        ..case(GET, "HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 7\r\n\r\n")
    },
    ExchangeCase { is_bodiless: true, ..case(GET, "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n") },
    // What is no answer.
    case(GET, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    case(GET, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"),
    case(
        GET,
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ),
    case(GET, "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok"),
    case(GET, "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok"),
    case(GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    case(GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc"),
    case(
        GET,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ),
    case(GET, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    case(GET, "nonsense\r\n\r\n"),
    case("POST / HTTP/1.1\r\nHost: a\r\n\r\n", ""),
    case("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "nonsense\r\n\r\n"),
];

/// A client would take bytes that are coded for those of the answer.
#[tokio::test]
async fn an_answer_in_a_coding_that_nobody_asked_for_is_none() {
    for coding in ["gzip", "gzip, chunked", "chunked, chunked", "chunked\r\nTransfer-Encoding: chunked", ""] {
        for way in ["", "\r\n"] {
            let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
            let mut backend = upstream.forwarded(&mut client, format!("{way}{GET}")).await;
            let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n");
            backend.send(format!("{head}3\r\nabc\r\n0\r\n\r\n")).await;
            let head = client.head().await;
            assert!(head.starts_with("HTTP/1.1 502"), "{coding:?} {way:?}: {head}");
        }
    }
}

/// Plays every case both ways.
async fn compare(setup: impl Fn() -> GatewaySetup, cases: &[ExchangeCase]) {
    let mut differing = Vec::new();
    for case in cases {
        let mut outcomes = Vec::new();
        for way in ["", "\r\n"] {
            let (upstream, gateway, _) = setup().meet().await;
            outcomes.push(in_time(play(&gateway, &upstream, way, case)).await);
        }
        if outcomes[0] != outcomes[1] {
            differing
                .push(format!("{case:#?}\non the short way {:#?}\nby hyper {:#?}", outcomes[0], outcomes[1]));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n\n"));
}

#[tokio::test]
async fn both_ways_forward_and_answer_alike() {
    compare(GatewaySetup::default, CASES).await;
}

const LIMITED: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    rate_limit: { name: by address, algorithm: token_bucket, unit: hour, requests_per_unit: 9 }\n  - key: method\n    descriptors:\n      - key: path\n        rate_limit: { name: by path, unit: day, requests_per_unit: 8, shadow_mode: true }\n";
const NOTHING: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    rate_limit: { name: \"by \\\"address\\\"\", unit: day, requests_per_unit: 0 }\n";

#[tokio::test]
async fn both_ways_tell_of_limits_and_believe_trusted_proxies_alike() {
    let limited = || GatewaySetup { rules: LIMITED, ratelimit_fields: true, ..GatewaySetup::default() };
    compare(limited, CASES).await;
    compare(|| GatewaySetup { trusted: &["127.0.0.0/8"], ..limited() }, CASES).await;
    // Names beyond ASCII, which the upstream is sent as they are.
    let odd: &str = LIMITED.replace("name: by ", "name: b\u{fd} ").leak();
    compare(|| GatewaySetup { rules: odd, ..limited() }, CASES.split_at(2).0).await;
}

#[tokio::test]
async fn both_ways_deny_in_the_same_bytes() {
    let (_upstream, gateway, _) =
        GatewaySetup { rules: NOTHING, ratelimit_fields: true, ..GatewaySetup::default() }.meet().await;
    let requests = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        "PUT /p?q HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n",
        "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    for request in requests {
        let mut answers = Vec::new();
        for way in ["", "\r\n"] {
            let mut client = Raw::connect(gateway.address).await;
            client.send(format!("{way}{request}")).await;
            let head = client.head().await;
            assert!(head.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{head}");
            let length = crate::support::length(&head);
            assert!(length > 0, "{head}");
            let body = client.bytes(if request.starts_with("HEAD") { 0 } else { length }).await;
            let date = head.find("\r\ndate: ").unwrap();
            assert_eq!(head.len() - date, "\r\ndate: Tue, 17 Nov 2026 00:00:00 GMT\r\n\r\n".len(), "{head}");
            answers.push((head[..date].to_owned(), body));
            // Whatever is left of an answer would be taken for the next one.
            let (next, _) = client.ask("GET /next HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert!(next.starts_with("HTTP/1.1 429 "), "{request}: {next}");
        }
        assert_eq!(answers[0], answers[1], "{request}");
    }
}

#[tokio::test]
async fn requests_that_come_together_are_answered_in_order_and_the_rest_is_hypers() {
    let rules = "domain: gateway\ndescriptors:\n  - key: method\n    descriptors:\n      - key: path\n        value: /no\n        rate_limit: { unit: day, requests_per_unit: 0 }\n";
    let (upstream, _gateway, mut client) = GatewaySetup { rules, ..GatewaySetup::default() }.meet().await;
    let _backend = upstream.answer_with(|head| match head.split(' ').nth(1) {
        Some("/1") => "HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\none",
        Some("/2") => "HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\ntwo",
        _ => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    });
    let no = "GET /no HTTP/1.1\r\nHost: a\r\n\r\n";
    let last = "POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    let requests =
        format!("{no}GET /1 HTTP/1.1\r\nHost: a\r\n\r\n{no}{no}GET /2 HTTP/1.1\r\nHost: a\r\n\r\n{last}{no}");
    client.send(requests).await;
    let mut statuses = Vec::new();
    for _ in 0..7 {
        let answer = in_time(Message::read(&mut client, true)).await;
        statuses.push(answer.first_line.split(' ').nth(1).unwrap().to_owned());
    }
    assert_eq!(statuses, ["429", "201", "429", "429", "202", "200", "429"]);
}

/// Their answers are more than is written at once.
#[tokio::test]
async fn many_requests_that_come_together_are_all_answered() {
    const MANY: usize = 500;
    let (_upstream, gateway, mut client) =
        GatewaySetup { rules: NOTHING, ..GatewaySetup::default() }.meet().await;
    client.send(GET.repeat(MANY)).await;
    let mut bytes = 0;
    for _ in 0..MANY {
        let answer = in_time(Message::read(&mut client, true)).await;
        assert!(answer.first_line.starts_with("HTTP/1.1 429 "), "{}", answer.first_line);
        bytes += answer.body.len();
    }
    assert!(bytes > DIRECT_OUT_BYTES, "{bytes}");
    // Nothing is left that would be taken for the answer to another one.
    let (mut other, _stop) = connect(&gateway).await;
    let (next, _) = other.ask(GET).await;
    assert_eq!(client.ask(GET).await.0.len(), next.len(), "{next}");
}

/// The connection has no room for a whole answer, and with a buffer of its own it takes one and keeps the
/// rest, as TLS does.
#[tokio::test]
async fn a_denial_comes_whole_to_a_client_that_takes_a_few_bytes_at_a_time() {
    async fn deny(gateway: &TestGateway, near: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let socket = ClientSocket { peer: Some([127, 0, 0, 1].into()), is_tls: false };
        in_time(Arc::clone(&gateway.gateway).serve(near, socket, pending())).await.unwrap();
    }
    async fn ask(mut far: DuplexStream) {
        for _ in 0..3 {
            far.write_all(GET.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"}") {
                assert!(far.read_buf(&mut answer).await.unwrap() > 0, "{}", answer.escape_ascii());
            }
            assert!(answer.len() > 2 * ROOM && answer.starts_with(b"HTTP/1.1 429 "));
        }
    }
    const ROOM: usize = 100;
    let (_upstream, gateway, _) = GatewaySetup { rules: NOTHING, ..GatewaySetup::default() }.meet().await;
    let (near, far) = duplex(ROOM);
    tokio::join!(deny(&gateway, near), ask(far));
    let (near, far) = duplex(ROOM);
    tokio::join!(deny(&gateway, BufWriter::new(near)), ask(far));
}

/// Its denials wait where TLS would keep them, and nowhere for longer than any other answer.
#[tokio::test]
async fn a_client_that_takes_nothing_is_not_waited_for_for_ever() {
    let (_upstream, gateway, _) = GatewaySetup { rules: NOTHING, ..GatewaySetup::default() }.meet().await;
    let (near, mut far) = duplex(100);
    far.write_all(GET.as_bytes()).await.unwrap();
    tokio::time::pause();
    let start = Instant::now();
    let socket = ClientSocket { peer: Some([127, 0, 0, 1].into()), is_tls: false };
    let serving = Arc::clone(&gateway.gateway).serve(BufWriter::new(near), socket, pending());
    let served = timeout(WRITE_WAIT_MAX * 10, serving).await;
    assert!(served.is_ok(), "the connection is still there");
    assert!(start.elapsed() >= WRITE_WAIT_MAX, "{:?}", start.elapsed());
}

/// A connection that can be told to end.
async fn connect(gateway: &TestGateway) -> (Raw, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Raw::connect(listener.local_addr().unwrap()).await;
    let (stream, peer) = listener.accept().await.unwrap();
    let socket = ClientSocket { peer: Some(peer.ip()), is_tls: false };
    let (gateway, stop) = (Arc::clone(&gateway.gateway), Arc::new(Notify::new()));
    let stopped = Arc::clone(&stop);
    let serving = gateway.serve(stream, socket, async move { stopped.notified().await });
    tokio::spawn(serving);
    (client, stop)
}

#[tokio::test]
async fn a_stop_finishes_the_request_that_there_is_and_takes_no_more() {
    let (upstream, gateway, _) = GatewaySetup::default().meet().await;
    let (mut client, stop) = connect(&gateway).await;
    let mut backend = upstream.forwarded(&mut client, GET).await;
    stop.notify_one();
    // It is noticed while the upstream takes its time.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    client.send(GET).await;
    backend.send(OK).await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    // Without a request it ends at once.
    let (mut client, stop) = connect(&gateway).await;
    client.send(GET).await;
    backend.head().await;
    backend.send(OK).await;
    client.bytes(2).await;
    stop.notify_one();
    assert!(!client.rest().await.contains("connection: close"));
}

#[tokio::test]
async fn a_client_that_leaves_while_the_upstream_is_busy_ends_its_request() {
    let (upstream, gateway, mut client) = GatewaySetup::default().meet().await;
    let mut backend = upstream.forwarded(&mut client, GET).await;
    let status = || gateway.gateway.upstreams().remove(0);
    assert_eq!(status().in_flight, 1);
    drop(client);
    assert_eq!(backend.rest().await, "", "its connection is closed");
    crate::support::eventually(|| status().in_flight == 0).await;
    assert_eq!(status().failures, 0);
}
