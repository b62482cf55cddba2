//! What a held request may send meanwhile, and what becomes of its place when its client takes it back.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tollgate_gateway::bounds::{HEAD_MAX, STREAM_WINDOW};

use super::paced::{Paced, SOCKET_BYTES, TURN, get};

/// A body that no buffer on the way holds.
const LENGTH: usize = 1 << 20;
/// How much of it is made at a time.
const PIECE: usize = 4 << 10;

/// Bytes that differ from place to place.
fn pattern(from: usize, length: usize) -> Vec<u8> {
    (from..from + length).map(|place| u8::try_from(place * place / 7 % 251).unwrap()).collect()
}

/// The first turn is taken, so that whoever comes now is held.
async fn with_the_first_turn_taken() -> Paced {
    let mut paced = Paced::start().await;
    let mut first = paced.connect();
    first.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(paced.arrival().await.path, "/first");
    first.head().await;
    paced
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_held_request_stays_in_the_socket_and_is_forwarded_byte_for_byte_then() {
    let body = pattern(0, LENGTH);
    for early in [0, 1, 5_000] {
        let mut paced = with_the_first_turn_taken().await;
        let mut client = paced.connect();
        let head = format!("POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: {LENGTH}\r\n\r\n");
        client.send([head.as_bytes(), &body[..early]].concat()).await;
        paced.until_decided(2).await;
        let mut sent = early;
        loop {
            let more = client.send_some(&body[sent..]).await;
            paced.settle().await;
            if more == 0 {
                break;
            }
            sent += more;
        }
        // What came with the head may be as long as a head; the rest is where the client's system has put it.
        assert!(sent <= HEAD_MAX + SOCKET_BYTES, "{sent} bytes were taken of a request that waits");
        tokio::time::advance(TURN).await;
        client.send(&body[sent..]).await;
        let arrival = paced.arrival().await;
        assert_eq!((arrival.path.as_str(), arrival.at), ("/held", TURN));
        assert!(arrival.body == body, "other bytes arrive after {early} early ones");
        assert!(client.head().await.starts_with("HTTP/1.1 200"));
    }
}

/// A body that counts what it was asked for.
struct CountedBody {
    made: usize,
    counter: Arc<AtomicUsize>,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.made == LENGTH {
            return Poll::Ready(None);
        }
        let piece = pattern(self.made, PIECE);
        self.made += PIECE;
        self.counter.store(self.made, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(u64::try_from(LENGTH - self.made).unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_stream_of_http2_may_send_a_window_and_the_rest_when_it_is_its_turn() {
    let mut paced = with_the_first_turn_taken().await;
    let counter = Arc::new(AtomicUsize::new(0));
    let body = CountedBody { made: 0, counter: Arc::clone(&counter) };
    let mut sender = paced.connect_http2().await;
    let answer = tokio::spawn(sender.send_request(hyper::Request::post("http://a/held").body(body).unwrap()));
    paced.until_decided(2).await;
    let mut sent = 0;
    loop {
        paced.settle().await;
        let now = counter.load(Ordering::Relaxed);
        if std::mem::replace(&mut sent, now) == now {
            break;
        }
    }
    // The client's own library makes a few pieces before it knows of the window.
    let window = usize::try_from(STREAM_WINDOW).unwrap();
    assert!((PIECE..=window + 4 * PIECE).contains(&sent), "{sent} bytes of a request that waits");
    tokio::time::advance(TURN).await;
    let arrival = paced.arrival().await;
    assert_eq!((arrival.path.as_str(), arrival.at), ("/held", TURN));
    assert!(arrival.body == pattern(0, LENGTH), "other bytes arrive");
    assert_eq!(answer.await.unwrap().unwrap().status(), 200);
}

/// Those behind move up at once, and whoever comes next gets the turn that is free: one of the same connection that
/// is dropped, and a whole connection.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_reset_while_it_is_held_gives_back_its_place_and_its_charge() {
    for ends_connection in [false, true] {
        let mut paced = with_the_first_turn_taken().await;
        let mut sender = paced.connect_http2().await;
        let mut other = match ends_connection {
            true => paced.connect_http2().await,
            false => sender.clone(),
        };
        let left = tokio::spawn(other.send_request(get("/left")));
        paced.until_decided(2).await;
        let mut answers = vec![tokio::spawn(sender.send_request(get("/behind")))];
        paced.until_decided(3).await;
        left.abort();
        drop(other);
        drop(left.await);
        paced.settle().await;
        answers.push(tokio::spawn(sender.send_request(get("/next"))));
        paced.until_decided(4).await;
        for (turn, path) in [(1, "/behind"), (2, "/next")] {
            tokio::time::advance(TURN).await;
            let arrival = paced.arrival().await;
            let expected = (path, TURN * turn);
            assert_eq!((arrival.path.as_str(), arrival.at), expected, "connection: {ends_connection}");
        }
        for answer in answers {
            assert_eq!(answer.await.unwrap().unwrap().status(), 200);
        }
    }
}
