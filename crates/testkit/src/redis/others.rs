//! The same tests on other servers than Debian's.
//!
//! A test binary starts itself again, with the name of the other program in a
//! variable that [`program`] reads.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which program the tests start.
const PROGRAM: &str = "TOLLGATE_TEST_REDIS_SERVER";

/// A server that people use besides the one that Debian has; `cargo xtask setup`
/// puts them there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherServer {
    /// The oldest Redis that is still common.
    Redis6,
    /// The newest Valkey.
    Valkey,
}

impl OtherServer {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Redis6, Self::Valkey];

    /// Where it is installed, below `target/`, and what it is called there.
    const fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Redis6 => ("redis-6", "redis-server"),
            Self::Valkey => ("valkey", "valkey-server"),
        }
    }
}

/// The program that tests start.
pub(super) fn program() -> OsString {
    std::env::var_os(PROGRAM).unwrap_or_else(|| "redis-server".into())
}

/// Runs the tests of this binary whose names contain one of `tests` once more,
/// on another server, without those that contain one of `but`.
///
/// # Panics
/// If the server is not installed, or a test fails on it.
#[expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so by failing")]
pub fn pass_on(server: OtherServer, tests: &[&str], but: &[&str]) {
    let (folder, name) = server.place();
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(folder);
    let Some(program) = find(&target, name) else {
        panic!("there is no {name} in {}; run `cargo xtask setup`", target.display());
    };
    let binary = std::env::current_exe().expect("a test knows its binary");
    let but = but.iter().flat_map(|but| ["--skip", but]);
    let run = Command::new(binary).args(tests).args(but).env(PROGRAM, program).output();
    let run = run.expect("a test can run itself");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "on {server:?}:\n{said}");
    assert!(!said.contains("running 0 tests"), "no test is called so: {tests:?}");
}

/// The file of this name somewhere below a folder.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    entries.into_iter().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            return find(&path, name);
        }
        (path.is_file() && entry.file_name() == name).then_some(path)
    })
}
