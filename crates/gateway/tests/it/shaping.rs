//! Requests that a leaky bucket delays arrive at the upstream evenly, in order, and a client that
//! goes away gives its place back.
//!
//! | module | what it shows |
//! |---|---|
//! | `even` | turns are as far apart as the limit says, on a clock of the test's own |
//! | `held` | what a held request may send, and what is given back if it leaves |
//! | `paced` | the gateway with that clock |

mod even;
mod held;
mod paced;

use std::time::{Duration, Instant};

use crate::support::{DEADLINE, GatewaySetup, Raw, RawUpstream, TestGateway, field};

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
        // The next comes when this one is in its line: there is one thread, and what came later is answered.
        Raw::connect(gateway.address).await.ask("no request\r\n\r\n").await;
    }
    let (mut paths, mut times, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..100 {
        let mut backend = upstream.accept().await;
        times.push(Instant::now());
        let head = backend.head().await;
        paths.push(head.split(' ').nth(1).unwrap().trim_start_matches('/').parse::<usize>().unwrap());
        open.push(backend);
    }
    assert!(paths.iter().copied().eq(0..100), "first in, first out: {paths:?}");
    for (turn, time) in (0..).zip(&times) {
        let due = Duration::from_millis(20) * turn;
        // A timer is exact to a millisecond.
        assert!(*time - start + Duration::from_millis(2) >= due, "number {turn} came too early");
    }
    // A machine that is busy holds some of them up, and the next ones come closer then: a single gap proves nothing,
    // and the middle one shows that they do not come in heaps.
    let mut gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let median = gaps[gaps.len() / 2];
    assert!((5..=60).contains(&median.as_millis()), "the median gap is {median:?} at one every 20 ms");
    assert!(*times.last().unwrap() - start < DEADLINE, "they come late");
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

/// There is room in the line, and the wait would be a minute.
#[tokio::test]
async fn a_wait_that_is_too_long_is_told_as_such() {
    const SLOW: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    rate_limit:\n      name: slow\n      unit: minute\n      requests_per_unit: 1\n      algorithm: leaky_bucket\n      burst: 9\n";
    for more in ["", "TE: trailers\r\n"] {
        let upstream = RawUpstream::new().await;
        let gateway = GatewaySetup { rules: SLOW, ..GatewaySetup::default() }.start(upstream.address).await;
        let _answering = upstream.answer_all(OK);
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{more}\r\n");
        let mut client = Raw::connect(gateway.address).await;
        assert!(client.ask(&request).await.0.starts_with("HTTP/1.1 200"));
        let (head, body) = client.ask(&request).await;
        assert!(head.starts_with("HTTP/1.1 429"), "{head}");
        assert_eq!(field(&head, "x-ratelimit-remaining"), Some("0"), "{head}");
        let told = "the limit 'slow' of 1 per 1m has a line in which this would wait longer than requests are held; try again in ";
        // A busy machine may take a second between the two.
        let is_told = ["30 s", "29 s"].iter().any(|wait| body.contains(&format!("{told}{wait}")));
        assert!(is_told && body.contains("\"reason\":\"max_wait\""), "{body}");
    }
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

/// Bytes that a held request may take, in a build without optimisations; optimised ones take 5.5 KB.
const HELD_BYTES_MAX: usize = 16 << 10;
/// So many are held.
const HELD: usize = 200;
/// The process that measures itself has this variable.
const MEASURES: &str = "TOLLGATE_TEST_MEASURES";

/// Measured in a process of its own, since other tests take memory in this one, and leave some to be taken again.
fn measure_in_a_process(test: &str) {
    let own = std::env::current_exe().unwrap();
    let name = format!("shaping::{test}");
    let output =
        std::process::Command::new(own).args(["--exact", &name, "--nocapture"]).env(MEASURES, "1").output();
    let output = output.unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn a_held_request_takes_little_memory() {
    match std::env::var_os(MEASURES) {
        Some(_) => measure_held().await,
        None => measure_in_a_process("a_held_request_takes_little_memory"),
    }
}

#[tokio::test]
async fn a_held_stream_of_http2_takes_little_memory() {
    match std::env::var_os(MEASURES) {
        Some(_) => measure_held_streams().await,
        None => measure_in_a_process("a_held_stream_of_http2_takes_little_memory"),
    }
}

/// Up to a thousand wait, eight go each second, and what is elsewhere is free.
const HOLDING: &str = "domain: gateway\ndescriptors:\n  - key: path\n    value: /held\n    descriptors:\n      - key: remote_address\n        rate_limit: { unit: minute, requests_per_unit: 480, algorithm: leaky_bucket, burst: 1000 }\n";

async fn measure_held() {
    // Those of the short way, and those of hyper.
    for more in ["", "TE: trailers\r\n"] {
        let upstream = RawUpstream::new().await;
        let gateway =
            GatewaySetup { rules: HOLDING, ..GatewaySetup::default() }.start(upstream.address).await;
        let answering = upstream.answer_all(OK);
        let request = |path| {
            format!("GET {path} HTTP/1.1\r\nHost: a\r\nUser-Agent: test/1.0\r\nAccept: */*\r\n{more}\r\n")
        };
        let mut clients = Vec::new();
        for _ in 0..HELD {
            let mut client = Raw::connect(gateway.address).await;
            client.ask(&request("/free")).await;
            clients.push(client);
        }
        let before = resident_bytes();
        for client in &mut clients {
            client.send(request("/held")).await;
        }
        // All of them are in the line when one that comes later is answered.
        Raw::connect(gateway.address).await.ask(&request("/free")).await;
        let grown = resident_bytes().saturating_sub(before);
        let held = clients.iter().filter(|client| client.stream.try_read(&mut [0]).is_err()).count();
        assert!(held > HELD / 2, "{held} of them wait");
        let each = grown / held;
        assert!(each <= HELD_BYTES_MAX, "a held request takes {each} bytes");
        answering.abort();
    }
}

/// What a client of HTTP/2 begins with, and an empty frame of settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Bytes before what a frame is about.
const FRAME_HEAD: usize = 9;
/// The type of a frame that begins an answer.
const HEADERS: u8 = 1;

/// A request for `path` as a frame.
fn get_frame(path: &str, stream: u8) -> Vec<u8> {
    let mut block = b"\x82\x86\x01\x01a\x04".to_vec();
    block.push(u8::try_from(path.len()).unwrap());
    block.extend(path.as_bytes());
    // A literal field with a new name.
    block.extend(b"\0\x0auser-agent\x08test/1.0\0\x06accept\x03*/*");
    let mut frame = vec![0, 0, u8::try_from(block.len()).unwrap(), HEADERS, 5, 0, 0, 0, stream];
    frame.extend(block);
    frame
}

/// The stream that the next answer is on.
async fn answered_stream(client: &mut Raw) -> u8 {
    loop {
        let head = client.raw_bytes(FRAME_HEAD).await;
        client.raw_bytes(usize::from(head[1]) << 8 | usize::from(head[2])).await;
        if head[3] == HEADERS {
            return head[8];
        }
    }
}

/// The same for streams of HTTP/2, of which a connection has a hundred.
async fn measure_held_streams() {
    const STREAMS: u8 = 100;
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup { rules: HOLDING, ..GatewaySetup::default() }.start(upstream.address).await;
    let answering = upstream.answer_all(OK);
    let mut clients = Vec::new();
    for _ in 0..HELD / usize::from(STREAMS) {
        let mut client = Raw::connect(gateway.address).await;
        client.send([PREFACE, &get_frame("/free", 1)].concat()).await;
        assert_eq!(answered_stream(&mut client).await, 1);
        clients.push(client);
    }
    let before = resident_bytes();
    for client in &mut clients {
        let frames: Vec<u8> = (1..=STREAMS).flat_map(|number| get_frame("/held", 1 + 2 * number)).collect();
        client.send(frames).await;
    }
    // All of them are in the line when one that comes later is answered.
    let free = 1 + 2 * (STREAMS + 1);
    let mut answered = 0;
    for client in &mut clients {
        client.send(get_frame("/free", free)).await;
        while answered_stream(client).await != free {
            answered += 1;
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    let held = HELD - answered;
    assert!(held > HELD / 2, "{held} of them wait");
    let each = grown / held;
    assert!(each <= HELD_BYTES_MAX, "a held stream takes {each} bytes");
    answering.abort();
}

/// What this process has in memory.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}
