//! A disk without room: limiting goes on, what was counted waits, and nothing of it is lost.
//!
//! Method: the running server may from some moment on write no file beyond its first bytes
//! (`prlimit --fsize`), which its database hears of as of a disk that is full; later it may again.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::net::SocketAddr;
use std::process::Command;

use crate::serve::{Serving, get, get_until, post};

const RULES: &str = "
domain: shop
descriptors:
  - key: path
    rate_limit: { name: per_path, requests_per_unit: 2, unit: year }
";

fn may_write(server: &Serving, bytes: &str) {
    let pid = server.id().to_string();
    let limit = format!("--fsize={bytes}:unlimited");
    assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
}

/// Decides three requests to a path, of which one is denied.
fn decide(http: SocketAddr, path: &str) {
    let entry = format!(r#"{{"key":"path","value":"{path}"}}"#);
    let body = format!(r#"{{"domain":"shop","descriptors":[{{"entries":[{entry}]}}]}}"#);
    for expected in ["200", "200", "429"] {
        let answer = post(http, "/json", &body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{answer}");
    }
}

#[test]
fn a_full_disk_costs_no_answer_and_no_count() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
    let mut server = Serving::start(folder.path(), &["--rules", "rules.yaml"]);
    let http = server.address("HTTP (/json, /healthcheck, /v1) listens on ");
    let admin = server.until("are at http://").trim_end_matches('/').parse().unwrap();
    server.until("try: ");
    decide(http, "/before");
    get_until(admin, "/v1/history/summary", "\"total\":3");

    may_write(&server, "4096");
    decide(http, "/meanwhile");
    // Written every 15 seconds, and never because somebody asks.
    server.until("cannot store the history; limits still hold");
    let status = get(admin, "/v1/history/status");
    assert!(status.contains("see that the disk has room"), "{status}");
    assert!(status.contains("\"waiting_flushes\":1"), "{status}");
    decide(http, "/later");
    let page = get(admin, "/metrics");
    assert!(page.contains("tollgate_history_waiting_flushes 1\n"), "{page}");
    // What is on the disk and what waits can be asked for.
    let summary = get_until(admin, "/v1/history/summary", "\"total\":9");
    assert!(summary.contains("\"denied\":3"), "{summary}");

    may_write(&server, "unlimited");
    server.until("history is kept again");
    let summary = get(admin, "/v1/history/summary");
    assert!(summary.contains("\"total\":9") && summary.contains("\"denied\":3"), "{summary}");
    let status = get(admin, "/v1/history/status");
    assert!(status.contains("\"waiting_flushes\":0") && status.contains("\"lost_requests\":0"), "{status}");
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let mut history = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    let told =
        history.args(["history", "top", "--format", "csv"]).current_dir(folder.path()).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    for path in ["/before,3,1", "/meanwhile,3,1", "/later,3,1"] {
        assert!(told.contains(path), "{told}");
    }
}
