//! On demand: what a call costs beside a server that always says OK, in one run.
//!
//! Starts `rlsnull`, a tonic server without any limits, and `tollgate` with a real rule set, loads
//! one after the other with `rlsload`, several times in turn, and prints the CPU time per call of
//! both. The tools lie in `../shared/tools`, outside of this repository, so that CI cannot run this.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::process::Invocation;
use crate::workspace;

/// Where the tools lie, from the root.
const TOOLS: &str = "../shared/tools";
/// Where they are built, in the target folder.
const TOOLS_TARGET: &str = "tools";
/// A rule set as people have them, from the root; the load meets a token bucket and a sliding counter
/// together, in a domain with plans and wildcards.
const RULES: &str = "examples";
const NULL_ADDRESS: &str = "127.0.0.1:18099";
const TOLLGATE_ADDRESS: &str = "127.0.0.1:18098";
/// Each server is measured so often; what counts is the least, which others disturbed least.
const ROUNDS: usize = 3;
/// How often a server that starts is looked at.
const LOOKS_MAX: usize = 500;

/// Loads both and prints what a call takes.
pub(crate) fn run() -> Result<()> {
    build()?;
    let target = workspace::target()?;
    let tool = |name: &str| target.join(TOOLS_TARGET).join("release").join(name);
    let mut null = Command::new(tool("rlsnull"));
    null.args([NULL_ADDRESS, "2"]);
    let null = Server::start("rlsnull", null, NULL_ADDRESS)?;
    let mut tollgate = Command::new(target.join("release/tollgate"));
    tollgate.args(["serve", "--grpc", TOLLGATE_ADDRESS, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    tollgate.arg("--rules").arg(workspace::root().join(RULES)).stderr(Stdio::null());
    let tollgate = Server::start("tollgate", tollgate, TOLLGATE_ADDRESS)?;
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
        fs::write(to.join("src").join(entry.file_name()), text).with_context(say)?;
    }
    let text = fs::read_to_string(from.join("Cargo.toml")).with_context(say)?;
    let manifest = to.join("Cargo.toml");
    fs::write(&manifest, format!("{text}\n[workspace]\n")).with_context(say)?;
    Ok(manifest)
}

/// A server under load; killed with this value.
struct Server {
    name: &'static str,
    address: &'static str,
    child: Child,
}

impl Server {
    fn start(name: &'static str, mut command: Command, address: &'static str) -> Result<Self> {
        ensure!(TcpStream::connect(address).is_err(), "something listens on {address}; end it first");
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let mut server = Self { name, address, child };
        for _ in 0..LOOKS_MAX {
            if TcpStream::connect(address).is_ok() {
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait().context("cannot look at a server")? {
                bail!("{name} ended with {status}");
            }
            Invocation::new("sleep", &["0.02"]).capture()?;
        }
        bail!("{name} does not listen on {address}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Loads a server and tells its CPU time per call in microseconds.
fn load(rlsload: &Path, server: &Server) -> Result<f64> {
    let pid = server.child.id().to_string();
    let rlsload = rlsload.to_str().context("the path of the target folder is not UTF-8")?;
    let arguments = [
        "--addr",
        server.address,
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
    println!("{:<9} {}", server.name, json.trim());
    number(&json, "server_us").with_context(|| format!("rlsload does not tell the CPU per call: {json}"))
}

/// A number of a flat JSON object.
fn number(json: &str, name: &str) -> Option<f64> {
    let (_, after) = json.split_once(&format!("\"{name}\":"))?;
    after.split([',', '}']).next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_name() {
        let json = r#"{"a":1.5,"b": 2 ,"server_us":7.25}"#;
        assert_eq!(number(json, "a"), Some(1.5));
        assert_eq!(number(json, "b"), Some(2.0));
        assert_eq!(number(json, "server_us"), Some(7.25));
        assert_eq!(number(json, "c"), None);
    }

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
