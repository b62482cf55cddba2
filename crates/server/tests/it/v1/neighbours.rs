//! A small request beside giant batches does not wait for them.
//!
//! Measured in batches and not in time, so that a busy machine changes little: as
//! many batches as are finished while a small request is on its way kept it waiting.
//! How often a batch gives way is counted in `http/v1/decide.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tollgate_server::bounds::BATCH_MAX;

use super::{RULES, one};
use crate::support::{DEADLINE, Server};

/// So many that a small request which waits for batches waits for several.
const BATCH_CONNECTIONS: u32 = 16;
const SMALL_CALLS: u32 = 100;

fn asked(body: &str) -> Vec<u8> {
    format!("POST /v1/peek HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Sends a request again and again.
struct RepeatedCall {
    stream: TcpStream,
    request: Vec<u8>,
}

impl RepeatedCall {
    async fn new(server: &Server, body: &str) -> Self {
        let stream = TcpStream::connect(server.addresses.http).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, request: asked(body) }
    }

    async fn call(&mut self) {
        self.stream.write_all(&self.request).await.unwrap();
        let mut answer = Vec::new();
        while !is_whole(&answer) {
            let read = timeout(DEADLINE, self.stream.read_buf(&mut answer)).await;
            assert!(read.expect("it is answered in time").unwrap() > 0, "an answer comes whole");
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(answer.get(..end).unwrap_or_default());
    match head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        Some(length) => answer.len() == end + 4 + length.parse::<usize>().unwrap(),
        None => answer.ends_with(b"\r\n0\r\n\r\n"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_request_does_not_wait_for_giant_batches() {
    let server = Server::with(RULES).await;
    let batch = format!("[{}]", vec![one("user_id", "a"); BATCH_MAX].join(","));
    let finished = Arc::new(AtomicU32::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..BATCH_CONNECTIONS {
        let mut caller = RepeatedCall::new(&server, &batch).await;
        let finished = Arc::clone(&finished);
        tasks.spawn(async move {
            loop {
                caller.call().await;
                finished.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let mut small = RepeatedCall::new(&server, &one("user_id", "b")).await;
    let mut beside: Vec<u32> = Vec::new();
    for _ in 0..SMALL_CALLS {
        let before = finished.load(Ordering::Relaxed);
        small.call().await;
        beside.push(finished.load(Ordering::Relaxed) - before);
    }
    tasks.abort_all();
    let sum: u32 = beside.iter().sum();
    println!("{sum} batches were finished during {SMALL_CALLS} small calls");
    // Some 50 are, and 70 on a busy machine. Where batches do not give way, each call sees seven or eight.
    assert!(sum < SMALL_CALLS * 3, "{beside:?}");
}
