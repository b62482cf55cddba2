//! On demand: what a call costs beside a server that always says OK, in one run.
//!
//! Starts `rlsnull`, a tonic server without any limits, and `tollgate` with a real rule set, loads
//! one after the other with `rlsload`, several times in turn, and prints the CPU time per call of
//! both. The tools lie in `../shared/tools`, outside of this repository, so that CI cannot run this.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::tools;
use super::under_load::{Server, free_address, number};
use crate::process::Invocation;
use crate::workspace;

/// A rule set as people have them, from the root; the load meets a token bucket and a sliding counter
/// together, in a domain with plans and wildcards.
const RULES: &str = "examples";
/// Each server is measured so often; what counts is the least, which others disturbed least.
const ROUNDS: usize = 3;

/// Loads both and prints what a call takes.
pub(crate) fn run() -> Result<()> {
    let [rlsnull, rlsload] = ["rlsnull", "rlsload"].map(tools::tool);
    let (rlsnull, rlsload, program) = (rlsnull?, rlsload?, tools::tollgate()?);
    let mut null = Command::new(rlsnull);
    let address = free_address()?;
    null.args([address.as_str(), "2"]);
    let null = Server::start("rlsnull", null, address)?;
    let mut tollgate = Command::new(program);
    let address = free_address()?;
    tollgate.args(["serve", "--grpc", &address, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    tollgate.arg("--rules").arg(workspace::root().join(RULES));
    tollgate.arg("--data").arg(tools::folder()?.join("tollgate-data")).stderr(Stdio::null());
    let tollgate = Server::start("tollgate", tollgate, address)?;
    let (mut best_null, mut best_tollgate) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        best_null = best_null.min(load(&rlsload, &null)?);
        best_tollgate = best_tollgate.min(load(&rlsload, &tollgate)?);
    }
    println!(
        "CPU per call, the least of {ROUNDS}: rlsnull {best_null:.2} µs, tollgate {best_tollgate:.2} µs"
    );
    println!("tollgate takes {:.2} times as much", ratio(best_tollgate, best_null));
    Ok(())
}

#[expect(clippy::float_arithmetic, reason = "for people to read")]
fn ratio(one: f64, other: f64) -> f64 {
    one / other
}

/// Loads a server and tells its CPU time per call in microseconds.
fn load(rlsload: &Path, server: &Server) -> Result<f64> {
    let pid = server.id();
    let rlsload = rlsload.to_str().context("the path of the target folder is not UTF-8")?;
    let arguments = [
        "--addr",
        server.address(),
        "--server-pid",
        &pid,
        "--json",
        "--domain",
        "api",
        "--entry",
        "plan=pro",
        "--key",
        "user_id",
        "--keys",
        "1000000",
        "--conns",
        "4",
        "--inflight",
        "32",
        "--seconds",
        "5",
        "--warmup",
        "1",
    ];
    let json = Invocation::new(rlsload, &arguments).capture()?;
    println!("{:<9} {}", server.name(), json.trim());
    number(&json, "server_us").with_context(|| format!("rlsload does not tell the CPU per call: {json}"))
}
