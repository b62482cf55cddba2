//! The steps `bench-grpc`, `bench-http`, `bench-resp` and `bench-redis`: Tollgate beside its peers.
//!
//! The program that loads and compares is `bench/src/bin/compare.rs`; this file builds it beside the
//! server, installs the peers from crates.io into the target folder, and starts it. Never part of CI,
//! which has no quiet machine.

use anyhow::{Context as _, Result};

use crate::process::Invocation;
use crate::workspace;

/// The peer over RESP and HTTP, at the version that the published figures are of.
const THROTTLECRAB: (&str, &str) = ("throttlecrab-server", "0.4.40");

/// A call beside gRPC servers that always say OK. The arguments are `[SECONDS [TURNS]]`, as for all.
pub(crate) fn grpc(arguments: &[&str]) -> Result<()> {
    compare("grpc", arguments)
}

/// `/v1/check` beside throttlecrab-server.
pub(crate) fn http(arguments: &[&str]) -> Result<()> {
    install_throttlecrab()?;
    compare("http", arguments)
}

/// Commands over RESP beside redis-server and throttlecrab-server.
pub(crate) fn resp(arguments: &[&str]) -> Result<()> {
    install_throttlecrab()?;
    compare("resp", arguments)
}

/// Decisions on Redis beside redis-benchmark.
pub(crate) fn redis(arguments: &[&str]) -> Result<()> {
    compare("redis", arguments)
}

fn compare(what: &str, arguments: &[&str]) -> Result<()> {
    let build = ["build", "--release", "--locked", "-p", "tollgate-cli", "-p", "tollgate-bench", "--bins"];
    Invocation::new("cargo", &build).run()?;
    let program = workspace::target()?.join("release/compare");
    let program = program.to_str().context("the path of the target folder is not UTF-8")?;
    Invocation::new(program, &[&[what], arguments].concat()).run()
}

/// Installs it unless it is there.
fn install_throttlecrab() -> Result<()> {
    let ((name, version), root) = (THROTTLECRAB, workspace::target()?.join("tools"));
    let root = root.to_str().context("the path of the target folder is not UTF-8")?;
    Invocation::new("cargo", &["install", "--locked", name, "--version", version, "--root", root]).run()
}
