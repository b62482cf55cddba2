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
    // The page is rendered on another thread, so that the end is seen before the answer is there.
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.addresses.admin).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        timeout(DEADLINE, stream.read_to_string(&mut answer)).await.expect("it ends in time").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer:?}");
    }
}
