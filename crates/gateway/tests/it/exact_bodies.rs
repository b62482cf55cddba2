//! Bodies of any size, to and from an upstream of HTTP/2 or HTTP/1: more than windows of 64 KB hold, byte by byte the
//! same, however slowly they are sent and taken.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use fastrand::Rng;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tollgate_gateway::bounds::STREAM_WINDOW;
use tollgate_gateway::{GatewayConfig, GatewayTimeouts};

use crate::support::{DEADLINE, GatewaySetup, Raw, TestGateway, field, in_time, length};

const SEED: u64 = 64 << 10;

/// A gateway in front of an upstream that sends every piece back when it has come.
async fn start(scheme: &str) -> TestGateway {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, is_http2) = (listener.local_addr().unwrap(), scheme == "h2c");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let echo = service_fn(|request: Request<Incoming>| async {
                Ok::<_, Infallible>(Response::new(request.into_body()))
            });
            let io = TokioIo::new(stream);
            if is_http2 {
                tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(io, echo));
            } else {
                tokio::spawn(http1::Builder::new().serve_connection(io, echo));
            }
        }
    });
    let url = format!("{scheme}://{address}").parse().unwrap();
    let config = GatewayConfig::single(url, GatewayTimeouts::default(), DEADLINE);
    GatewaySetup::default().start_with(config).await
}

/// Small pieces are not held back for others to come.
pub(crate) async fn connect(gateway: &TestGateway) -> TcpStream {
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sizes around what a window holds, and others; each with a body.
fn bodies(random: &mut Rng) -> Vec<Vec<u8>> {
    let window = usize::try_from(STREAM_WINDOW).unwrap();
    let mut sizes = vec![0, 1, window - 2, window - 1, window, window + 1, 2 * window - 1, 5 * window];
    sizes.extend((0..4).map(|_| random.usize(..2 << 20)));
    sizes.into_iter().map(|size| std::iter::repeat_with(|| random.u8(..)).take(size).collect()).collect()
}

/// A body in pieces of random sizes.
fn pieces<'b>(mut body: &'b [u8], random: &mut Rng) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    while !body.is_empty() {
        let (piece, rest) = body.split_at(random.usize(1..=body.len().min(100_000)));
        pieces.push(piece);
        body = rest;
    }
    pieces
}

/// The answer as it is read over HTTP/1, at most so many bytes at a time.
async fn read_http1(reading: OwnedReadHalf, most: usize) -> Vec<u8> {
    let mut reading = BufReader::with_capacity(most, reading);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reading.read_line(&mut head).await.unwrap() > 0, "{head}");
    }
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut body = vec![0; length(&head)];
    reading.read_exact(&mut body).await.unwrap();
    let mut is_last = field(&head, "transfer-encoding").is_none();
    while !is_last {
        let mut line = String::new();
        reading.read_line(&mut line).await.unwrap();
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        reading.read_exact(&mut chunk).await.unwrap();
        body.extend_from_slice(chunk.strip_suffix(b"\r\n").unwrap());
        is_last = size == 0;
    }
    body
}

/// A request over HTTP/1, in chunks or with a length, and the body of its answer.
async fn ask_http1(gateway: &TestGateway, pieces: &[&[u8]], is_chunked: bool, most: usize) -> Vec<u8> {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    let framing = match is_chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {length}"),
    };
    let mut request = format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n").into_bytes();
    for piece in pieces {
        if is_chunked {
            request.extend(format!("{:X}\r\n", piece.len()).bytes());
        }
        request.extend_from_slice(piece);
        request.extend_from_slice(if is_chunked { b"\r\n" } else { b"" });
    }
    request.extend_from_slice(if is_chunked { b"0\r\n\r\n" } else { b"" });
    let (reading, mut writing) = connect(gateway).await.into_split();
    let sending = async { writing.write_all(&request).await.unwrap() };
    let (body, ()) = in_time(async { tokio::join!(read_http1(reading, most), sending) }).await;
    body
}

/// A body whose pieces come when they are handed over.
pub(crate) struct Pieces(pub(crate) mpsc::Receiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// A call over HTTP/2 whose answer has begun; its client has room for so many bytes.
async fn begin_http2(gateway: &TestGateway, window: u32) -> (mpsc::Sender<Bytes>, Incoming) {
    let stream = connect(gateway).await;
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let (hand_over, pieces) = mpsc::channel(1);
    let request = Request::post("http://a/").body(Pieces(pieces)).unwrap();
    let answer = in_time(sender.send_request(request)).await.unwrap();
    assert_eq!(answer.status(), 200);
    (hand_over, answer.into_body())
}

/// A request over HTTP/2, and the body of its answer.
async fn ask_http2(gateway: &TestGateway, pieces: &[&[u8]], window: u32) -> Vec<u8> {
    let (hand_over, body) = begin_http2(gateway, window).await;
    let sending = async move {
        for piece in pieces {
            hand_over.send(Bytes::copy_from_slice(piece)).await.unwrap();
        }
    };
    let (body, ()) = in_time(async { tokio::join!(body.collect(), sending) }).await;
    body.unwrap().to_bytes().into()
}

/// Comparing is all that a test does with a megabyte.
fn assert_same(sent: &[u8], came: &[u8], what: &str) {
    let differ = sent.iter().zip(came).position(|(sent, came)| sent != came);
    assert_eq!((came.len(), differ), (sent.len(), None), "{what}, seed {SEED}");
}

#[tokio::test]
async fn bodies_of_all_sizes_arrive_byte_by_byte_at_the_upstream_and_back() {
    for scheme in ["h2c", "http"] {
        let (gateway, mut random) = (start(scheme).await, Rng::with_seed(SEED));
        for body in bodies(&mut random) {
            let pieces = pieces(&body, &mut random);
            let what = format!("{} bytes to {scheme}", body.len());
            for is_chunked in [true, false] {
                let came = ask_http1(&gateway, &pieces, is_chunked, 1 << 16).await;
                assert_same(&body, &came, &format!("{what} from HTTP/1, chunked: {is_chunked}"));
            }
            let came = ask_http2(&gateway, &pieces, STREAM_WINDOW).await;
            assert_same(&body, &came, &format!("{what} from HTTP/2"));
        }
    }
}

/// What comes at once from an upstream of HTTP/1 has to be handed to HTTP/2 in parts.
#[tokio::test]
async fn a_large_answer_that_comes_at_once_arrives_byte_by_byte_over_http2() {
    let (upstream, gateway, _) = GatewaySetup::default().meet().await;
    let mut random = Rng::with_seed(SEED);
    let body: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(4 << 20).collect();
    let own = body.clone();
    let answering = tokio::spawn(async move {
        let mut backend = upstream.accept().await;
        backend.head().await;
        backend.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", own.len())).await;
        backend.send(own).await;
        backend
    });
    assert_same(&body, &ask_http2(&gateway, &[], STREAM_WINDOW).await, "HTTP/2");
    drop(answering.await.unwrap());
}

/// Nobody has room for more than a little: every piece waits for the one before it, all the way to the sender.
#[tokio::test]
async fn a_reader_that_takes_a_little_at_a_time_gets_all_of_it() {
    let (gateway, mut random) = (start("h2c").await, Rng::with_seed(SEED));
    let body: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(1 << 20).collect();
    let pieces = pieces(&body, &mut random);
    for is_chunked in [true, false] {
        let came = ask_http1(&gateway, &pieces, is_chunked, 100).await;
        assert_same(&body, &came, "HTTP/1");
    }
    assert_same(&body, &ask_http2(&gateway, &pieces, 1_000).await, "HTTP/2");
}

/// The next piece is not there before the one before it has come back: no piece may be kept for company.
#[tokio::test]
async fn a_sender_that_waits_for_each_piece_is_answered_piece_by_piece() {
    let (gateway, mut random) = (start("h2c").await, Rng::with_seed(SEED));
    let sizes: Vec<usize> = (0..40).map(|_| random.usize(1..10_000)).collect();
    let (hand_over, mut body) = begin_http2(&gateway, STREAM_WINDOW).await;
    for size in &sizes {
        let piece: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(*size).collect();
        hand_over.send(piece.clone().into()).await.unwrap();
        let mut came = Vec::new();
        while came.len() < *size {
            let frame = in_time(body.frame()).await.expect("another piece").unwrap();
            came.extend_from_slice(&frame.into_data().unwrap());
        }
        assert_same(&piece, &came, "HTTP/2");
    }
    drop(hand_over);
    assert!(in_time(body.frame()).await.is_none_or(|end| end.unwrap().into_data().unwrap().is_empty()));
    // The same over HTTP/1, in chunks.
    let mut client = Raw::new(connect(&gateway).await);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    assert!(client.head().await.starts_with("HTTP/1.1 200"));
    for size in &sizes {
        let chunk = [format!("{size:X}\r\n"), "x".repeat(*size), "\r\n".to_owned()].concat();
        client.send(&chunk).await;
        let mut left = *size;
        while left > 0 {
            let line = in_time(client.until(b"\r\n")).await.unwrap();
            let own = usize::from_str_radix(line.trim_end(), 16).unwrap();
            assert_eq!(client.bytes(own + 2).await, "x".repeat(own) + "\r\n");
            left -= own;
        }
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(client.bytes(5).await, "0\r\n\r\n");
}
