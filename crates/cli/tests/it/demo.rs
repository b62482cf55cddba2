//! `tollgate demo`: a dashboard with a week behind it, and nothing left afterwards.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

#[test]
fn a_demo_has_a_week_of_history_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.arg("demo").env_clear().env("TMPDIR", folder.path()).stdout(Stdio::piped());
    let mut demo = command.spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    let url = lines.find_map(|line| line.strip_prefix("The dashboard: ").map(str::to_owned)).unwrap();
    lines.next().unwrap();
    let ask = |arguments: &[&str]| {
        let mut asking = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        let asked = asking.arg("history").args(arguments).args(["--server", &url]).env_clear().output();
        String::from_utf8(asked.unwrap().stdout).unwrap()
    };
    let summary: serde_json::Value =
        serde_json::from_str(&ask(&["summary", "--last", "7d", "--format", "json"])).unwrap();
    assert!(summary["total"].as_u64() > Some(100_000), "{summary}");
    for outcome in ["denied", "delayed", "shadow_denied"] {
        assert!(summary[outcome].as_u64() > Some(0), "{outcome}: {summary}");
    }
    let rules = ask(&["top", "--by", "rule", "--last", "7d"]);
    for rule in ["per-address", "login", "api-burst", "crawlers-new"] {
        assert!(rules.contains(rule), "{rule}: {rules}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let pid = demo.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the folder is gone");
}
