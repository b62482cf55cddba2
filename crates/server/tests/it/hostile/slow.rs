//! Callers that take their time, and connections that grow old.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};

use super::{Bystander, RULES};
use crate::support::{DEADLINE, Server, Setup};

/// Some bytes, and then nothing for ever.
struct Halting(Option<Bytes>);

impl Body for Halting {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            // Nobody is ever woken up.
            None => Poll::Pending,
        }
    }
}

#[tokio::test]
async fn half_a_message_and_then_silence_gets_an_error() {
    let server = Server::with(RULES).await;
    let bystander = Bystander::at(&server).await;
    let stream = TcpStream::connect(server.grpc_address()).await.unwrap();
    let (mut send, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let half = Halting(Some(Bytes::from_static(&[0, 0, 0, 0, 50, 10, 1])));
    let request =
        hyper::Request::post("http://t/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
            .header("content-type", "application/grpc")
            .body(half)
            .unwrap();
    let response =
        timeout(DEADLINE, send.send_request(request)).await.expect("it is answered in time").unwrap();
    let status = response.headers().get("grpc-status").expect("the answer has no message");
    assert_eq!(status, "4", "DEADLINE_EXCEEDED");
    drop(send);
    connection.abort();
    bystander.noticed_nothing().await;
}

#[tokio::test]
async fn a_body_byte_by_byte_gets_408() {
    let server = Server::with(RULES).await;
    let bystander = Bystander::at(&server).await;
    let stream = TcpStream::connect(server.addresses.http).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let dribble = tokio::spawn(async move {
        write.write_all(b"POST /json HTTP/1.1\r\nhost: t\r\ncontent-length: 10000\r\n\r\n").await.unwrap();
        while write.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let mut answer = vec![0; 12];
    timeout(DEADLINE, read.read_exact(&mut answer)).await.expect("it is answered in time").unwrap();
    assert_eq!(answer, b"HTTP/1.1 408");
    dribble.abort();
    bystander.noticed_nothing().await;
}

#[tokio::test]
async fn a_connection_of_age_is_asked_to_go_and_goes_in_peace() {
    let server = Setup::new(&[("rules.yaml", RULES)]).env("GRPC_MAX_CONNECTION_AGE", "500ms").start().await;
    // Its calls go on: the client is asked to go again and again, and comes back.
    let bystander = Bystander::at(&server).await;
    for _ in 0..3 {
        let stream = TcpStream::connect(server.grpc_address()).await.unwrap();
        let (send, connection) =
            http2::handshake::<_, _, Halting>(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let ended = timeout(DEADLINE, connection).await.expect("it is asked to go in time");
        assert!(ended.is_ok(), "{ended:?}");
        drop(send);
    }
    bystander.noticed_nothing().await;
}

#[tokio::test]
async fn a_caller_that_closes_its_side_still_gets_its_answer() {
    let server = Server::with(RULES).await;
    let check = r#"{"domain":"d","descriptors":[{"half_closed":"x"}]}"#;
    let post = |body: &str, headers: &str| {
        let length = body.len();
        format!("POST /v1/check HTTP/1.1\r\nhost: t\r\n{headers}content-length: {length}\r\n\r\n{body}")
    };
    let batch = format!("[{}]", [check; 1_000].join(","));
    let (admin, http) = (server.addresses.admin, server.addresses.http);
    let asked = [
        // The page is rendered on another thread, so that the end is seen before the answer is there.
        (admin, "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned()),
        (http, post(check, "")),
        // With so many headers it takes hyper's way.
        (http, post(check, &"a: b\r\n".repeat(40))),
        (http, post(&batch, "")),
    ];
    for (to, request) in asked.iter().cycle().take(20 * asked.len()) {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        timeout(DEADLINE, stream.read_to_string(&mut answer)).await.expect("it ends in time").unwrap();
        let what = request.lines().next().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{what}: {answer:?}");
        let decisions = answer.matches(r#""verdict":"allow","#).count();
        let expected = request.matches("half_closed").count();
        assert_eq!(decisions, expected, "{what}: {} bytes", answer.len());
    }
}
