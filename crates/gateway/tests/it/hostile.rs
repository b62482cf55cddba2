//! Attacks over HTTP/2, frame by frame: each ends at its bound, and the upstream sees little of it.

use tokio::net::TcpStream;
use tollgate_gateway::bounds::{HEAD_MAX, LOCAL_RESETS_MAX, RESETS_MAX, STREAMS_MAX};

use crate::frames::{
    Attacker, CONTINUATION, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, REFUSED_STREAM,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, frame,
};
use crate::support::{GatewaySetup, RawUpstream, TestGateway, in_time};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// `GET http://a/`, in HPACK: three of the static table, and a literal.
const GET: &[u8] = b"\x82\x86\x84\x41\x01a";

/// The numbers of so many streams of a client.
fn streams(count: usize) -> impl Iterator<Item = u32> {
    (1..).step_by(2).take(count)
}

async fn answering() -> (TestGateway, tokio::task::JoinHandle<()>) {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    (gateway, upstream.answer_all(OK))
}

#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let (gateway, _upstream) = answering().await;
    let mut attacker = Attacker::connect(gateway.address).await;
    let cancel = 8_u32.to_be_bytes();
    let attack = streams(10 * RESETS_MAX).flat_map(|stream| {
        [frame(HEADERS, END_STREAM | END_HEADERS, stream, GET), frame(RST_STREAM, 0, stream, &cancel)]
    });
    attacker.send(attack.collect()).await;
    let end = attacker.next(GOAWAY).await.expect("it is told why");
    assert_eq!(end.error(), ENHANCE_YOUR_CALM, "{end:?}");
    let sent = gateway.gateway.upstreams()[0].requests;
    assert!(sent <= u64::from(STREAMS_MAX), "the upstream got {sent} requests");
}

/// MadeYouReset (CVE-2025-8671): what the client sends makes the server reset its streams.
#[tokio::test]
async fn streams_that_we_have_to_reset_end_the_connection() {
    let (gateway, _upstream) = answering().await;
    let mut attacker = Attacker::connect(gateway.address).await;
    let attack = streams(10 * LOCAL_RESETS_MAX).flat_map(|stream| {
        [frame(HEADERS, END_HEADERS, stream, GET), frame(WINDOW_UPDATE, 0, stream, &[0; 4])]
    });
    attacker.send(attack.collect()).await;
    let end = attacker.next(GOAWAY).await.expect("it is told why");
    assert_ne!(end.error(), 0, "{end:?}");
    let sent = gateway.gateway.upstreams()[0].requests;
    assert!(sent <= u64::from(STREAMS_MAX), "the upstream got {sent} requests");
}

#[tokio::test]
async fn more_streams_than_allowed_are_refused() {
    // It never answers.
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start(upstream.address).await;
    let mut attacker = Attacker::connect(gateway.address).await;
    let settings = attacker.next(SETTINGS).await.unwrap().payload;
    let told = settings.chunks(6).find(|pair| pair[..2] == [0, 3]).expect("how many streams there may be");
    assert_eq!(told[2..], STREAMS_MAX.to_be_bytes());
    attacker.send(vec![frame(SETTINGS, 1, 0, &[])]).await;
    let most = usize::try_from(STREAMS_MAX).unwrap();
    let requests = streams(most + 1).map(|stream| frame(HEADERS, END_STREAM | END_HEADERS, stream, GET));
    attacker.send(requests.collect()).await;
    let refused = attacker.next(RST_STREAM).await.expect("one is refused");
    assert_eq!((refused.error(), refused.stream), (REFUSED_STREAM, 2 * STREAMS_MAX + 1));
}

#[tokio::test]
async fn heads_that_are_too_large_reach_nobody() {
    let (gateway, _upstream) = answering().await;
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut request = http::Request::get("http://a/");
    for number in 0..2 * HEAD_MAX / 1024 {
        request = request.header(format!("x-{number}"), "y".repeat(1024));
    }
    let (answer, _) = sender.send_request(request.body(()).unwrap(), true).unwrap();
    assert_eq!(in_time(answer).await.unwrap().status(), 431);
    assert_eq!(gateway.gateway.upstreams()[0].requests, 0);
    // A head that never ends.
    let mut attacker = Attacker::connect(gateway.address).await;
    let mut endless = vec![frame(HEADERS, END_STREAM, 1, GET)];
    endless.extend((0..4_000).map(|_| frame(CONTINUATION, 0, 1, &[])));
    attacker.send(endless).await;
    let end = attacker.next(GOAWAY).await;
    assert!(end.is_none_or(|end| end.error() != 0), "the connection must end");
    assert_eq!(gateway.gateway.upstreams()[0].requests, 0);
}
