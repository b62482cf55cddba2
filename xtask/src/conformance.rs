//! The step `conformance`: h2spec on the gRPC listener and the gateway.
//!
//! Only on demand: it comes through the Go module proxy. docs/decisions/012-h2spec.md explains each case that
//! fails, and this step fails if another one does.
//!
//! Invariant: what may fail is named case by case, so that a new failure is never taken for an old one.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::process::{Invocation, free_ports};
use crate::{cargo_steps, workspace};

/// The program, at the version whose cases the page explains.
const H2SPEC: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";
/// Where it goes, from the root.
const FOLDER: &str = "target/h2spec";
/// A case counts as failed if it fails in so many runs: some of h2spec's cases fail whenever an answer is
/// faster than the frame that they send after the request.
const RUNS: u32 = 4;
/// How often a server that starts is tried, and how long each time waits.
const TRIES: u32 = 200;
const PAUSE: &str = "0.1";

/// Failures of the gRPC listener.
const GRPC: &[&str] = &[
    "2: Sends a WINDOW_UPDATE frame on half-closed (remote) stream",
    "3: Sends a PRIORITY frame on half-closed (remote) stream",
    "1: Sends HEADERS frames that causes their advertised concurrent stream limit to be exceeded",
];
/// Failures of the gateway.
const GATEWAY: &[&str] = &["2: Sends invalid connection preface"];

/// Runs all cases against both listeners.
pub(crate) fn run() -> Result<()> {
    if !Invocation::new("go", &["version"]).succeeds() {
        println!("there is no go, and so no h2spec; install golang-go to run it");
        return Ok(());
    }
    let folder = workspace::root().join(FOLDER);
    let h2spec = folder.join("h2spec");
    if !h2spec.is_file() {
        let path = folder.to_str().context("the path of the target folder is not UTF-8")?;
        Invocation { settings: &[("GOBIN", path)], program: "go", arguments: &["install", H2SPEC] }.run()?;
    }
    let binary = cargo_steps::binary("tollgate")?;
    let [grpc, gateway, upstream] = free_ports()?;
    let _nginx = nginx(&folder, upstream)?;
    let _tollgate = tollgate(&folder, &binary, [grpc, gateway, upstream])?;
    [("gRPC", grpc, GRPC), ("gateway", gateway, GATEWAY)]
        .into_iter()
        .try_for_each(|(name, port, expected)| check(name, &h2spec, (port, expected)))
}

/// Runs all cases against one port; fails if one fails that should not, each time.
fn check(name: &str, h2spec: &Path, (port, expected): (u16, &[&str])) -> Result<()> {
    let mut unexpected: Option<Vec<String>> = None;
    for _ in 0..RUNS {
        let failed = failures(name, h2spec, port)?;
        let is_new = |case: &String| !expected.contains(&case.as_str());
        let is_again = |case: &String| unexpected.as_ref().is_none_or(|earlier| earlier.contains(case));
        let still: Vec<String> = failed.into_iter().filter(is_new).filter(is_again).collect();
        if still.is_empty() {
            return Ok(());
        }
        println!("{name}: {still:?} failed, which may be a matter of who is faster");
        unexpected = Some(still);
    }
    bail!("{name} fails {unexpected:?} each time, which docs/decisions/012-h2spec.md does not explain")
}

/// The cases that fail in one run.
fn failures(name: &str, h2spec: &Path, port: u16) -> Result<Vec<String>> {
    let run = Command::new(h2spec).args(["-h", "127.0.0.1", "-o", "5", "-p", &port.to_string()]).output()?;
    let said = String::from_utf8_lossy(&run.stdout);
    let (_, failures) = said.split_once("Failures:").unwrap_or_default();
    let summary = said.lines().rev().find(|line| line.contains(" tests, ")).unwrap_or("h2spec says nothing");
    println!("{name}: {summary}");
    ensure!(summary.contains(" passed"), "h2spec did not run to its end on {name}:\n{said}");
    let cases = failures.lines().filter_map(|line| line.trim().strip_prefix("× "));
    Ok(cases.map(str::to_owned).collect())
}

/// A process that is killed with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn nginx(folder: &Path, port: u16) -> Result<Running> {
    let root = folder.display();
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = kinds.map(|kind| format!("{kind}_temp_path {root}/{kind};")).join(" ");
    let configuration = format!(
        "events {{}}\nhttp {{ access_log off; {temporary}\n\
         server {{ listen 127.0.0.1:{port}; location / {{ return 200 hello; }} }} }}\n"
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, configuration)?;
    let globals = format!("daemon off; master_process off; pid {root}/nginx.pid;");
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder).arg("-c").arg(file).args(["-e", "stderr", "-g", &globals]);
    started(command, port)
}

fn tollgate(folder: &Path, binary: &str, [grpc, gateway, upstream]: [u16; 3]) -> Result<Running> {
    let mut command = Command::new(binary);
    command.current_dir(folder).args(["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.args(["--grpc", &format!("127.0.0.1:{grpc}"), "--gateway", &format!("127.0.0.1:{gateway}")]);
    command.args(["--upstream", &format!("http://127.0.0.1:{upstream}")]);
    started(command, gateway)
}

/// Starts a server, silent, and waits until it listens.
fn started(mut command: Command, port: u16) -> Result<Running> {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let running = Running(spawned.with_context(|| format!("cannot start {command:?}"))?);
    let address = ([127, 0, 0, 1], port).into();
    for _ in 0..TRIES {
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            return Ok(running);
        }
        Invocation::new("sleep", &[PAUSE]).capture()?;
    }
    bail!("{command:?} does not listen; start it by hand to see why")
}
