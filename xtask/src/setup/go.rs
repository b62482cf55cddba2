//! Installs the Go client of the tests: a module, and the modules it needs, for a folder under `target/`.
//!
//! Debian has no package of it. It is compiled once here, so that the test need not.
//! Invariant: the tests look for it at the same place, `crates/server/tests/it/resp/clients.rs`.

use std::fs;

use anyhow::{Context as _, Result};

use crate::process::Invocation;
use crate::workspace;

/// The module, at a version that the tests are known to pass with and that Debian's Go compiles.
const MODULE: &str = "github.com/redis/go-redis/v9";
const VERSION: &str = "v9.17.3";
/// Where what asks for it goes, from the root; the module itself is kept where Go keeps all.
const FOLDER: &str = "target/go-client";

/// Installs it unless it is there.
pub(super) fn install() -> Result<()> {
    if is_there() {
        println!("{MODULE}@{VERSION} is there for {FOLDER}");
        return Ok(());
    }
    let hint = || format!("cannot install {MODULE}, which the tests need; it comes from Go's module proxy");
    let folder = workspace::root().join(FOLDER);
    fs::create_dir_all(&folder).with_context(hint)?;
    fs::write(folder.join("go.mod"), "module client\n\ngo 1.18\n").with_context(hint)?;
    // Before Go 1.20 there is no flag for the folder.
    let script = r#"cd "$1" && go get "$2@$3" && go build "$2""#;
    Invocation::new("sh", &["-c", script, "sh", FOLDER, MODULE, VERSION]).run().with_context(hint)
}

/// Whether it can be compiled without asking anybody.
fn is_there() -> bool {
    let script = r#"cd "$1" && grep -qF "$2 $3" go.mod && GOPROXY=off go build "$2""#;
    Invocation::new("sh", &["-c", script, "sh", FOLDER, MODULE, VERSION]).succeeds()
}
