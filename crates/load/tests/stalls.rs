//! A server that stalls cannot hide it from an open loop.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tollgate_load::plan::{DescriptorCheck, KeySpace, LoadLoop, LoadRequest, RunLength};
use tollgate_load::transport::ConnectOptions;
use tollgate_load::{LoadProtocol, LoadReport, Plan};

/// How long the server stalls.
const STALL: Duration = Duration::from_millis(500);
const ANSWER: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}";

/// Answers the probe, stalls once, and then answers everything.
fn stalling() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        answer_one(&mut first);
        let (mut second, _) = listener.accept().unwrap();
        let (_keep, never): (_, Receiver<()>) = channel();
        // Nothing is sent to this channel: it is a wait.
        assert!(never.recv_timeout(STALL).is_err());
        while answer_one(&mut second) {}
    });
    address
}

fn answer_one(stream: &mut TcpStream) -> bool {
    let mut asked = [0; 4096];
    stream.read(&mut asked).is_ok_and(|count| count > 0) && stream.write_all(ANSWER).is_ok()
}

fn load(pacing: LoadLoop) -> LoadReport {
    let target = stalling();
    let check = DescriptorCheck { domain: "d".into(), entries: vec![("a".into(), "b".into())], cost: 1 };
    let plan = Plan {
        address: target.to_string(),
        target,
        connect: ConnectOptions::default(),
        connections: 1,
        in_flight: 1,
        threads: 1,
        pacing,
        request: LoadRequest::Check(LoadProtocol::Http, check),
        keys: KeySpace { count: 1, zipf: None, seed: 0 },
        warm_up: Duration::ZERO,
        length: RunLength::Count(50),
    };
    tollgate_load::run(&plan, None, &mut |_| ()).unwrap()
}

#[test]
fn in_an_open_loop_every_request_due_during_the_stall_waited() {
    // Fifty at 10 ms: all are due within the stall, and half of them in its first half.
    let outcome = load(LoadLoop::Open { per_second: 100 });
    assert_eq!((outcome.answered, outcome.verdicts.deny), (50, 50));
    assert!(outcome.latencies.p50 >= STALL * 2 / 5, "{:?}", outcome.latencies);
}

#[test]
fn in_a_closed_loop_only_one_did() {
    let outcome = load(LoadLoop::Closed);
    assert_eq!(outcome.answered, 50);
    assert!(outcome.latencies.max >= STALL * 9 / 10, "{:?}", outcome.latencies);
    assert!(outcome.latencies.p50 < outcome.latencies.max / 2, "{:?}", outcome.latencies);
}
