//! Connections that take their time, on a clock that jumps.

use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::*;
use crate::bounds::BODY_WAIT_MAX;
use crate::listen::connection_limit::ConnectionLimit;
use crate::testing::{self, TestConnection, connect};

/// A caller on one end of a pipe with the server at the other.
struct Line {
    io: DuplexStream,
    stop: watch::Sender<bool>,
    start: Instant,
}

fn served(limit: &Arc<ConnectionLimit>, password: Option<&str>, pipe: usize) -> Line {
    let serve = ServeResp::new(testing::service("domain: none\n"), password.map(Secret::new), None);
    let TestConnection { io, stop, .. } = connect(serve, limit, pipe);
    // The clock of the tests stands still while anything goes on.
    Line { io, stop, start: now() }
}

fn now() -> Instant {
    Instant::now()
}

impl Line {
    async fn say(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.expect("the server listens");
    }

    async fn hear(&mut self, expected: &str) {
        let mut bytes = vec![0; expected.len()];
        self.io.read_exact(&mut bytes).await.expect("the server answers");
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }

    /// What is said until the end, and how many seconds that took.
    async fn end(mut self) -> (String, u64) {
        let mut bytes = Vec::new();
        self.io.read_to_end(&mut bytes).await.expect("the server ends it");
        let seconds = now().duration_since(self.start).as_secs();
        (String::from_utf8(bytes).expect("it is text"), seconds)
    }
}

fn room() -> Arc<ConnectionLimit> {
    ConnectionLimit::new(10, 10)
}

#[tokio::test(start_paused = true)]
async fn a_command_that_does_not_come_in_whole_is_cut_off() {
    let mut line = served(&room(), None, 1 << 16);
    line.say(b"PING\r\n*1\r\n$4\r\nPI").await;
    line.hear("+PONG\r\n").await;
    let slow = "-ERR Protocol error: the command did not arrive within 10 s; send it faster\r\n";
    assert_eq!(line.end().await, (slow.to_owned(), 15));
}

#[tokio::test(start_paused = true)]
async fn dripping_does_not_help() {
    let mut line = served(&room(), None, 1 << 16);
    for byte in b"*1\r\n$99\r\n" {
        line.say(&[*byte]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let (told, seconds) = line.end().await;
    assert!(told.contains("did not arrive") && seconds == 15, "{told} after {seconds} s");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_silent_may_stay_for_days() {
    let mut line = served(&room(), None, 1 << 16);
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        line.say(b"PING\r\n").await;
        line.hear("+PONG\r\n").await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_silent_goes_where_others_need_the_room() {
    let limit = ConnectionLimit::new(10, 1);
    let line = served(&limit, None, 1 << 16);
    let _other = limit.acquire().expect("there is room");
    let crowded = "-ERR too many connections; come back when you have a command\r\n";
    assert_eq!(line.end().await, (crowded.to_owned(), 5));
}

#[tokio::test(start_paused = true)]
async fn a_stranger_has_ten_seconds() {
    let mut line = served(&room(), Some("sesame"), 1 << 16);
    line.say(b"PING\r\n").await;
    line.hear("-NOAUTH Authentication required; send AUTH password\r\n").await;
    assert_eq!(line.end().await, ("-NOAUTH no password within 10 s; send AUTH password\r\n".to_owned(), 10));
    let mut line = served(&room(), Some("sesame"), 1 << 16);
    line.say(b"AUTH sesame\r\n").await;
    line.hear("+OK\r\n").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    line.say(b"PING\r\n").await;
    line.hear("+PONG\r\n").await;
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_take_the_answers_gets_no_more() {
    let mut line = served(&room(), None, 64);
    let sent =
        tokio::time::timeout(Duration::from_secs(60), line.io.write_all(&b"PING\r\n".repeat(10_000))).await;
    assert!(matches!(sent, Ok(Err(_))), "the server goes: {sent:?}");
    assert_eq!(now().duration_since(line.start).as_secs(), BODY_WAIT_MAX.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_stop_answers_what_has_arrived() {
    let mut line = served(&room(), None, 1 << 16);
    line.say(b"PING\r\nPI").await;
    line.stop.send_replace(true);
    assert_eq!(line.end().await, ("+PONG\r\n".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_long_command_is_held_and_let_go() {
    let mut line = served(&room(), None, 1 << 20);
    let word = "x".repeat(60_000);
    line.say(format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{word}\r\n").repeat(3).as_bytes()).await;
    line.hear(&format!("$60000\r\n{word}\r\n").repeat(3)).await;
    line.say(b"PING\r\n").await;
    line.hear("+PONG\r\n").await;
}
