//! Real servers, started by the test that needs them.
//!
//! [`RedisServer`] runs `redis-server` on a free port in a folder of its own
//! and ends it when dropped; [`RedisCluster`] and [`RedisSentinel`] are made of
//! several. Nothing is shared between tests, so that they run side by side.
//! [`pass_on`] runs tests once more on servers that are not Debian's.
//!
//! Invariant: whatever is waited for is asked for again and again until a
//! deadline, and nothing is waited for blindly.
//!
//! Deliberately not here: clients. Tests of ours ask through `redis-cli`.

mod cluster;
mod others;
mod sentinel;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub use cluster::RedisCluster;
pub use others::{OtherServer, pass_on};
pub use sentinel::RedisSentinel;

/// A server starts in some milliseconds, on a machine that builds in some seconds.
const START_MAX: Duration = Duration::from_secs(20);
/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(5);
/// Another process may take the port between finding and using it.
const START_TRIES: usize = 5;

/// Asks until `condition` holds.
///
/// # Panics
/// If it does not within `most`, saying `what` was waited for.
#[expect(clippy::disallowed_methods, reason = "polls a condition of another process, up to a deadline")]
#[expect(clippy::panic, reason = "a test that cannot go on says so by failing")]
pub fn wait_until(what: &str, most: Duration, mut condition: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !condition() {
        if begin.elapsed() > most {
            panic!("{what}: not within {most:?}");
        }
        std::thread::sleep(POLL);
    }
}

/// A port that nobody listens on.
///
/// # Panics
/// If the system has none.
#[expect(clippy::expect_used, reason = "a test that cannot go on says so by failing")]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// A running `redis-server`.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
    arguments: Vec<String>,
}

impl RedisServer {
    /// A server that keeps nothing on disk.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with further arguments, such as `["--maxmemory", "2mb"]`.
    ///
    /// # Panics
    /// If there is no `redis-server`, or it does not start.
    #[expect(clippy::panic, reason = "a test that cannot go on says so by failing")]
    #[expect(clippy::expect_used, reason = "a test that cannot go on says so by failing")]
    pub fn start_with(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the server");
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        for _ in 0..START_TRIES {
            let port = free_port();
            let mut child = launch(port, folder.path(), &arguments);
            if answers(port, &mut child) {
                return Self { child, port, folder, arguments };
            }
        }
        panic!("redis-server does not start; run `cargo xtask setup`, or see {:?}", folder.keep());
    }

    /// Where it listens.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// As `--store` takes it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A folder that goes when the server goes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What `redis-cli` says to this.
    pub fn cli(&self, arguments: &[&str]) -> String {
        cli(self.port, arguments)
    }

    /// It stops where it stands, and answers nothing.
    pub fn freeze(&self) {
        signal("-STOP", self.child.id());
    }

    /// It goes on where it stood.
    pub fn thaw(&self) {
        signal("-CONT", self.child.id());
    }

    /// It dies at once.
    pub fn kill(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }

    /// It starts again on the same port, with what it kept on disk if anything.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.kill();
        self.child = launch(self.port, self.folder.path(), &self.arguments);
        assert!(answers(self.port, &mut self.child), "redis-server does not start again");
    }

    /// It starts again and need not answer yet.
    pub fn restart_unready(&mut self) {
        self.kill();
        self.child = launch(self.port, self.folder.path(), &self.arguments);
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

#[expect(clippy::expect_used, reason = "a test that cannot go on says so by failing")]
fn launch(port: u16, folder: &Path, arguments: &[String]) -> Child {
    let log: PathBuf = folder.join("log");
    let text = port.to_string();
    Command::new(others::program())
        .args(["--port", &text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .arg("--logfile")
        .arg(log)
        .arg("--dir")
        .arg(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is not installed; run `cargo xtask setup`")
}

/// Whether it comes to answer, in any words, before it ends.
fn answers(port: u16, child: &mut Child) -> bool {
    let mut is_alive = true;
    wait_until("redis-server answers", START_MAX, || {
        is_alive = matches!(child.try_wait(), Ok(None));
        !is_alive || ping(port).is_some_and(|answer| !answer.starts_with("-LOADING"))
    });
    is_alive
}

fn ping(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(b"PING\r\n").ok()?;
    let mut answer = [0; 64];
    let length = stream.read(&mut answer).ok()?;
    Some(String::from_utf8_lossy(answer.get(..length)?).into_owned()).filter(|answer| !answer.is_empty())
}

#[expect(clippy::expect_used, reason = "a test that cannot go on says so by failing")]
fn cli(port: u16, arguments: &[&str]) -> String {
    let text = port.to_string();
    let output = Command::new("redis-cli")
        .args(["-h", "127.0.0.1", "-p", &text, "--no-auth-warning"])
        .args(arguments)
        .output()
        .expect("redis-cli is not installed; run `cargo xtask setup`");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn signal(name: &str, process: u32) {
    let _sent = Command::new("kill").args([name, &process.to_string()]).status();
}
