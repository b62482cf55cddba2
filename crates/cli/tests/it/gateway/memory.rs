//! Large bodies and idle connections, in bytes of the process.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate_testkit::redis::wait_until;

use super::hyper_upstream::HyperUpstream;
use super::{GatewayProcess, output, pattern};

/// A body that would show if it were kept.
const LARGE: usize = 256 << 20;
/// What the gateway may take for it: its own buffers, and what an allocator keeps.
const FLAT_KB: u64 = 16 << 10;
/// What two sockets' buffers hold at most.
const IN_FLIGHT_MAX: usize = 32 << 20;
/// How many clients are connected and ask nothing.
const IDLE: usize = 10_000;
/// So many of them have asked before.
const USED: usize = 500;
/// What one of them may take in a debug build.
const IDLE_BYTES_MAX: u64 = 16 << 10;

/// Sends a head, and returns the connection with what came of the answer's body.
fn ask(gateway: &GatewayProcess, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Reads a head byte by byte, so that nothing of the body is lost.
fn read_head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn a_large_answer_for_a_slow_reader_takes_no_memory() {
    let upstream = HyperUpstream::start();
    let gateway = GatewayProcess::start(upstream.address);
    output("curl", &["-sS", "-o", "/dev/null", &gateway.url("/length/1000000")]);
    let before = gateway.memory_kb("VmRSS");
    let made = upstream.made.load(Ordering::Relaxed);
    let mut stream = ask(&gateway, &format!("GET /length/{LARGE} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(read_head(&mut stream).contains("200 OK"));
    // Nobody reads: it stops, and no more is held than the sockets hold.
    let mut last = 0;
    wait_until("the upstream is stopped", Duration::from_secs(30), || {
        let now = upstream.made.load(Ordering::Relaxed) - made;
        now > 0 && std::mem::replace(&mut last, now) == now
    });
    assert!(last < IN_FLIGHT_MAX, "{last} bytes that nobody reads");
    let (mut read, mut piece) = (0, vec![0; 256 << 10]);
    while read < LARGE {
        let length = stream.read(&mut piece).unwrap();
        assert!(length > 0, "it ended after {read} bytes");
        assert!(piece[..length] == pattern(read, length), "other bytes after {read}");
        read += length;
    }
    let peak = gateway.memory_kb("VmHWM");
    assert!(peak < before + FLAT_KB, "{before} KB before, {peak} KB at the peak");
}

#[test]
fn a_large_request_takes_no_memory() {
    let upstream = HyperUpstream::start();
    let gateway = GatewayProcess::start(upstream.address);
    output("curl", &["-sS", "-o", "/dev/null", &gateway.url("/length/1000000")]);
    let before = gateway.memory_kb("VmRSS");
    for framing in ["length", "chunked"] {
        let head = match framing {
            "length" => format!("Content-Length: {LARGE}"),
            _ => "Transfer-Encoding: chunked".to_owned(),
        };
        let mut stream = ask(&gateway, &format!("POST /count HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n"));
        let size = 64 << 10;
        for from in (0..LARGE).step_by(size) {
            let piece = pattern(from, size);
            if framing == "chunked" {
                stream.write_all(format!("{size:x}\r\n").as_bytes()).unwrap();
            }
            stream.write_all(&piece).unwrap();
            if framing == "chunked" {
                stream.write_all(b"\r\n").unwrap();
            }
        }
        if framing == "chunked" {
            stream.write_all(b"0\r\n\r\n").unwrap();
        }
        let head = read_head(&mut stream);
        let expected = format!("{LARGE} true");
        let mut body = vec![0; expected.len()];
        stream.read_exact(&mut body).unwrap();
        assert_eq!(String::from_utf8_lossy(&body), expected, "{head}");
    }
    let peak = gateway.memory_kb("VmHWM");
    assert!(peak < before + FLAT_KB, "{before} KB before, {peak} KB at the peak");
}

#[test]
fn large_bodies_over_http2_take_no_memory() {
    let upstream = HyperUpstream::start();
    let gateway = GatewayProcess::start(upstream.address);
    let curl = |arguments: &[&str]| {
        let own = ["-sS", "--fail", "--http2-prior-knowledge"];
        String::from_utf8(output("curl", &[&own, arguments].concat())).unwrap()
    };
    curl(&["-o", "/dev/null", &gateway.url("/length/1000000")]);
    let before = gateway.memory_kb("VmRSS");
    // Slower than the upstream, so that it has to wait.
    let slowly = ["--limit-rate", "200M", "-o", "/dev/null", "-w", "%{size_download}"];
    assert_eq!(
        curl(&[&slowly[..], &[&gateway.url(&format!("/length/{LARGE}"))]].concat()),
        LARGE.to_string()
    );
    let folder = tempfile::tempdir().unwrap();
    let sent = folder.path().join("sent");
    std::fs::write(&sent, pattern(0, LARGE)).unwrap();
    let said = curl(&["-X", "POST", "-T", sent.to_str().unwrap(), &gateway.url("/count")]);
    assert_eq!(said, format!("{LARGE} true"));
    let peak = gateway.memory_kb("VmHWM");
    assert!(peak < before + FLAT_KB, "{before} KB before, {peak} KB at the peak");
}

#[test]
fn ten_thousand_idle_connections_take_little_and_hinder_nobody() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // Clients and gateway are two processes, and each has one end.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let upstream = HyperUpstream::start();
    let gateway = GatewayProcess::start(upstream.address);
    output("curl", &["-sS", "-o", "/dev/null", &gateway.url("/length/1000000")]);
    let before = gateway.memory_kb("VmRSS");
    let connect = |count: usize| {
        (0..count).map(|_| TcpStream::connect(gateway.address).unwrap()).collect::<Vec<TcpStream>>()
    };
    let silent = connect(IDLE - USED);
    let mut used = connect(USED);
    // The last ones are answered once all before them are accepted.
    for client in &mut used {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert!(read_head(client).starts_with("HTTP/1.1 200"));
    }
    let after = gateway.memory_kb("VmRSS");
    let each = after.saturating_sub(before) * 1_024 / u64::try_from(IDLE).unwrap();
    println!("an idle connection takes {each} bytes");
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes for each: {before} KB before, {after} KB after");
    assert_eq!(output("curl", &["-sS", "--max-time", "10", &gateway.url("/")]), b"ok");
    drop(silent);
}
