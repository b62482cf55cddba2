//! The steps that run programs of `bench/`: `soak`, `soak-long`, and `bench-grpc`, `bench-http`,
//! `bench-resp`, `bench-redis` and `bench-gateway`, which compare Tollgate with its peers; and `bench-elastic`, whose program is
//! `elastic_run`.
//!
//! This file builds the programs beside the server, installs the peers from crates.io into the target
//! folder, and starts them. Comparisons are never part of CI, which has no quiet machine.

mod elastic_run;

use anyhow::{Context as _, Result};

use crate::process::Invocation;
use crate::{cargo_steps, setup, workspace};

/// Long enough that every bound is reached three times over.
const SOAK_SECONDS: &str = "20";
/// Millions of calls: as many as a service of a hundred a second gets in a day.
const LONG_SOAK_SECONDS: &str = "180";
/// The peer over RESP and HTTP, at the version that the published figures are of.
const THROTTLECRAB: (&str, &str) = ("throttlecrab-server", "0.4.40");

/// Callers make up keys, and the server must not grow. Takes the debug build that the tests have made.
pub(crate) fn soak() -> Result<()> {
    Invocation::new(&cargo_steps::binary("soak")?, &[SOAK_SECONDS]).run()
}

/// The same for longer, with the release build.
pub(crate) fn long_soak() -> Result<()> {
    build()?;
    start("release/soak", &[LONG_SOAK_SECONDS])
}

/// A call beside gRPC servers that always say OK. The arguments are `[SECONDS [TURNS [BEFORE]]]`, as for all;
/// BEFORE is another build of `tollgate`.
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

/// The gateway beside nginx and HAProxy, in front of the same upstream.
pub(crate) fn gateway(arguments: &[&str]) -> Result<()> {
    setup::install_peers()?;
    compare("gateway", arguments)
}

/// An elastic limit before an upstream of fixed capacity, and a crowd.
pub(crate) fn elastic(arguments: &[&str]) -> Result<()> {
    elastic_run::run(arguments)
}

fn compare(what: &str, arguments: &[&str]) -> Result<()> {
    build()?;
    start("release/compare", &[&[what], arguments].concat())
}

fn build() -> Result<()> {
    let arguments =
        ["build", "--release", "--locked", "-p", "tollgate-cli", "-p", "tollgate-bench", "--bins"];
    Invocation::new("cargo", &arguments).run()
}

/// Starts a program in the target folder.
fn start(program: &str, arguments: &[&str]) -> Result<()> {
    let program = workspace::target()?.join(program);
    let program = program.to_str().context("the path of the target folder is not UTF-8")?;
    Invocation::new(program, arguments).run()
}

/// Installs it unless it is there.
fn install_throttlecrab() -> Result<()> {
    let ((name, version), root) = (THROTTLECRAB, workspace::target()?.join("tools"));
    let root = root.to_str().context("the path of the target folder is not UTF-8")?;
    Invocation::new("cargo", &["install", "--locked", name, "--version", version, "--root", root]).run()
}
