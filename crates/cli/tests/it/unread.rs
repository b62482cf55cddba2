//! What callers who never read have a server hold, in its resident memory.
//!
//! Method: connections with a small receive buffer send requests, one after the other, until the
//! server takes no more. A first crowd of them is not counted: it grows what a process has once
//! (tables, threads, the allocator's arenas), which is a megabyte more or less from run to run.
//! What the second crowd adds is held against docs/guide/operating.md: an idle connection, what
//! was sent that counts with a quarter for the allocator, and 64 KiB.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tokio::net::TcpSocket;
use tollgate_testkit::redis::wait_until;

use crate::serve::{Serving, get_until};

const RULES: &str = "
domain: d
descriptors:
  - key: k
    rate_limit: { name: a_rule, requests_per_unit: 1000000, unit: hour }
";

/// What operating.md says of an idle connection over HTTP or RESP, of a request above 8 KB
/// besides its bytes, and of an answer that waits.
const IDLE: usize = 11_000;
const READ_BUFFER: usize = 32 << 10;
const UNREAD: usize = 64 << 10;
const FIRST_CROWD: usize = 60;
/// So many that what a process grows by now and then weighs little; they hold 120 MB at most.
const SECOND_CROWD: usize = 120;
/// Each sends no more than this; its answers fill every buffer by then.
const SENT_MAX: usize = 3 << 20;
/// What a connection holds, it holds every time; on a busy machine one process in many grows by more.
const ATTEMPTS: usize = 3;
const SETTLED_WITHIN: Duration = Duration::from_secs(120);

fn resident(server: &Serving) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    kilobytes.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

fn batch(requests: usize, value: &str) -> Vec<u8> {
    let request = format!(r#"{{"domain":"d","descriptors":[{{"k":"{value}"}}]}}"#);
    let body = format!("[{}]", vec![request; requests].join(","));
    format!("POST /v1/check HTTP/1.1\r\nhost: d\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A caller that sends the same over and over, and never reads.
struct DeafCaller<'a> {
    stream: TcpStream,
    bytes: &'a [u8],
    sent: usize,
}

impl<'a> DeafCaller<'a> {
    fn connect(address: SocketAddr, bytes: &'a [u8]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stream = runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(4_096).unwrap();
            socket.connect(address).await.unwrap().into_std().unwrap()
        });
        Self { stream, bytes, sent: 0 }
    }

    /// Sends what the server takes; how much that was.
    fn send(&mut self) -> usize {
        let before = self.sent;
        while self.sent < SENT_MAX {
            let rest = self.bytes.get(self.sent % self.bytes.len()..).unwrap();
            match self.stream.write(rest) {
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // It was told that too much waits already, and is cut off.
                Err(_) => self.sent = SENT_MAX,
            }
        }
        self.sent - before
    }
}

/// What a connection has a fresh server hold.
fn held(is_resp: bool, bytes: &[u8]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
    let mut server = Serving::start(folder.path(), &["--rules", "rules.yaml", "--resp", "127.0.0.1:0"]);
    let http = server.address("/v1) listens on ");
    let address = if is_resp { server.address("TOLLGATE.CHECK) listens on ") } else { http };
    get_until(http, "/healthcheck", "200 OK");
    let mut callers = Vec::new();
    let first = crowd_in(&server, &mut callers, FIRST_CROWD, || DeafCaller::connect(address, bytes));
    let second = crowd_in(&server, &mut callers, SECOND_CROWD, || DeafCaller::connect(address, bytes));
    second.saturating_sub(first) / SECOND_CROWD
}

/// Adds `count` callers and lets all of them send; the most that the server held meanwhile.
fn crowd_in<'a>(
    server: &Serving,
    callers: &mut Vec<DeafCaller<'a>>,
    count: usize,
    connect: impl Fn() -> DeafCaller<'a>,
) -> usize {
    callers.extend((0..count).map(|_| connect()));
    let (mut quiet, mut most) = (0, 0);
    wait_until("the server takes no more", SETTLED_WITHIN, || {
        let sent: usize = callers.iter_mut().map(DeafCaller::send).sum();
        let now = resident(server);
        quiet = if sent == 0 && now <= most { quiet + 1 } else { 0 };
        most = most.max(now);
        quiet > 20
    });
    most
}

#[test]
fn a_caller_who_does_not_read_holds_64_kib_beyond_what_is_documented() {
    let info = b"*2\r\n$4\r\nINFO\r\n$3\r\nall\r\n".repeat(50);
    let cases = [
        ("batches of 25", false, batch(25, "x"), 0),
        ("batches of 8 KB", false, batch(190, "x"), 0),
        ("batches of 41 KB", false, batch(1_000, "x"), READ_BUFFER + 41_092),
        ("a batch of 900 KB", false, batch(880, &"x".repeat(1_000)), READ_BUFFER + 915_293),
        ("RESP commands with long replies", true, info, 0),
    ];
    for (what, is_resp, bytes, share) in cases {
        // Bodies grow as they arrive, and what they grew out of is not always used again.
        let most = IDLE + UNREAD + share + share / 4;
        let mut seen = Vec::new();
        let fits = (0..ATTEMPTS).any(|_| {
            seen.push(held(is_resp, &bytes));
            seen.last().is_some_and(|held| *held <= most)
        });
        assert!(fits, "{what}: {seen:?} bytes a connection, and {most} are documented");
    }
}
