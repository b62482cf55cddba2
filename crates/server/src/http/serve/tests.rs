//! Callers that do not read, on a clock that jumps.

use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Duration, Instant, sleep, timeout};
use tollgate_core::{Descriptor, Entry, Operation, Request as LimiterRequest};

use super::super::v1;
use super::*;
use crate::listen::connection_limit::ConnectionLimit;
use crate::testing::{self, TestConnection, connect};

const RULES: &str = "
domain: d
descriptors:
  - key: a
    rate_limits:
      - { unit: year, requests_per_unit: 1000000 }
      - { unit: month, requests_per_unit: 1000000 }
";
/// Less than any answer here.
const PIPE: usize = 1 << 10;
/// More requests than fit one read of the short way.
const MANY: usize = 1_000;
/// As many as fit one.
const FEW: usize = 190;

fn caller() -> (TestConnection, Arc<Service>) {
    let service = testing::service(RULES);
    let serve = ServeHttp::calls(v1::router(Arc::clone(&service)), None, Arc::clone(&service));
    (connect(serve, &ConnectionLimit::new(10, 10), PIPE), service)
}

fn batch(requests: usize) -> String {
    let body = format!("[{}]", [r#"{"domain":"d","descriptors":[{"a":"x"}]}"#].repeat(requests).join(","));
    format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// How many requests were decided.
async fn decided(service: &Service) -> u64 {
    let entries = [Entry { key: "a", value: "x" }];
    let descriptors = [Descriptor::new(&entries)];
    let peek = LimiterRequest::new("d", &descriptors).with_cost(0);
    let reply = service.operate(&peek, Operation::Peek, service.now()).await.unwrap();
    reply.decisions[0].used
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_decided_only_as_fast_as_its_answer_is_read() {
    for requests in [FEW, MANY] {
        let (mut caller, service) = caller();
        caller.io.write_all(batch(requests).as_bytes()).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        let all = u64::try_from(requests).unwrap();
        let so_far = decided(&service).await;
        assert!((1..all).contains(&so_far), "{so_far} of {all}");
        let mut answer = Vec::new();
        while !answer.ends_with(b"]\r\n0\r\n\r\n") {
            answer.push(caller.io.read_u8().await.unwrap());
        }
        let replies = String::from_utf8(answer).unwrap().matches(r#""decisions""#).count();
        assert_eq!((replies, decided(&service).await), (requests, all));
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_read_is_cut_off() {
    for requests in [FEW, MANY] {
        let (mut caller, _) = caller();
        caller.io.write_all(batch(requests).as_bytes()).await.unwrap();
        let start = Instant::now();
        timeout(Duration::from_secs(60), caller.served).await.expect("it is cut off").unwrap();
        let seconds = start.elapsed().as_secs();
        assert!((10..=15).contains(&seconds), "after {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn large_pages_that_nobody_reads_are_bounded_together() {
    const LARGE: usize = 16 << 20;
    let page = Router::new().route("/", get(async || vec![b'x'; LARGE]));
    let serve = ServeHttp::pages(page);
    let mut callers = Vec::new();
    let mut statuses = Vec::new();
    for _ in 0..6 {
        let mut caller = connect(serve.clone(), &ConnectionLimit::new(10, 10), PIPE);
        caller.io.write_all(b"GET / HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
        let mut status = [0; 12];
        caller.io.read_exact(&mut status).await.unwrap();
        statuses.push(String::from_utf8(status.to_vec()).unwrap());
        callers.push(caller);
    }
    assert_eq!(statuses[..4], ["HTTP/1.1 200"; 4]);
    assert_eq!(statuses[4..], ["HTTP/1.1 503"; 2], "64 MiB wait already");
}
