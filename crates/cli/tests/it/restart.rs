//! Counters of the memory store that survive the end of the process.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tollgate_testkit::redis::wait_until;

use crate::serve::{ANY, Serving, get_until, post};

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

/// What counters are hashed with, and what callers sent, is nobody else's business.
#[test]
fn only_its_owner_reads_what_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = start(folder.path());
    assert_eq!(left(&node), [4, 4]);
    node.serving.signal("TERM");
    assert_eq!(node.serving.exit_code(), Some(0));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let data = folder.path().join("data");
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("counters.lock")), 0o600);
    assert_eq!(mode(&data.join("counters.snapshot")), 0o600);
    assert_eq!(mode(&data.join("history.redb")), 0o600);
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
fn a_server_takes_over_the_folder_when_its_predecessor_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = start(folder.path());
    let mut second = Serving::start(folder.path(), &["--rules", "rules.yaml", "--data", "data"]);
    let told = second.until("counters are not saved: ");
    assert!(told.starts_with("cannot use data: another process saves its counters there;"), "{told}");
    let http = second.address("/v1) listens on ");
    let mut second = ready(second, http);
    assert_eq!(left(&second), [4, 4]);
    assert_eq!(left(&second), [3, 3]);
    first.serving.signal("TERM");
    assert_eq!(first.serving.exit_code(), Some(0));
    second.serving.until("counters are saved in data from now on");
    second.serving.signal("TERM");
    assert_eq!(second.serving.exit_code(), Some(0));
    assert_eq!(left(&start(folder.path())), [2, 2]);
}

#[test]
fn without_a_folder_they_are_saved_in_the_default_one_unless_that_is_turned_off() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
    let run = |snapshots: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.arg("serve").args(ANY).args(["--rules", "rules.yaml"]).env_clear();
        let mut serving = Serving::run(command.env("TOLLGATE_SNAPSHOTS", snapshots), folder.path());
        let http = serving.address("/v1) listens on ");
        let mut node = ready(serving, http);
        let left = left(&node);
        node.serving.signal("TERM");
        assert_eq!(node.serving.exit_code(), Some(0));
        left
    };
    assert_eq!(run("false"), [4, 4]);
    assert!(!folder.path().join("tollgate-data/counters.snapshot").exists());
    assert_eq!(run("true"), [4, 4]);
    assert_eq!(run("true"), [3, 3]);
}

#[test]
fn a_snapshot_that_does_not_fit_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
    let serve = format!("ulimit -f 4; exec {} serve {}", env!("CARGO_BIN_EXE_tollgate"), ANY.join(" "));
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{serve} --rules rules.yaml --data data")]);
    let mut serving = Serving::run(command.env_clear().env("TOLLGATE_HISTORY", "false"), folder.path());
    let http = serving.address("/v1) listens on ");
    let mut node = ready(serving, http);
    let requests: Vec<String> =
        (0..1_000).map(|user| format!(r#"{{"domain":"d","descriptors":[{{"bucket":"{user}"}}]}}"#)).collect();
    let answer = post(node.http, "/v1/check", &format!("[{}]", requests.join(",")));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    node.serving.signal("TERM");
    let told = node.serving.until("cannot save counters: ");
    assert!(told.contains("make room"), "{told}");
    assert_eq!(node.serving.exit_code(), Some(0));
    let left: Vec<_> =
        fs::read_dir(folder.path().join("data")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["counters.lock"]);
}
