//! A damaged history costs history alone: the server limits, ends in order and says what is lost.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::serve::{Serving, get, get_until, post};

const RULES: &str = "
domain: d
descriptors:
  - key: k
    rate_limit: { requests_per_unit: 2, unit: year }
";

struct DamagedNode {
    serving: Serving,
    http: SocketAddr,
    admin: SocketAddr,
}

fn start(folder: &Path) -> DamagedNode {
    fs::write(folder.join("rules.yaml"), RULES).unwrap();
    let mut serving = Serving::start(folder, &["--rules", "rules.yaml"]);
    let http = serving.address("/v1) listens on ");
    let admin = serving.until("are at http://").trim_end_matches('/').parse().unwrap();
    DamagedNode { serving, http, admin }
}

/// Decides two requests of a caller, and denies a third.
fn decide(node: &DamagedNode, caller: &str) {
    get_until(node.http, "/healthcheck", "200 OK");
    let body = format!(r#"{{"domain":"d","descriptors":[{{"k":"{caller}"}}]}}"#);
    for status in ["200", "200", "429"] {
        let answer = post(node.http, "/v1/check", &body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
}

fn stop(node: &mut DamagedNode) {
    node.serving.signal("TERM");
    assert_eq!(node.serving.exit_code(), Some(0));
}

/// Turns bits of every page but the first around.
fn damage(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    for page in bytes.chunks_mut(4_096).skip(1) {
        page.iter_mut().skip(64).step_by(97).for_each(|byte| *byte ^= 0x55);
    }
    fs::write(file, &bytes).unwrap();
}

#[test]
fn a_server_on_a_damaged_file_says_what_it_loses_and_ends_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate-data/history.redb");
    let mut node = start(folder.path());
    decide(&node, "before");
    stop(&mut node);
    damage(&file);
    let damaged = fs::read(&file).unwrap();

    let mut node = start(folder.path());
    let told = node.serving.until("cannot store the history; limits still hold: ");
    assert!(told.contains("move it away"), "{told}");
    decide(&node, "after");
    node.serving.signal("TERM");
    let told = node.serving.until("history loses what could not be written: ");
    assert!(told.contains("requests=3"), "{told}");
    assert_eq!(node.serving.exit_code(), Some(0));
    assert!(fs::read(&file).unwrap() == damaged, "it is left alone");
}

#[test]
fn a_file_that_is_damaged_while_a_server_runs_ends_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate-data/history.redb");
    let mut node = start(folder.path());
    decide(&node, "before");
    stop(&mut node);
    let mut node = start(folder.path());
    decide(&node, "meanwhile");
    damage(&file);
    let asked = get(node.admin, "/v1/history/summary");
    assert!(asked.starts_with("HTTP/1.1 "), "{asked}");
    stop(&mut node);
    let mut node = start(folder.path());
    let told = node.serving.until("cannot ");
    assert!(told.starts_with("store the history; limits still hold: "), "{told}");
    stop(&mut node);
}
