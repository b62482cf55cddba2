//! The binary `tollgate`, serving.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::http;
use crate::patience::{DEADLINE, until};

/// A running server; killed with this value.
pub(crate) struct Tollgate {
    child: Child,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    log: ServerLog,
}

/// What it has said so far.
type ServerLog = Arc<Mutex<String>>;

impl Tollgate {
    /// Serves the rules at `rules` with these settings, gRPC on `grpc`, and waits until it is ready.
    pub(crate) fn start(rules: &Path, settings: &[(&str, &str)], grpc: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .args(["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--grpc", grpc, "--rules"])
            .arg(rules)
            .env_clear()
            // History and counters would lie in the folder that the tests are run in.
            .envs([("TOLLGATE_HISTORY", "false"), ("TOLLGATE_SNAPSHOTS", "false")])
            .envs(settings.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (lines, log) = follow(&mut child);
        let grpc = listens(&lines, "gRPC");
        let http = listens(&lines, "HTTP");
        let server = Self { child, grpc, http, log };
        until("Tollgate is ready", || {
            let health = server.health();
            (health.contains("\"healthy\":true") && health.contains("\"loaded\":true")).then_some(())
        });
        server
    }

    /// What it says about itself.
    pub(crate) fn health(&self) -> String {
        http::get(self.http, "/healthcheck?verbose", &[]).unwrap().body
    }

    /// Whether its log has `text`.
    pub(crate) fn said(&self, text: &str) -> bool {
        self.count(text) > 0
    }

    /// How often its log has `text`.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.log.lock().unwrap().matches(text).count()
    }

    /// Asks it to stop, as Kubernetes and systemd do, and waits for the end.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        let sent = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(sent.success(), "the signal was not sent: {sent}");
        until("Tollgate ends", || self.child.try_wait().unwrap()).0
    }
}

impl Drop for Tollgate {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The lines of its log, also passed on to whoever reads a failed test.
fn follow(child: &mut Child) -> (Receiver<String>, ServerLog) {
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let (sender, lines) = mpsc::channel();
    let log = ServerLog::default();
    let own = Arc::clone(&log);
    thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            eprintln!("tollgate: {line}");
            own.lock().unwrap().push_str(&line);
            // Nobody listens after the start.
            drop(sender.send(line));
        }
    });
    (lines, log)
}

/// Where it says that it listens.
fn listens(log: &Receiver<String>, what: &str) -> SocketAddr {
    loop {
        let line =
            log.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("Tollgate does not listen for {what}"));
        let Some((before, after)) = line.split_once("listens on ") else { continue };
        if before.contains(what) {
            let address = after.trim_end_matches(|c: char| !c.is_ascii_digit());
            return address.parse().unwrap_or_else(|_| panic!("no address in {line}"));
        }
    }
}
