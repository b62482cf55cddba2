//! HTTP/2 in, HTTP/1.1 out.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tollgate_defer::{DeferConfig, DeferService, EmbeddedQueue};
use tollgate_gateway::bounds::{FIELDS_MAX, KEEP_ALIVE_MAX};
use tollgate_gateway::{
    GatewayConfig, GatewayTimeouts, GroupConfig, RouteConditions, RouteConfig, default_mapping,
};
use tollgate_http::{Action, Fact, Mapping, MissingValue, PathTemplates};

use crate::support::{DEADLINE, GatewaySetup, Raw, RawUpstream, TestGateway, eventually, field, pass, url};

/// What a client of HTTP/2 begins with, and an empty frame of settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// `POST /` of the host `a` on the first stream, with a body of one byte to come, in HPACK.
const POST: &[u8] = b"\0\0\x0a\x01\x04\0\0\0\x01\x83\x86\x84\x41\x01a\x0f\x0d\x011";
/// A byte of its body, which is not the end.
const BYTE: &[u8] = b"\0\0\x01\0\0\0\0\0\x01x";
/// The end of its body.
const END: &[u8] = b"\0\0\0\0\x01\0\0\0\x01";
const RST_STREAM: u8 = 3;

type Sender = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

async fn connect(gateway: &TestGateway) -> Sender {
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test]
async fn a_request_over_http2_with_prior_knowledge_is_forwarded() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    let mut sender = connect(&gateway).await;
    let request = hyper::Request::post("http://shop.example/x?y")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(Full::from("hello"))
        .unwrap();
    let answer = tokio::spawn(sender.send_request(request));
    let mut backend = upstream.accept().await;
    let head = backend.head().await;
    assert!(head.starts_with("POST /x?y HTTP/1.1\r\n"), "{head}");
    for (name, value) in [
        ("host", "shop.example"),
        ("cookie", "a=1; b=2"),
        ("via", "2 tollgate"),
        ("content-length", "5"),
        ("x-forwarded-for", "127.0.0.1"),
    ] {
        assert_eq!(field(&head, name), Some(value), "{head}");
    }
    assert_eq!(backend.bytes(5).await, "hello");
    backend.send("HTTP/1.1 201 Created\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nyes").await;
    let answer = answer.await.unwrap().unwrap();
    assert_eq!(answer.status(), 201);
    assert!(answer.headers().get("connection").is_none());
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "yes");
}

#[tokio::test]
async fn connect_is_refused_over_http2_too() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    let mut sender = connect(&gateway).await;
    let request = hyper::Request::connect("shop.example:443").body(Full::default()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 405);
    upstream.was_left_alone().await;
}

/// Routes to the same upstream.
fn routes(upstream: &RawUpstream, own: Vec<(&str, Option<Mapping>)>) -> GatewayConfig {
    let first_byte = Duration::from_millis(50);
    let routes = own.into_iter().map(|(path, mapping)| RouteConfig {
        conditions: RouteConditions {
            paths: Some(PathTemplates::new(&[path]).unwrap()),
            ..RouteConditions::default()
        },
        group: Arc::new(GroupConfig::of(url(upstream.address))),
        mapping,
        timeouts: GatewayTimeouts { first_byte, ..GatewayTimeouts::default() },
    });
    GatewayConfig { routes: routes.collect(), max_wait: DEADLINE }
}

/// Status, fields and body of the answer to a request without a body.
async fn ask(gateway: &TestGateway, method: &Method, path: &str) -> (StatusCode, HeaderMap, Bytes) {
    let mut sender = connect(gateway).await;
    let request = hyper::Request::builder().method(method).uri(format!("http://a{path}"));
    let answer = sender.send_request(request.body(Full::default()).unwrap()).await.unwrap();
    let (parts, body) = answer.into_parts();
    // A client takes bytes in an answer to HEAD for an error of the protocol.
    let body = body.collect().await.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"));
    (parts.status, parts.headers, body.to_bytes())
}

#[tokio::test]
async fn an_answer_of_our_own_to_head_has_the_length_of_its_body_and_no_body() {
    const RULES: &str = "domain: gateway\ndescriptors:\n  - key: path\n    value: /denied\n    descriptors:\n      - key: remote_address\n        rate_limit: { unit: hour, requests_per_unit: 0 }\n  - key: path\n    value: /later\n    descriptors:\n      - key: remote_address\n        rate_limit: { unit: year, requests_per_unit: 1, over_limit: defer }\n";
    let folder = tempfile::tempdir().unwrap();
    let deferring = Arc::new(DeferService::new(DeferConfig::default()));
    deferring.open(EmbeddedQueue::open(folder.path(), DeferConfig::default()).unwrap()).unwrap();
    let missing = Action::new("user", Fact::header("x-user").unwrap()).or(MissingValue::Deny);
    let missing = Mapping::new("gateway", vec![vec![missing]]).unwrap();
    let upstream = RawUpstream::new().await;
    let mut config = routes(
        &upstream,
        vec![
            ("/denied", None),
            ("/silent", None),
            ("/%00", None),
            ("/later", None),
            ("/user", Some(missing)),
        ],
    );
    let down = RawUpstream::new().await;
    config.routes.extend(routes(&down, vec![("/down", None)]).routes);
    drop(down);
    let setup = GatewaySetup {
        rules: RULES,
        deferring: Some(deferring),
        mapping: default_mapping(),
        ..GatewaySetup::default()
    };
    let gateway = setup.start_with(config).await;
    // The first one passes, and is not answered.
    assert_eq!(ask(&gateway, &Method::GET, "/later").await.0, 504);
    for (path, status) in [
        ("/denied", 429),
        ("/silent", 504),
        ("/later", 202),
        ("/user", 403),
        ("/down", 502),
        ("/nowhere", 404),
        ("/%00", 400),
        ("/v1/deferred/00000000000000000000000000000000", 404),
    ] {
        let (got, fields, body) = ask(&gateway, &Method::HEAD, path).await;
        assert_eq!((got.as_u16(), body.len()), (status, 0), "{path}");
        let (_, own, body) = ask(&gateway, &Method::GET, path).await;
        let length =
            |fields: &HeaderMap| fields["content-length"].to_str().unwrap().parse::<usize>().unwrap();
        // Milliseconds and identifiers of the two may differ in length.
        assert!(length(&fields).abs_diff(body.len()) < 5 && !body.is_empty(), "{path}: {fields:?}");
        assert_eq!(fields["content-type"], own["content-type"], "{path}");
    }
}

#[tokio::test]
async fn a_target_that_is_no_path_is_refused_as_over_http1() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    let mut sender = connect(&gateway).await;
    let request = |method: Method, path: &'static str| {
        let uri = Uri::builder().scheme("http").authority("a").path_and_query(path).build().unwrap();
        hyper::Request::builder().method(method).uri(uri).body(Full::default()).unwrap()
    };
    for (method, path) in [(Method::GET, "*"), (Method::POST, "*")] {
        let answer = sender.send_request(request(method, path)).await.unwrap();
        assert_eq!(answer.status(), 400, "{path}");
    }
    upstream.was_left_alone().await;
    let answer = tokio::spawn(sender.send_request(request(Method::OPTIONS, "*")));
    let mut backend = upstream.accept().await;
    assert!(backend.head().await.starts_with("OPTIONS * HTTP/1.1\r\n"));
    backend.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(answer.await.unwrap().unwrap().status(), 204);
}

/// RFC 9113, 8.3.1: whoever looks at one of them and whoever looks at the other must see the same.
#[tokio::test]
async fn a_host_beside_another_authority_is_refused() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    let _backend = upstream.answer_all("HTTP/1.1 204 No Content\r\n\r\n");
    let mut sender = connect(&gateway).await;
    for (host, status) in
        [("b", 400), ("a:8", 400), ("a.b", 400), ("", 400), ("a", 204), ("A", 204), ("a:80", 204)]
    {
        let request = hyper::Request::get("http://a/").header("host", host).body(Full::default()).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), status, "{host:?}");
    }
}

/// The same that the tower layer says.
#[tokio::test]
async fn a_denied_call_of_grpc_is_told_the_message_of_its_limit() {
    const RULES: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: hour, requests_per_unit: 0, message: \"100 % used\" }\n";
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup { rules: RULES, ..GatewaySetup::default() }.start(upstream.address).await;
    let mut sender = connect(&gateway).await;
    let mut ask = async |content: &'static str| {
        let request = hyper::Request::post("http://a/x.Y/Z").header("content-type", content);
        sender.send_request(request.body(Full::default()).unwrap()).await.unwrap()
    };
    let answer = ask("application/grpc+proto").await;
    let told = |name: &str| answer.headers().get(name).map(HeaderValue::as_bytes);
    assert_eq!((answer.status().as_u16(), told("grpc-status")), (200, Some(&b"8"[..])));
    assert_eq!(told("grpc-message"), Some(&b"100 %25 used"[..]));
    assert_eq!(told("content-type"), Some(&b"application/grpc"[..]));
    assert_eq!(ask("application/grpc-web").await.status(), 429, "which is no gRPC to us");
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    let _upstream = upstream.answer_all("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let get = || hyper::Request::get("http://a/").body(Full::default()).unwrap();
    // One that has had none, and one that has.
    let (unused, mut used) = (connect(&gateway).await, connect(&gateway).await);
    assert_eq!(used.send_request(get()).await.unwrap().status(), 200);
    pass(KEEP_ALIVE_MAX / 2).await;
    assert_eq!(used.send_request(get()).await.unwrap().status(), 200);
    pass(KEEP_ALIVE_MAX / 2).await;
    eventually(|| unused.is_closed()).await;
    assert!(!used.is_closed(), "it had a request since");
    pass(KEEP_ALIVE_MAX / 2).await;
    eventually(|| used.is_closed()).await;
}

#[tokio::test]
async fn a_head_has_as_many_fields_as_over_http1() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    let _upstream = upstream.answer_all("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let mut sender = connect(&gateway).await;
    for (fields, status) in [(FIELDS_MAX, 200), (FIELDS_MAX + 1, 431)] {
        let mut request = hyper::Request::get("http://a/");
        for number in 0..fields {
            request = request.header(format!("x-{number}"), "y");
        }
        let answer = sender.send_request(request.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), status, "{fields} fields");
    }
}

/// Clients take two lengths, a list of them and one of a 204 for an error of the protocol.
#[tokio::test]
async fn an_answer_has_one_length_and_a_204_has_none() {
    for (answer, status, lengths) in [
        ("200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 200, &["2"][..]),
        ("200 OK\r\nContent-Length: 2, 2\r\n\r\nok", 502, &[]),
        ("204 No Content\r\nContent-Length: 4\r\n\r\n", 204, &[]),
        ("304 Not Modified\r\nContent-Length: 4\r\n\r\n", 304, &["4"]),
    ] {
        let upstream = RawUpstream::new().await;
        let gateway = GatewaySetup::default().start(upstream.address).await;
        let _backend = upstream.answer_with(move |_| format!("HTTP/1.1 {answer}").leak());
        let request = hyper::Request::get("http://a/").body(Full::default()).unwrap();
        let answered = connect(&gateway).await.send_request(request).await.unwrap();
        assert_eq!(answered.status(), status, "{answer}");
        let seen: Vec<_> = answered.headers().get_all("content-length").iter().collect();
        // A 502 is an answer of our own.
        assert!(seen == lengths || status == 502 && seen.len() == 1, "{answer}: {seen:?}");
    }
}

/// Some clients take a reset for a failure although they have the answer (RFC 9113, 8.1).
#[tokio::test]
async fn a_stream_is_not_reset_while_its_client_is_about_to_end_its_body() {
    // One that the upstream answers before the end of its body, and one that no upstream answers.
    for answer in ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "nonsense\r\n\r\n"] {
        let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
        let _backend = upstream.answer_all(answer);
        client.send([PREFACE, POST, BYTE].concat()).await;
        let mut types = Vec::new();
        // Until an empty or a last frame of data ends the answer.
        while types.last() != Some(&(0, 1)) {
            types.push(frame(&mut client).await);
        }
        client.send(END).await;
        client.send(b"\0\0\x08\x06\0\0\0\0\x00abcdefgh").await;
        while types.last() != Some(&(6, 1)) {
            types.push(frame(&mut client).await);
        }
        assert!(types.iter().all(|(kind, _)| *kind != RST_STREAM), "{answer:?}: {types:?}");
    }
}

/// Type and flags of the next frame.
async fn frame(client: &mut Raw) -> (u8, u8) {
    let head = client.raw_bytes(9).await;
    client.raw_bytes(usize::from(head[1]) << 8 | usize::from(head[2])).await;
    (head[3], head[4])
}
