//! A server as a child process: started, awaited, killed at the end.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tollgate_testkit::redis::{free_port, wait_until};

/// On a busy machine a server needs some seconds until it listens.
const START_MAX: Duration = Duration::from_secs(20);

/// A server; killed with this value.
pub(super) struct ServerProcess {
    address: String,
    child: Child,
}

impl ServerProcess {
    /// Starts it, silent, and waits until it listens.
    pub(super) fn start(mut command: Command, address: String) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let mut server = Self { address, child };
        let mut is_alive = true;
        wait_until("a server listens", START_MAX, || {
            is_alive = matches!(server.child.try_wait(), Ok(None));
            !is_alive || TcpStream::connect(&server.address).is_ok()
        });
        ensure!(is_alive, "{command:?} ended at once; start it by hand to see why");
        Ok(server)
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The core of the servers that are compared over HTTP and RESP.
const SERVER_CORE: &str = "0";
/// The core of the load.
const LOAD_CORE: &str = "1";

/// Servers that do nothing while this value lives.
pub(super) struct HeldServers(Vec<Pid>);

impl HeldServers {
    pub(super) fn hold(pids: impl IntoIterator<Item = u32>) -> Result<Self> {
        let mut held = Self(Vec::new());
        for pid in pids {
            let pid = Pid::from_raw(i32::try_from(pid)?).context("no process has the id 0")?;
            kill_process(pid, Signal::STOP)?;
            held.0.push(pid);
        }
        Ok(held)
    }
}

impl Drop for HeldServers {
    fn drop(&mut self) {
        for pid in &self.0 {
            // One that has ended is missed by its next turn.
            _ = kill_process(*pid, Signal::CONT);
        }
    }
}

/// Keeps this process, which makes the load, and the servers that it starts from each other, while this value
/// lives: each has one core. Else a server with two threads takes the time of the load that is to measure it,
/// and what is measured is whoever gets more of the machine.
pub(super) struct CoreSplit(());

impl CoreSplit {
    pub(super) fn new() -> Result<Self> {
        set_cores(std::process::id(), LOAD_CORE)?;
        Ok(Self(()))
    }

    /// A program on the core of the servers; `taskset` becomes the program, so that its process is the server's.
    pub(super) fn server(&self, program: &Path) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", SERVER_CORE]).arg(program);
        command
    }

    /// Moves a server that runs already to the core of the servers.
    pub(super) fn move_server(&self, pid: u32) -> Result<()> {
        set_cores(pid, SERVER_CORE)
    }
}

impl Drop for CoreSplit {
    fn drop(&mut self) {
        // What is measured next says so if it needs a core of its own.
        drop(set_cores(std::process::id(), "0-1023"));
    }
}

/// Sets the cores of all threads of a process.
fn set_cores(pid: u32, cores: &str) -> Result<()> {
    let mut command = Command::new("taskset");
    command.args(["-a", "-p", "-c", cores, &pid.to_string()]).stdout(Stdio::null());
    let status = command.status().context("cannot start taskset, which is part of util-linux")?;
    ensure!(status.success(), "{command:?} failed; this section needs two cores");
    Ok(())
}

/// An address on loopback on which nobody listens.
pub(super) fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

/// A program of this workspace, built beside this one.
pub(super) fn program(name: &str) -> Result<PathBuf> {
    existing(folder()?.join(name), "cargo build --release -p tollgate-cli -p tollgate-bench")
}

/// A program that `cargo xtask` has installed for comparisons.
pub(super) fn peer(name: &str) -> Result<PathBuf> {
    let target = folder()?.parent().context("it lies in a target folder")?.join("tools/bin").join(name);
    existing(target, "cargo xtask bench --only resp")
}

/// The program that compares libraries, which `cargo xtask` builds in a workspace of its own.
pub(super) fn peers_program() -> Result<PathBuf> {
    let target = folder()?.parent().context("it lies in a target folder")?.to_owned();
    existing(target.join("peers/release/tollgate-peers"), "cargo xtask bench --only in-process")
}

fn folder() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program lies")?;
    own.parent().map(Path::to_owned).context("a program lies in a folder")
}

fn existing(path: PathBuf, command: &str) -> Result<PathBuf> {
    ensure!(path.is_file(), "there is no {}; run: {command}", path.display());
    Ok(path)
}
