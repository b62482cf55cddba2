//! The steps that are one cargo command each: `fmt`, `clippy`, `doc`, `test`; and `dashboard`, which is two commands.
//!
//! Called by the table in `ci`. All but `fmt`, which builds nothing, pass `--locked`, so that
//! Cargo.lock must be true. Warnings are denied on the command line and not with RUSTFLAGS, which
//! would rebuild every dependency, nor in the source, where a new compiler would break a checkout.

use anyhow::Result;

use crate::process::Invocation;
use crate::workspace;

/// The formatting is rustfmt's.
pub(crate) fn fmt() -> Result<()> {
    Invocation::new("cargo", &["fmt", "--all", "--check"]).run()
}

/// Clippy has no warning, in tests and benches too.
pub(crate) fn clippy() -> Result<()> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    Invocation::new("cargo", &arguments).run()
}

/// The documentation builds without a warning, so no link in it is dead.
pub(crate) fn doc() -> Result<()> {
    Invocation {
        settings: &[("RUSTDOCFLAGS", "-D warnings")],
        program: "cargo",
        arguments: &["doc", "--workspace", "--no-deps", "--locked"],
    }
    .run()
}

/// All tests, the examples in the documentation included. Many of them wait for servers and timeouts, so
/// that twice as many as there are cores run at once.
pub(crate) fn test() -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Invocation {
        settings: &[("RUST_TEST_THREADS", &(2 * cores).to_string())],
        program: "cargo",
        arguments: &["test", "--workspace", "--locked"],
    }
    .run()
}

/// The dashboard does in a browser what it should. Its tests start the binary that this builds.
pub(crate) fn dashboard() -> Result<()> {
    let binary = binary("tollgate")?;
    Invocation {
        settings: &[("TOLLGATE_BIN", &binary)],
        program: "npm",
        arguments: &["--prefix", "dashboard", "test"],
    }
    .run()
}

/// The path of a program of this workspace, as the tests have built it: alone, cargo would build much
/// of it anew with fewer features.
pub(crate) fn binary(name: &str) -> Result<String> {
    Invocation::new("cargo", &["build", "--workspace", "--bins", "--tests", "--locked"]).run()?;
    Ok(workspace::target()?.join("debug").join(name).to_string_lossy().into_owned())
}
