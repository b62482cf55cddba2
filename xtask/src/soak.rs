//! The step `soak`, and its long form: callers make up keys, and the server must not grow.
//!
//! The program is `bench/src/bin/soak.rs`; this file builds it beside the server and starts it.
//! The short form takes the debug build that the tests have made already.

use anyhow::{Context as _, Result};

use crate::process::Invocation;
use crate::workspace;

/// Long enough that every bound is reached three times over.
const SHORT_SECONDS: &str = "20";
/// Millions of calls: as many as a service of a hundred a second gets in a day.
const LONG_SECONDS: &str = "180";

/// What CI runs.
pub(crate) fn short() -> Result<()> {
    // With the tests, or cargo would build much of it anew with fewer features.
    Invocation::new("cargo", &["build", "--workspace", "--bins", "--tests", "--locked"]).run()?;
    soak("debug", SHORT_SECONDS)
}

/// What one runs before a release.
pub(crate) fn long() -> Result<()> {
    let arguments = ["build", "--release", "--locked", "-p", "tollgate-cli", "-p", "tollgate-bench"];
    Invocation::new("cargo", &arguments).run()?;
    soak("release", LONG_SECONDS)
}

fn soak(profile: &str, seconds: &str) -> Result<()> {
    let program = workspace::target()?.join(profile).join("soak");
    let program = program.to_str().context("the path of the target folder is not UTF-8")?;
    Invocation::new(program, &[seconds]).run()
}
