//! `tollgate history --server` gives what `--data` gives, of the same history.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use crate::serve::{ANY, Serving, post};

const RULES: &str = "
domain: shop
descriptors:
  - key: path
    rate_limit: { name: per_path, requests_per_unit: 2, unit: year }
";
pub(crate) const TOKEN: &str = "open sesame";

/// A server that wants a token and has decided a few requests, and where operators ask it.
pub(crate) fn counted(folder: &Path) -> (Serving, SocketAddr) {
    std::fs::write(folder.join("rules.yaml"), RULES).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(["serve", "--rules", "rules.yaml"]).args(ANY).env_clear().env("TOLLGATE_ADMIN_TOKEN", TOKEN);
    let mut server = Serving::run(&mut command, folder);
    let http = server.address("HTTP (/json, /healthcheck, /v1) listens on ");
    let admin = server.until("are at http://");
    let admin = admin.trim_end_matches('/').parse().unwrap();
    server.until("history is kept in ./tollgate-data");
    server.until("rules loaded");
    server.until("try: ");
    for (path, times) in [("/cart", 3), ("/=1+1", 1), ("/list", 2)] {
        let entry = format!(r#"{{"key":"path","value":"{path}"}}"#);
        let body = format!(r#"{{"domain":"shop","descriptors":[{{"entries":[{entry}]}}]}}"#);
        for _ in 0..times {
            post(http, "/json", &body);
        }
    }
    (server, admin)
}

fn history(folder: &Path, token: &str, args: &[&str], place: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.arg("history").args(args).args(place).env_clear().env("TOLLGATE_ADMIN_TOKEN", token);
    command.current_dir(folder).output().unwrap()
}

#[test]
fn a_server_and_its_folder_give_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, admin) = counted(folder.path());
    let url = format!("http://{admin}");
    // Whole days, so that the same is meant before and after the stop, but at midnight.
    let when = ["--from", "now-1d/d", "--to", "now+1d/d"];
    let questions: [&[&str]; 7] = [
        &["series", "--by", "route", "--name", "/cart", "--step", "1d", "--format", "json"],
        &["series", "--by", "rule", "--compare", "previous_week", "--step", "1d", "--format", "csv"],
        &["top", "--by", "key", "--format", "json"],
        &["top", "--by", "route", "--order", "denied", "--limit", "1", "--format", "ndjson"],
        &["summary", "--format", "json"],
        &["summary"],
        &["series", "--step", "1d", "--format", "table"],
    ];
    let ask = |place: &[&str]| {
        questions.map(|question| {
            let args: Vec<&str> = question.iter().copied().chain(when).collect();
            let output = history(folder.path(), TOKEN, &args, place);
            let told = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{question:?}: {}", String::from_utf8_lossy(&output.stderr));
            told
        })
    };
    let from_server = ask(&["--server", &url]);
    assert!(from_server.iter().all(|told| !told.is_empty()));
    assert!(from_server[4].contains("\"total\": 6"), "{}", from_server[4]);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let from_folder = ask(&["--data", "tollgate-data"]);
    for (question, (one, other)) in questions.iter().zip(from_server.iter().zip(&from_folder)) {
        assert_eq!(one, other, "{question:?}");
    }
}

#[test]
fn what_is_wrong_with_a_server_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, admin) = counted(folder.path());
    let url = format!("http://{admin}");
    let nobody = "http://127.0.0.1:1";
    let cases = [
        ("wrong", "summary", ["--server", &url], 64, ["wants a token", "set TOLLGATE_ADMIN_TOKEN"]),
        (TOKEN, "summary", ["--server", "localhost"], 64, ["'localhost' is not the address", "http://"]),
        (TOKEN, "summary", ["--server", nobody], 1, ["cannot ask http://127.0.0.1:1", "admin listener"]),
        (TOKEN, "top --limit 0", ["--server", &url], 1, ["is not a number", "send 1 to 10000"]),
        (TOKEN, "summary", ["--data", "tollgate-data"], 1, ["is in use by process", "--server http"]),
    ];
    for (token, args, place, code, words) in cases {
        let split: Vec<&str> = args.split(' ').collect();
        let output = history(folder.path(), token, &split, &place);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?} {place:?}: {told}");
        assert!(words.iter().all(|word| told.contains(word)), "{args:?} {place:?}: {told}");
        assert!(!told.contains(TOKEN), "{told}");
    }
}

#[test]
fn a_misspelt_rule_is_told_with_the_one_that_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, admin) = counted(folder.path());
    let url = format!("http://{admin}");
    for question in
        ["top --by key --rule pre_path", "top --by rule --rule per_pth", "series --by key --rule per_pat"]
    {
        let args: Vec<&str> = question.split(' ').collect();
        let output = history(folder.path(), TOKEN, &args, &["--server", &url]);
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains("did you mean per_path?"), "{question}: {told}");
    }
}

#[test]
fn a_misspelt_key_beside_a_right_one_is_said_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
    let mut server = Serving::start(folder.path(), &["--rules", "rules.yaml"]);
    let http = server.address("HTTP (/json, /healthcheck, /v1) listens on ");
    server.until("rules loaded");
    post(http, "/v1/check", r#"{"domain":"shop","descriptors":[{"path":"/cart"},{"pth":"/cart"}]}"#);
    let told = server.until("no rules have this key");
    assert!(told.contains("pth") && told.contains("nearest=\"path\""), "{told}");
}
