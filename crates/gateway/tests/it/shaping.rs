//! Requests that a leaky bucket delays arrive at the upstream evenly, in order, and a client that
//! goes away gives its place back.

use std::time::{Duration, Instant};

use crate::support::{GatewaySetup, Raw, RawUpstream, TestGateway};

/// One every 20 ms, and up to 200 may wait.
const PACED: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    rate_limit:\n      unit: second\n      requests_per_unit: 50\n      algorithm: leaky_bucket\n      burst: 200\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

async fn send(gateway: &TestGateway, path: usize) -> Raw {
    let mut client = Raw::connect(gateway.address).await;
    client.send(format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
    client
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
async fn a_hundred_at_once_arrive_one_by_one() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup { rules: PACED, ..GatewaySetup::default() }.start(upstream.address).await;
    let start = Instant::now();
    let mut clients = Vec::new();
    for path in 0..100 {
        clients.push(send(&gateway, path).await);
    }
    let (mut paths, mut times, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..100 {
        let mut backend = upstream.accept().await;
        times.push(Instant::now());
        let head = backend.head().await;
        paths.push(head.split(' ').nth(1).unwrap().trim_start_matches('/').parse::<usize>().unwrap());
        open.push(backend);
    }
    for (turn, time) in (0..).zip(&times) {
        let due = Duration::from_millis(20) * turn;
        // A timer is exact to a millisecond.
        assert!(*time - start + Duration::from_millis(2) >= due, "number {turn} came too early");
    }
    paths.sort_unstable();
    assert!(paths.into_iter().eq(0..100), "all of them, once");
    for (mut client, mut backend) in clients.into_iter().zip(open) {
        backend.send(OK).await;
        assert!(client.head().await.starts_with("HTTP/1.1 200"));
    }
}

/// One every ten seconds: whoever waits does so for longer than the test takes.
#[tokio::test]
async fn a_client_that_goes_away_gives_its_place_back() {
    const SLOW: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    rate_limit:\n      unit: minute\n      requests_per_unit: 6\n      algorithm: leaky_bucket\n      burst: 3\n";
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup { rules: SLOW, ..GatewaySetup::default() }.start(upstream.address).await;
    let first = send(&gateway, 0).await;
    upstream.accept().await.head().await;
    // They line up until there is no room.
    let mut waiting = Vec::new();
    while let Some(client) = waits(&gateway).await {
        waiting.push(client);
        assert!(waiting.len() < 20, "nobody is denied");
    }
    drop(waiting);
    crate::support::in_time(async { while waits(&gateway).await.is_none() {} }).await;
    drop(first);
}

/// A client that was not denied within a while.
async fn waits(gateway: &TestGateway) -> Option<Raw> {
    let mut client = send(gateway, 1).await;
    match tokio::time::timeout(Duration::from_millis(500), client.try_head()).await {
        Ok(head) => {
            assert!(head.unwrap().starts_with("HTTP/1.1 429"));
            None
        }
        Err(_) => Some(client),
    }
}
