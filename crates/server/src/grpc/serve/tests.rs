//! Callers that do not read, on a clock that jumps. Others, byte by byte: `raw`.

mod raw;

use http_body_util::Full;
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2 as client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::*;
use crate::bounds::{CONNECTION_RESPONSES_MAX, SIDE_CALLS_MAX, WAITING_CALL};
use crate::listen::connection_limit::ConnectionLimit;
use crate::testing::{self, TestConnection, connect};

/// Calls at a time; their answers are larger than what may wait together.
const CALLS: usize = 600;
/// Each makes a status in the answer.
const DESCRIPTORS: usize = 500;

type CallSender = client::SendRequest<Full<Bytes>>;

/// A caller whose window for answers is closed.
async fn caller() -> (CallSender, watch::Sender<bool>, JoinHandle<()>) {
    let serve = ServeGrpc::new(Grpc::new(testing::service("domain: d\n")), None, None, None);
    let TestConnection { io, stop, served } = connect(serve, &ConnectionLimit::new(10, 10), 1 << 20);
    let mut builder = client::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(0);
    let (send, driver) = builder.handshake::<_, Full<Bytes>>(TokioIo::new(io)).await.unwrap();
    tokio::spawn(driver);
    (send, stop, served)
}

/// Calls, and says whether the call is refused because too much waits.
async fn call(send: &CallSender, path: &str, body: &Bytes) -> (Response<Incoming>, bool) {
    let request = hyper::Request::post(format!("http://t{path}"))
        .header("content-type", "application/grpc")
        .body(Full::new(body.clone()))
        .unwrap();
    let response = send.clone().send_request(request).await.unwrap();
    let status = response.headers().get("grpc-status").cloned();
    assert!(status.is_none() || status.as_ref().unwrap() == "8", "RESOURCE_EXHAUSTED");
    (response, status.is_some())
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_a_closed_window_has_us_hold_little_and_is_cut_off() {
    let start = Instant::now();
    let (send, _stop, served) = caller().await;
    // The domain `d` and empty descriptors, with the length in front.
    let request = [&[0x0A, 1, b'd'][..], &[0x12, 0].repeat(DESCRIPTORS)].concat();
    let length = u32::try_from(request.len()).unwrap().to_be_bytes();
    let body = Bytes::from([&[0][..], &length, &request].concat());
    let (mut waiting, mut refused) = (Vec::new(), 0);
    for _ in 0..CALLS {
        match call(&send, super::super::SHOULD_RATE_LIMIT, &body).await {
            (response, false) => waiting.push(response),
            (_, true) => refused += 1,
        }
    }
    let each = WAITING_CALL + DESCRIPTORS * 2;
    assert!(waiting.len() * each <= CONNECTION_RESPONSES_MAX + each, "{} wait", waiting.len());
    assert_eq!(waiting.len() + refused, CALLS);
    assert!(refused > 0);
    timeout(Duration::from_secs(60), served).await.expect("it is cut off").unwrap();
    let seconds = start.elapsed().as_secs();
    assert!((10..=15).contains(&seconds), "after {seconds} s");
}

#[tokio::test(start_paused = true)]
async fn a_connection_has_few_calls_of_health_and_reflection_at_a_time() {
    let (send, _stop, _served) = caller().await;
    let (path, body) = ("/grpc.health.v1.Health/Watch", Bytes::from_static(&[0; 5]));
    let mut watching = Vec::new();
    for _ in 0..SIDE_CALLS_MAX {
        let (response, is_refused) = call(&send, path, &body).await;
        assert!(!is_refused);
        watching.push(response);
    }
    assert!(call(&send, path, &body).await.1);
    watching.clear();
    // The server notices a moment later.
    while call(&send, path, &body).await.1 {
        tokio::task::yield_now().await;
    }
}
