//! Counters of the memory store that survive the end of the process.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tollgate_testkit::redis::wait_until;

use crate::serve::{Serving, get_until, post};

const RULES: &str = "
domain: d
descriptors:
  - key: log
    rate_limit: { algorithm: sliding_log, requests_per_unit: 5, unit: hour }
  - key: bucket
    rate_limit: { algorithm: token_bucket, requests_per_unit: 5, unit: year, burst: 5 }
";

/// Far more than the ten seconds between two times.
const SAVED_WITHIN: Duration = Duration::from_secs(60);

struct RestartedNode {
    serving: Serving,
    http: SocketAddr,
}

fn start(folder: &Path) -> RestartedNode {
    fs::write(folder.join("rules.yaml"), RULES).unwrap();
    let mut serving = Serving::start(folder, &["--rules", "rules.yaml", "--data", "data"]);
    let http = serving.address("/v1) listens on ");
    ready(serving, http)
}

/// Rules are in force a moment after the log says that they are loaded.
fn ready(serving: Serving, http: SocketAddr) -> RestartedNode {
    get_until(http, "/healthcheck", "200 OK");
    RestartedNode { serving, http }
}

/// What is left of both limits after one more request.
fn left(node: &RestartedNode) -> Vec<u64> {
    let body = r#"{"domain":"d","descriptors":[{"log":"a"},{"bucket":"a"}]}"#;
    let answer = post(node.http, "/v1/check", body);
    let numbers = answer.split("\"remaining\":").skip(1);
    numbers.map(|rest| rest.split(',').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn counters_come_back_after_an_orderly_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path());
    assert_eq!(left(&node), [4, 4]);
    assert_eq!(left(&node), [3, 3]);
    node.serving.signal("TERM");
    assert_eq!(node.serving.exit_code(), Some(0));
    assert_eq!(left(&start(folder.path())), [2, 2]);
}

#[test]
fn counters_come_back_from_the_last_snapshot_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    assert_eq!(left(&node), [4, 4]);
    let file = folder.path().join("data/counters.snapshot");
    wait_until("a snapshot", SAVED_WITHIN, || file.exists());
    // Dropping it kills it at once.
    drop(node);
    assert_eq!(left(&start(folder.path())), [3, 3]);
}

#[test]
fn a_torn_file_is_told_and_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path());
    left(&node);
    node.serving.signal("TERM");
    node.serving.exit_code();
    let file = folder.path().join("data/counters.snapshot");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let mut serving = Serving::start(folder.path(), &["--rules", "rules.yaml", "--data", "data"]);
    let told = serving.until("counters start empty: ");
    assert!(told.ends_with("counters.snapshot: it ends too early"), "{told}");
    let http = serving.address("/v1) listens on ");
    assert_eq!(left(&ready(serving, http)), [4, 4]);
}

#[test]
fn one_process_at_a_time_saves_to_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let mut second = Serving::start(folder.path(), &["--rules", "rules.yaml", "--data", "data"]);
    let told = second.until("counters are not saved: ");
    assert_eq!(told, "cannot use data: another process saves its counters there; give another --data");
    assert_eq!(left(&node), [4, 4], "the first one goes on");
}
