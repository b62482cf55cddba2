//! HTTP/2 in, HTTP/1.1 out.

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::support::{GatewaySetup, RawUpstream, TestGateway, field};

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
