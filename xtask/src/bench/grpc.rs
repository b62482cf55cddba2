//! On demand: what a call costs beside a server that always says OK, in one run.
//!
//! Starts `rlsnull`, a tonic server without any limits, and `tollgate` with a real rule set, loads
//! one after the other with `rlsload`, several times in turn, and prints the CPU time per call of
//! both. The tools lie in `../shared/tools`, outside of this repository, so that CI cannot run this.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use anyhow::{Context as _, Result, ensure};

use super::under_load::{Server, free_address, number};
use crate::process::Invocation;
use crate::workspace;

/// Where the tools lie, from the root.
const TOOLS: &str = "../shared/tools";
/// Where they are built, in the target folder.
const TOOLS_TARGET: &str = "tools";
/// A rule set as people have them, from the root; the load meets a token bucket and a sliding counter
/// together, in a domain with plans and wildcards.
const RULES: &str = "examples";
/// Each server is measured so often; what counts is the least, which others disturbed least.
const ROUNDS: usize = 3;

/// Loads both and prints what a call takes.
pub(crate) fn run() -> Result<()> {
    build()?;
    let target = workspace::target()?;
    let tool = |name: &str| target.join(TOOLS_TARGET).join("release").join(name);
    let mut null = Command::new(tool("rlsnull"));
    let address = free_address()?;
    null.args([address.as_str(), "2"]);
    let null = Server::start("rlsnull", null, address)?;
    let mut tollgate = Command::new(target.join("release/tollgate"));
    let address = free_address()?;
    tollgate.args(["serve", "--grpc", &address, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    tollgate.arg("--rules").arg(workspace::root().join(RULES));
    tollgate.arg("--data").arg(target.join(TOOLS_TARGET).join("tollgate-data")).stderr(Stdio::null());
    let tollgate = Server::start("tollgate", tollgate, address)?;
    let (mut best_null, mut best_tollgate) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        best_null = best_null.min(load(&tool("rlsload"), &null)?);
        best_tollgate = best_tollgate.min(load(&tool("rlsload"), &tollgate)?);
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

fn build() -> Result<()> {
    let tools = workspace::root().join(TOOLS);
    ensure!(tools.is_dir(), "there is no {TOOLS}; this step needs rlsnull and rlsload from there");
    let target = workspace::target()?.join(TOOLS_TARGET);
    let target = target.to_str().context("the path of the target folder is not UTF-8")?;
    for tool in ["rlsnull", "rlsload"] {
        let manifest = copied(&tools.join(tool), &Path::new(target).join("src").join(tool))?;
        let manifest = manifest.to_str().context("the path of the target folder is not UTF-8")?;
        let arguments = ["build", "--release", "--manifest-path", manifest, "--target-dir", target];
        Invocation::new("cargo", &arguments).run()?;
    }
    Invocation::new("cargo", &["build", "--release", "--locked", "-p", "tollgate-cli"]).run()
}

/// Copies a tool to where cargo may write a lock file, and into no workspace but its own; its manifest
/// there.
fn copied(from: &Path, to: &Path) -> Result<PathBuf> {
    let say = || format!("cannot copy {} to {}", from.display(), to.display());
    fs::create_dir_all(to.join("src")).with_context(say)?;
    for entry in fs::read_dir(from.join("src")).with_context(say)? {
        let entry = entry.with_context(say)?;
        let text = fs::read(entry.path()).with_context(say)?;
        write_changed(&to.join("src").join(entry.file_name()), &text).with_context(say)?;
    }
    let text = fs::read_to_string(from.join("Cargo.toml")).with_context(say)?;
    let manifest = to.join("Cargo.toml");
    write_changed(&manifest, format!("{text}\n[workspace]\n").as_bytes()).with_context(say)?;
    Ok(manifest)
}

/// Writes a file unless it is so already, which would have cargo build it anew.
fn write_changed(path: &Path, text: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == text) { Ok(()) } else { fs::write(path, text) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_copied_with_its_sources_and_is_a_workspace_of_its_own() {
        let folder = workspace::root().join("target/tmp/copied");
        drop(fs::remove_dir_all(&folder));
        let from = folder.join("from");
        fs::create_dir_all(from.join("src")).unwrap();
        fs::write(from.join("Cargo.toml"), "[package]\n").unwrap();
        fs::write(from.join("src/main.rs"), "fn main() {}\n").unwrap();
        let manifest = copied(&from, &folder.join("to")).unwrap();
        assert_eq!(fs::read_to_string(&manifest).unwrap(), "[package]\n\n[workspace]\n");
        assert_eq!(fs::read_to_string(folder.join("to/src/main.rs")).unwrap(), "fn main() {}\n");
        let error = copied(&folder.join("none"), &folder.join("to")).unwrap_err().to_string();
        assert!(error.starts_with("cannot copy "), "{error}");
    }
}
