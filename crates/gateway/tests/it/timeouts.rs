//! Each timeout has its status and says what happened. Timeouts are short, and their time is real;
//! only the minute that a client has to read is tokio's, so that nobody waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tollgate_gateway::GatewayTimeouts;
use tollgate_gateway::bounds::WRITE_WAIT_MAX;

use crate::support::{DEADLINE, GatewaySetup, Raw, RawUpstream, TestGateway, eventually, in_time, pass};

/// Whoever is silent is soon given up; a machine that is busy may take its time to connect.
const SHORT: GatewayTimeouts = GatewayTimeouts {
    connect: DEADLINE,
    first_byte: Duration::from_millis(200),
    idle: Duration::from_millis(200),
    total: None,
};

/// Bytes come all the time, but it takes too long altogether.
#[tokio::test]
async fn an_answer_that_takes_too_long_altogether_is_cut_off() {
    let total = Some(Duration::from_millis(300));
    let timeouts = GatewayTimeouts { total, ..GatewayTimeouts::default() };
    let (upstream, gateway, mut client) = GatewaySetup { timeouts, ..GatewaySetup::default() }.meet().await;
    let mut backend = upstream.forwarded(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    backend.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n").await;
    let dripping = async {
        while backend.stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(client.head().await.starts_with("HTTP/1.1 200"));
    let (rest, ()) = tokio::join!(client.rest(), dripping);
    assert!(rest.len() < 1000, "{} bytes came", rest.len());
    // And one that never begins.
    let mut client = Raw::connect(gateway.address).await;
    let asked = client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_backend, (head, _)) = tokio::join!(upstream.accept(), asked);
    assert!(head.starts_with("HTTP/1.1 504"), "{head}");
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_a_504() {
    let (upstream, _gateway, mut client) =
        GatewaySetup { timeouts: SHORT, ..GatewaySetup::default() }.meet().await;
    let asked = client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_backend, (head, body)) = tokio::join!(upstream.accept(), asked);
    assert!(head.starts_with("HTTP/1.1 504") && body.contains("did not answer in time"), "{head}{body}");
}

#[tokio::test]
async fn a_body_that_stops_is_a_408() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup {
        timeouts: GatewayTimeouts { first_byte: DEADLINE, ..SHORT },
        ..GatewaySetup::default()
    }
    .start(upstream.address)
    .await;
    let mut client = Raw::connect(gateway.address).await;
    let asked = client.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    let (_backend, (head, body)) = tokio::join!(upstream.accept(), asked);
    assert!(head.starts_with("HTTP/1.1 408") && body.contains("did not arrive in time"), "{head}{body}");
}

#[tokio::test]
async fn an_answer_that_stops_is_cut_off() {
    // Only what stops is short of time, and not what begins late.
    let timeouts = GatewayTimeouts { first_byte: DEADLINE, ..SHORT };
    let (upstream, _gateway, mut client) = GatewaySetup { timeouts, ..GatewaySetup::default() }.meet().await;
    let mut backend = upstream.forwarded(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    backend.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab").await;
    client.head().await;
    assert_eq!(client.rest().await, "ab");
}

#[tokio::test]
async fn a_head_that_stops_is_a_408() {
    let (upstream, _gateway, mut client) = GatewaySetup::default().meet().await;
    client.send("GET / HTTP/1.1\r\nHost:").await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("did not arrive within"), "{answer}");
    upstream.was_left_alone().await;
}

/// It has the upstream wait as well, and must not look like a failure of it.
#[tokio::test]
async fn a_client_that_sends_too_slowly_is_a_408_and_no_failure_of_the_upstream() {
    let total = GatewayTimeouts { total: Some(Duration::from_millis(400)), ..GatewayTimeouts::default() };
    let pause = GatewayTimeouts { first_byte: Duration::from_millis(100), ..SHORT };
    // Bytes come all the time; none come any more; the last ones come so late that nobody could answer.
    for (timeouts, pieces, is_ended) in [(total, usize::MAX, false), (pause, 1, false), (total, 30, true)] {
        let (upstream, gateway, mut client) =
            GatewaySetup { timeouts, ..GatewaySetup::default() }.meet().await;
        let mut backend = upstream
            .forwarded(&mut client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
            .await;
        let (mut reading, mut writing) = client.stream.into_split();
        let dripping = async {
            let mut left = pieces;
            while left > 0 && writing.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
                left -= 1;
            }
            if is_ended {
                drop(writing.write_all(&vec![b'x'; 100_000 - pieces]).await);
            }
        };
        let mut answer = Vec::new();
        let answered =
            in_time(async { while reading.read_buf(&mut answer).await.is_ok_and(|count| count > 0) {} });
        let forwarded = backend.rest();
        tokio::join!(answered, dripping, forwarded);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 408"), "{pieces}: {answer}");
        assert!(answer.contains("did not arrive in time"), "{answer}");
        assert_eq!(gateway.gateway.upstreams()[0].failures, 0, "{pieces}");
    }
}

#[tokio::test]
async fn an_upstream_that_has_the_whole_body_and_says_nothing_is_a_504() {
    // Were half of it spent between the pieces of the body, it would be the client that is late.
    let timeouts = GatewayTimeouts { total: Some(Duration::from_secs(3)), ..GatewayTimeouts::default() };
    let (upstream, gateway, mut client) = GatewaySetup { timeouts, ..GatewaySetup::default() }.meet().await;
    let mut backend =
        upstream.forwarded(&mut client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe").await;
    client.send("llo").await;
    assert_eq!(backend.bytes(5).await, "hello");
    assert!(client.head().await.starts_with("HTTP/1.1 504"));
    assert_eq!(gateway.gateway.upstreams()[0].failures, 1);
}

/// What no socket has room for.
const ENDLESS: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n";

/// Each of the ways through the gateway; a stream of HTTP/2 has its window of 64 KB, and never another.
const WAYS: [&[u8]; 3] = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a",
];

/// A client that asks and reads nothing, with the upstream's side of it, which sends for as long as it can and
/// counts the bytes that it could send.
async fn unread(
    way: &[u8],
    timeouts: GatewayTimeouts,
    sent: Arc<AtomicUsize>,
) -> (TestGateway, Raw, impl Future<Output = ()> + use<>) {
    let (upstream, gateway, mut client) = GatewaySetup { timeouts, ..GatewaySetup::default() }.meet().await;
    let mut backend = upstream.forwarded(&mut client, way).await;
    backend.send(ENDLESS).await;
    let sending = async move {
        while let Ok(count @ 1..) = backend.stream.write(&[b'x'; 1 << 16]).await {
            sent.fetch_add(count, Ordering::Relaxed);
        }
    };
    (gateway, client, sending)
}

/// Waits until nobody has room for more: for half a second nothing could be sent.
async fn until_full(sent: &AtomicUsize) {
    let (mut before, mut equal_looks) = (0, 0);
    while equal_looks < 5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = sent.load(Ordering::Relaxed);
        equal_looks = if now > 0 && now == before { equal_looks + 1 } else { 0 };
        before = now;
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off_when_the_total_time_is_over() {
    for way in WAYS {
        let total = Some(Duration::from_millis(300));
        let timeouts = GatewayTimeouts { total, ..GatewayTimeouts::default() };
        let (gateway, _client, sending) = unread(way, timeouts, Arc::default()).await;
        in_time(sending).await;
        eventually(|| gateway.gateway.upstreams()[0].in_flight == 0).await;
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off_after_a_while() {
    for way in WAYS {
        let sent = Arc::<AtomicUsize>::default();
        let (gateway, mut client, sending) = unread(way, GatewayTimeouts::default(), Arc::clone(&sent)).await;
        let mut sending = std::pin::pin!(sending);
        let filling = async {
            tokio::select! { () = sending.as_mut() => false, () = until_full(&sent) => true }
        };
        assert!(in_time(filling).await, "it was cut off at once");
        assert_eq!(gateway.gateway.upstreams()[0].in_flight, 1);
        pass(WRITE_WAIT_MAX).await;
        in_time(sending).await;
        eventually(|| gateway.gateway.upstreams()[0].in_flight == 0).await;
        // Over HTTP/2 the stream alone has ended: it was reset, and the connection is in use.
        if way.starts_with(b"PRI") {
            client.until(b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08").await.expect("RST_STREAM, CANCEL");
        }
    }
}
