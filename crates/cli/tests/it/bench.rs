//! `tollgate bench` against a running server, and against what is none.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::golden::run;
use crate::serve::{ANY, Serving, get_until};

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
    let mut server = Serving::start(folder.path(), &ARGS);
    let addresses = addresses(&mut server);
    get_until(addresses[1].1, "/healthcheck?verbose", "\"loaded\":true");
    ((server, folder), addresses)
}

const ARGS: [&str; 4] = ["--rules", "rules.yaml", "--resp", "127.0.0.1:0"];

fn addresses(server: &mut Serving) -> [(&'static str, SocketAddr); 3] {
    [("grpc", "gRPC "), ("http", "HTTP "), ("resp", "RESP ")].map(|(protocol, name)| {
        let line = server.until(name);
        let (_, address) = line.split_once("listens on ").unwrap();
        (protocol, address.split_whitespace().next().unwrap().parse().unwrap())
    })
}

/// A server with TLS everywhere and a password over RESP; its folder has `ca.pem`.
fn serve_closed() -> ((Serving, TempDir), [(&'static str, SocketAddr); 3]) {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    put("rules.yaml", RULES);
    put("ca.pem", &own.cert.pem());
    put("key.pem", &own.signing_key.serialize_pem());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.arg("serve").args(ANY).args(ARGS).env_clear().env("TOLLGATE_RESP_PASSWORD", "sesame");
    for [cert, key] in [
        ["GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY"],
        ["TOLLGATE_HTTP_TLS_CERT", "TOLLGATE_HTTP_TLS_KEY"],
        ["TOLLGATE_RESP_TLS_CERT", "TOLLGATE_RESP_TLS_KEY"],
    ] {
        command.env(cert, "ca.pem").env(key, "key.pem");
    }
    command.env("GRPC_SERVER_USE_TLS", "true");
    let mut server = Serving::run(&mut command, folder.path());
    let addresses = addresses(&mut server);
    server.until("try: ");
    ((server, folder), addresses)
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
        let descriptor = format!("{protocol}=open");
        let more = ["--rate", "1000", "--count", "200", "--connections", "4", "--descriptor", &descriptor];
        let told = bench(protocol, address, &[&more[..], &["--zipf", "1.1"]].concat());
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

/// To the kernel 0 is the process that asks: the CPU time of the load would be told as the server's.
#[test]
fn a_number_that_is_no_process_is_refused() {
    for pid in ["0", "-1", "2147483648", "self"] {
        let told = complaint(&["bench", "--grpc", "127.0.0.1:8081", &format!("--server-pid={pid}")], 64);
        assert!(told.contains("--server-pid") && told.contains("write the number of a process"), "{told}");
    }
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
fn a_server_with_tls_and_a_password_is_asked_by_who_knows_them() {
    let ((server, folder), addresses) = serve_closed();
    let ca = folder.path().join("ca.pem");
    let ca = ca.to_str().unwrap();
    for (protocol, address) in addresses {
        let (flag, named) = (format!("--{protocol}"), format!("localhost:{}", address.port()));
        let asked = |more: &[&'static str], ca: &[&str]| {
            let usual = ["--domain", "d", "--descriptor", "grpc=1", "--warm-up", "0s", "--count", "500"];
            let some = ["bench", &flag, &named, "--format", "json"];
            run(&[&some[..], &usual, more, ca].concat())
        };
        let password: &[&str] = if protocol == "resp" { &["--password", "sesame"] } else { &[] };
        let output = asked(password, &["--ca", ca]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), told.as_str()), (Some(0), ""), "{protocol}");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&told["answered"], &told["errors"]), (&500.into(), &0.into()), "{protocol}: {told}");
        // Nobody has signed it whom the system trusts.
        let told = String::from_utf8(asked(password, &["--tls"]).stderr).unwrap();
        assert!(told.contains("cannot speak TLS with localhost") && told.contains("--ca FILE"), "{told}");
    }
    let (_, resp) = addresses[2];
    let resp = format!("localhost:{}", resp.port());
    let told = complaint(&["bench", "--resp", &resp, "--ca", ca, "--password", "guess"], 1);
    assert!(told.contains("WRONGPASS") && told.contains("--password"), "{told}");
    let told = complaint(&["bench", "--resp", &resp, "--ca", "none.pem"], 1);
    assert!(told.contains("none.pem"), "{told}");
    drop(server);
}

#[test]
fn a_load_that_meets_no_limit_is_no_success() {
    let (_server, addresses) = serve();
    for (protocol, address) in addresses {
        let (flag, address) = (format!("--{protocol}"), address.to_string());
        let output =
            run(&["bench", &flag, &address, "--warm-up", "0s", "--count", "100", "--format", "json"]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{protocol}: {told}");
        assert!(told.contains("no limit applies to example user_id=u{key}"), "{protocol}: {told}");
        assert!(told.contains("--domain and --descriptor"), "{protocol}: {told}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["allow"], &report["unlimited"]), (&100.into(), &100.into()), "{protocol}");
    }
}

#[test]
fn a_table_is_for_people() {
    let (_server, [_, (_, http), _]) = serve();
    let asked = ["--domain", "d", "--descriptor", "http=t{key}"];
    let args = ["bench", "--http", &http.to_string(), "--warm-up", "0s", "--count", "100"];
    let output = run(&[&args[..], &asked].concat());
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    for line in [
        "over HTTP: 50 connections × 1 in flight, closed loop, 100 answers\n",
        "d http=t{key}, 1,000,000 keys, uniform, after 0ns of warm-up\n",
        " decisions/s\n",
        "latency     p50 ",
        "verdicts    allow 100, delay 0, deny 0\n",
        "server CPU  n/a; give --server-pid\n",
        "errors      none\n",
    ] {
        assert!(told.contains(line), "{line:?} is not in\n{told}");
    }
}
