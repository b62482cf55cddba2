//! `tollgate suggest`: what a server has counted, asked from it and from its folder.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::history_server::{TOKEN, counted};

fn suggest(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.arg("suggest").args(args).env_clear().env("TOLLGATE_ADMIN_TOKEN", TOKEN);
    command.current_dir(folder).output().expect("cargo has built the binary")
}

fn text(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("only text is printed")
}

/// Three paths with two requests a year each, asked for 3, 1 and 2 times.
#[test]
fn a_server_and_its_folder_suggest_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, admin) = counted(folder.path());
    let url = format!("http://{admin}");
    let told = text(suggest(folder.path(), &["--server", &url]));
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    for line in [
        "per_path  2 per year, fixed_window",
        "  denies 16.6 %: too strict, or abused?",
        "  6 decisions, 1 denied; 3 keys, 1 of them over the limit",
        "  busiest 365 d of a key: p50 2, p90 3, p99 3, max 3",
    ] {
        assert!(told.lines().any(|own| own == line), "'{line}' is missing: {told}");
    }
    let ask = |place: &[&str]| -> Value {
        let args: Vec<&str> = place.iter().copied().chain(["--format", "json"]).collect();
        serde_json::from_str(&text(suggest(folder.path(), &args))).expect("JSON")
    };
    let from_server = ask(&["--server", &url]);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let from_folder = ask(&["--data", "tollgate-data", "--rules", "rules.yaml"]);
    for name in [
        "name",
        "path",
        "limit_words",
        "total",
        "denied",
        "keys",
        "denied_keys",
        "peaks",
        "limits",
        "fits",
        "finding",
    ] {
        assert_eq!(from_server["rules"][0][name], from_folder["rules"][0][name], "{name}");
    }
    assert_eq!(
        from_folder["rules"][0]["limits"][0],
        serde_json::json!({ "limit": 2, "keys": 1, "requests": 1 })
    );
}

#[test]
fn what_cannot_be_asked_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("wrong.yaml"), "domian: shop\n").unwrap();
    for (args, code, words) in [
        (&["--server", "http://127.0.0.1:1"][..], 1, "cannot ask http://127.0.0.1:1"),
        (&["--data", "nowhere", "--rules", "wrong.yaml"], 64, "unknown key 'domian'"),
        (&["--data", "a", "--server", "b"], 64, "cannot be used with"),
    ] {
        let output = suggest(folder.path(), args);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
    }
}
