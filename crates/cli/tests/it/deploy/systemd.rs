//! The systemd unit.
#![expect(clippy::panic, reason = "clippy knows the tests here, but not the functions that they share")]

use std::process::Command;

use tollgate_server::bounds::{CONNECTIONS_MAX, DESCRIPTORS_RESERVED, DRAIN_MAX};

use super::file;
use crate::serve::{ANY, Serving};

const UNIT: &str = "systemd/tollgate.service";

/// The value of a setting of the unit.
fn setting(name: &str) -> String {
    let text = file(UNIT);
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("the unit has no {name}")).to_owned()
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("tollgate.service");
    // It also looks whether the programs are there.
    let text = file(UNIT).replace("/usr/bin/tollgate", env!("CARGO_BIN_EXE_tollgate"));
    std::fs::write(&unit, text).unwrap();
    let checked = Command::new("systemd-analyze").arg("verify").arg(&unit).output();
    let checked = checked.expect("systemd-analyze is there; run: cargo xtask setup");
    let told = String::from_utf8_lossy(&checked.stderr);
    // It looks at the units of this machine besides, and may have something to say about those.
    assert!(!told.contains("tollgate.service"), "{told}");
}

#[test]
fn the_bounds_of_the_unit_are_those_of_the_server() {
    let connections: usize = setting("LimitNOFILE").parse().unwrap();
    assert!(connections >= CONNECTIONS_MAX + DESCRIPTORS_RESERVED, "{connections} are too few");
    let stop: u64 = setting("TimeoutStopSec").parse().unwrap();
    assert!(stop > DRAIN_MAX.as_secs(), "{stop} s are too few");
    assert_eq!(setting("RestartPreventExitStatus"), "64");
}

#[test]
fn the_server_starts_and_reads_its_rules_again_as_the_unit_says() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("rules")).unwrap();
    std::fs::write(folder.path().join("rules/rules.yaml"), "domain: d\n").unwrap();
    std::fs::write(folder.path().join("tollgate.yaml"), "log: { level: info }\n").unwrap();
    let (own, data) = (folder.path().to_str().unwrap(), folder.path().join("data"));
    let start = setting("ExecStart").replace("/etc/tollgate", own);
    assert_eq!(setting("StateDirectory"), "tollgate");
    let start = start.replace("/var/lib/tollgate", data.to_str().unwrap());
    let (program, args) = start.split_once(' ').unwrap();
    assert_eq!(program, "/usr/bin/tollgate");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    let mut server = Serving::run(command.args(args.split(' ')).args(ANY).env_clear(), folder.path());
    server.until("rules loaded");
    assert_eq!(setting("ExecReload"), "/bin/kill -HUP $MAINPID");
    server.signal("HUP");
    server.until("rules loaded");
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}
