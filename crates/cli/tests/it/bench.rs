//! `tollgate bench` against a running server, and against what is none.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};

use serde_json::Value;
use tempfile::TempDir;

use crate::golden::run;
use crate::serve::{Serving, get_until};

/// Twenty for each key, in windows that do not end while a test runs.
const RULES: &str = "
domain: d
descriptors:
  - key: grpc
    rate_limit: { unit: year, requests_per_unit: 20, algorithm: sliding_log }
  - key: http
    rate_limit: { unit: year, requests_per_unit: 20, algorithm: sliding_log }
  - key: resp
    rate_limit: { unit: year, requests_per_unit: 20, algorithm: sliding_log }
  - key: queue
    rate_limit: { unit: year, requests_per_unit: 1, algorithm: leaky_bucket, burst: 10 }
";

/// A server with its folder, and where it listens for gRPC, HTTP and RESP.
fn serve() -> ((Serving, TempDir), [(&'static str, SocketAddr); 3]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
    let mut server = Serving::start(folder.path(), &["--rules", "rules.yaml", "--resp", "127.0.0.1:0"]);
    let mut at = |name| {
        let line = server.until(name);
        let (_, address) = line.split_once("listens on ").unwrap();
        address.split_whitespace().next().unwrap().parse().unwrap()
    };
    let (grpc, http, resp) = (at("gRPC "), at("HTTP "), at("RESP "));
    get_until(http, "/healthcheck?verbose", "\"loaded\":true");
    ((server, folder), [("grpc", grpc), ("http", http), ("resp", resp)])
}

/// What a run says, and that it ended well.
fn bench(protocol: &str, address: SocketAddr, more: &[&str]) -> Value {
    let (flag, address) = (format!("--{protocol}"), address.to_string());
    let args =
        [&["bench", &flag, &address, "--domain", "d", "--warm-up", "0s", "--format", "json"], more].concat();
    let output = run(&args);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), told.as_ref()), (Some(0), ""), "{args:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_protocol_is_asked_and_every_verdict_counted() {
    let (server, addresses) = serve();
    let pid = server.0.id().to_string();
    for (protocol, address) in addresses {
        for in_flight in ["1", "7"] {
            let descriptor = format!("{protocol}={in_flight}-{{key}}");
            let mut more =
                vec!["--descriptor", &descriptor, "--keys", "10", "--count", "2000", "--server-pid", &pid];
            if protocol != "http" {
                more.extend(["--in-flight", in_flight]);
            }
            let told = bench(protocol, address, &more);
            // Ten keys of twenty each, and the question beforehand took one.
            let counts = ["answered", "allow", "deny", "delay", "errors"].map(|name| told[name].as_u64());
            assert_eq!(counts, [2_000, 199, 1_801, 0, 0].map(Some), "{protocol}: {told}");
            assert!(told["answered_per_s"].as_u64() > Some(0), "{told}");
            let [half, most] = ["p50_us", "max_us"].map(|name| told[name].as_u64().unwrap());
            assert!(half > 0 && half <= most, "{told}");
            assert!(told["server_cpu_per_decision_ns"].is_u64(), "{told}");
        }
    }
}

#[test]
fn waits_are_counted_over_every_protocol() {
    let (_server, addresses) = serve();
    for (protocol, address) in addresses {
        let descriptor = format!("queue={protocol}");
        let told =
            bench(protocol, address, &["--descriptor", &descriptor, "--count", "100", "--connections", "1"]);
        // The question beforehand left at once.
        assert_eq!(
            ["allow", "delay", "deny"].map(|name| told[name].as_u64()),
            [0, 10, 90].map(Some),
            "{told}"
        );
        assert_eq!(told["server_cpu_per_decision_ns"], Value::Null);
    }
}

#[test]
fn an_open_loop_takes_its_time() {
    let (_server, addresses) = serve();
    for (protocol, address) in addresses {
        let more = ["--rate", "1000", "--count", "200", "--connections", "4", "--zipf", "1.1"];
        let told = bench(protocol, address, &more);
        assert_eq!(told["answered"], 200, "{told}");
        assert!(told["elapsed_ms"].as_u64() >= Some(190), "{told}");
    }
}

/// The complaint of a run that must fail with this code.
fn complaint(args: &[&str], code: i32) -> String {
    let output = run(args);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{args:?}: {told}");
    told
}

#[test]
fn whoever_is_not_there_or_speaks_another_protocol_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for flag in ["--grpc", "--http", "--resp"] {
        let told = complaint(&["bench", flag, &free], 1);
        assert!(told.contains(&format!("cannot connect to {free}: Connection refused")), "{told}");
        assert!(told.contains("tollgate serve"), "{told}");
    }
    let (_server, addresses) = serve();
    for (asked, _) in addresses {
        for (spoken, address) in addresses {
            if asked == spoken {
                continue;
            }
            let told = complaint(&["bench", &format!("--{asked}"), &address.to_string()], 1);
            assert!(told.contains("does not speak "), "{asked} at {spoken}: {told}");
            assert!(told.contains("8081 for --grpc"), "{told}");
        }
    }
    let told = complaint(&["bench", "--grpc", "nowhere"], 64);
    assert!(told.contains("'nowhere' is not an address") && told.contains("HOST:PORT"), "{told}");
}

#[test]
fn a_server_that_hangs_up_or_answers_with_an_error_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 10\r\n\r\nno rules \n";
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // What was asked is read, or closing would reset the connection.
            drop(std::io::Read::read(&mut stream, &mut [0; 4096]));
            drop(stream.write_all(answer));
        }
    });
    let told = complaint(&["bench", "--http", &address], 1);
    assert!(told.contains("answers with an error: HTTP 503 no rules"), "{told}");
}

#[test]
fn a_table_is_for_people() {
    let (_server, [_, (_, http), _]) = serve();
    let output = run(&["bench", "--http", &http.to_string(), "--warm-up", "0s", "--count", "100"]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    for line in [
        "over HTTP: 50 connections × 1 in flight, closed loop, 100 answers\n",
        "example user_id=u{key}, 1,000,000 keys, uniform, after 0ns of warm-up\n",
        " decisions/s\n",
        "latency     p50 ",
        "verdicts    allow 100, delay 0, deny 0\n",
        "server CPU  n/a; give --server-pid\n",
        "errors      none\n",
    ] {
        assert!(told.contains(line), "{line:?} is not in\n{told}");
    }
}
