//! gRPC through the gateway: what calls are told that come to nothing, and streams with their trailers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::HeaderMap;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tollgate_gateway::{GatewayConfig, GatewayTimeouts};

use crate::exact_bodies::{Pieces, connect};
use crate::support::{DEADLINE, GatewaySetup, RawUpstream, TestGateway, in_time};

/// How a server ends its answers.
#[derive(Clone, Copy)]
enum End {
    /// With trailers that say that all is well.
    Trailers,
    /// In the middle.
    Reset,
}

/// What came goes back, to an end of its own.
struct Echo {
    inner: Incoming,
    end: End,
    is_over: bool,
}

impl Body for Echo {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
            return Poll::Ready(Some(frame.map_err(std::io::Error::other)));
        }
        self.is_over = true;
        Poll::Ready(Some(match self.end {
            End::Trailers => {
                let fields = [("grpc-status", "0"), ("grpc-message", "all%20well"), ("x-sum-bin", "AAE=")];
                let trailers = fields.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
                Ok(Frame::trailers(HeaderMap::from_iter(trailers)))
            }
            End::Reset => Err(std::io::ErrorKind::BrokenPipe.into()),
        }))
    }
}

async fn serve(end: End) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let echo = service_fn(move |request: Request<Incoming>| async move {
                assert_eq!(request.headers()["te"], "trailers");
                let body = Echo { inner: request.into_body(), end, is_over: false };
                let response = Response::builder().header("content-type", "application/grpc");
                Ok::<_, Infallible>(response.body(body).unwrap())
            });
            let connection = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), echo));
        }
    });
    address
}

async fn start(upstream: SocketAddr, timeouts: GatewayTimeouts) -> TestGateway {
    let url = format!("h2c://{upstream}").parse().unwrap();
    GatewaySetup::default().start_with(GatewayConfig::single(url, timeouts, DEADLINE)).await
}

/// The answer to a call.
async fn call<B>(gateway: &TestGateway, body: B) -> Response<Incoming>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Unpin + Send + 'static,
{
    let io = TokioIo::new(connect(gateway).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post("http://a/x.Y/Z").header("content-type", "application/grpc");
    let request = request.header("te", "trailers").body(body).unwrap();
    in_time(sender.send_request(request)).await.unwrap()
}

/// Status and message of a call that has no other answer.
async fn refusal(gateway: &TestGateway) -> (String, String) {
    let answer = call(gateway, Empty::new()).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (200, &"application/grpc".parse().unwrap())
    );
    let told = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    let told = (told("grpc-status"), told("grpc-message"));
    assert!(in_time(answer.into_body().frame()).await.is_none(), "the head is all that there is");
    told
}

const DEADLINE_EXCEEDED: &str = "4";
const UNAVAILABLE: &str = "14";

#[tokio::test]
async fn a_call_that_is_never_answered_is_told_what_the_guide_says() {
    let short = Duration::from_millis(100);
    let first_byte = GatewayTimeouts { first_byte: short, ..GatewayTimeouts::default() };
    let total = GatewayTimeouts { total: Some(short), ..GatewayTimeouts::default() };
    for timeouts in [first_byte, total] {
        // It takes the connection, and says nothing on it: no settings, no answer.
        let silent = RawUpstream::new().await;
        let (status, message) = refusal(&start(silent.address, timeouts).await).await;
        assert_eq!(
            (status.as_str(), message.as_str()),
            (DEADLINE_EXCEEDED, "the upstream did not answer in time")
        );
        // One that speaks HTTP/2, and waits for the end of a call before its head.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let mut calls = Vec::new();
            while let Some(Ok(call)) = connection.accept().await {
                calls.push(call);
            }
        });
        assert_eq!(refusal(&start(address, timeouts).await).await.0, DEADLINE_EXCEEDED);
    }
    let down = RawUpstream::new().await.address;
    let (status, message) = refusal(&start(down, GatewayTimeouts::default()).await).await;
    assert_eq!((status.as_str(), message.as_str()), (UNAVAILABLE, "the upstream cannot be reached"));
}

/// Messages of a stream, each with its five bytes before it.
fn messages() -> Vec<Bytes> {
    let mut random = fastrand::Rng::with_seed(64);
    let sizes = [0, 1, 65_535, 65_536, 300_000].into_iter().chain((0..60).map(|_| random.usize(..100_000)));
    let sizes: Vec<usize> = sizes.collect();
    let message = |size: usize| {
        let length = u32::try_from(size).unwrap().to_be_bytes();
        let own = std::iter::repeat_with(|| random.u8(..)).take(size);
        [0].into_iter().chain(length).chain(own).collect()
    };
    sizes.into_iter().map(message).collect()
}

#[tokio::test]
async fn a_large_stream_goes_both_ways_and_ends_with_its_trailers() {
    let gateway = start(serve(End::Trailers).await, GatewayTimeouts::default()).await;
    let (hand_over, pieces) = mpsc::channel(1);
    let answer = call(&gateway, Pieces(pieces)).await;
    assert_eq!(answer.headers().get("grpc-status"), None, "it is not over yet");
    let messages = messages();
    let sending = async {
        for message in &messages {
            hand_over.send(message.clone()).await.unwrap();
        }
        drop(hand_over);
    };
    let (answer, ()) = in_time(async { tokio::join!(answer.into_body().collect(), sending) }).await;
    let answer = answer.unwrap();
    let trailers = answer.trailers().cloned().unwrap();
    for (name, value) in [("grpc-status", "0"), ("grpc-message", "all%20well"), ("x-sum-bin", "AAE=")] {
        assert_eq!(trailers[name], value);
    }
    assert!(answer.to_bytes() == messages.concat(), "every byte of it, once and in order");
}

/// Without trailers a client cannot tell a stream that is whole from one that is not.
#[tokio::test]
async fn a_stream_that_breaks_off_has_no_end() {
    let gateway = start(serve(End::Reset).await, GatewayTimeouts::default()).await;
    let (hand_over, pieces) = mpsc::channel(1);
    let answer = call(&gateway, Pieces(pieces)).await;
    hand_over.send(Bytes::from_static(b"\0\0\0\0\x02hi")).await.unwrap();
    drop(hand_over);
    let error = in_time(answer.into_body().collect()).await.expect_err("no end");
    assert!(std::error::Error::source(&error).is_some_and(|error| error.is::<h2::Error>()), "{error:?}");
}
