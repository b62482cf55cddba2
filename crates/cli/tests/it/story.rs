//! The newcomer's story of the guide, command by command: from a log to a rule that stops the worst
//! client and nobody else.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn five_commands_of_the_guide_stop_the_worst_client_and_nobody_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/guide/from-a-log.md")).unwrap();
    let (_, rest) = page.split_once("\n```sh\n").unwrap();
    let commands: Vec<&str> = rest.split_once("\n```").unwrap().0.lines().collect();
    assert_eq!(commands.len(), 5);
    let folder = tempfile::tempdir().unwrap();
    fs::copy(root.join("examples/from-a-log/access.txt"), folder.path().join("access.log")).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_tollgate"));
    let sh = |command: &str| {
        let place =
            env::join_paths([binary.parent().unwrap(), "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap();
        let ran = Command::new("/bin/sh")
            .args(["-c", command])
            .env("PATH", place)
            .current_dir(folder.path())
            .output();
        let ran = ran.unwrap();
        let told = String::from_utf8(ran.stdout).unwrap();
        assert!(ran.status.success(), "{command}: {}{told}", String::from_utf8_lossy(&ran.stderr));
        told
    };
    let told: Vec<String> = commands.iter().map(|command| sh(command)).collect();
    for (place, denied) in [(1, "denied 285 (35.4%)"), (3, "denied 126 (15.6%)")] {
        assert!(page.contains(denied) && told[place].contains(denied), "{}", told[place]);
    }
    let report: Value =
        serde_json::from_str(&sh("tollgate replay --rules rules --format json access.log")).unwrap();
    let denied: Vec<&str> = report["keys"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["denied"].as_u64() > Some(0))
        .filter_map(|row| row["key"].as_str())
        .collect();
    assert_eq!(denied, ["remote_address=203.0.113.66"]);
    assert!(sh("tollgate test gateway.test.yaml").contains("all passed"));
    let test = fs::read_to_string(folder.path().join("gateway.test.yaml")).unwrap();
    assert!(test.contains("expect: deny") && test.contains("expect: allow"), "{test}");
}
