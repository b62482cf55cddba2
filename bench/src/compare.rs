//! Tollgate beside its peers, under the same load in one run: `cargo xtask bench-grpc` and its siblings.
//!
//! Servers are started on loopback, loaded one after the other for several turns by
//! `tollgate_load`, and shown as medians in one table. Every limit allows everything, so that each
//! request writes.
//!
//! | module | what it holds |
//! |---|---|
//! | `protocols` | who is compared over gRPC, HTTP and RESP |
//! | `gateway` | proxies with limits beside each other, in front of one upstream |
//! | `redis` | decisions on Redis beside `redis-benchmark` with the same script |
//! | `empty_servers` | gRPC servers that always say OK, to compare with |
//! | `server_process` | a server as a child process |
//! | `medians` | the table |
//!
//! Deliberately not here: building and installing, which `cargo xtask` does.

pub mod empty_servers;
mod gateway;
mod medians;
mod protocols;
mod redis;
mod server_process;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tollgate_load::plan::{KeySpace, LoadLoop, LoadRequest, Plan, RunLength};
use tollgate_load::transport::ConnectOptions;
use tollgate_load::{LoadReport, run as load};

use medians::{Contest, LoadFigures};
use server_process::program;

/// A million users.
const KEYS: KeySpace = KeySpace { count: 1_000_000, zipf: None };

/// How long and how often each server is loaded.
#[derive(Debug, Clone)]
pub struct Turns {
    /// Seconds of each load.
    pub seconds: u64,
    /// How often each server has its turn.
    pub count: usize,
    /// Another build of `tollgate`, to be compared as well: what a change did shows only beside the build
    /// before it, in one run.
    pub before: Option<PathBuf>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { seconds: 3, count: 3, before: None }
    }
}

impl Turns {
    /// The builds of `tollgate` that are compared, by what they are called in tables.
    fn builds(&self) -> Result<Vec<(&'static str, PathBuf)>> {
        let before = self.before.as_ref().map(|path| ("before: ", path.clone()));
        Ok([("", program("tollgate")?)].into_iter().chain(before).collect())
    }
}

/// Compares over `grpc`, `http` or `resp`, on `redis` or as a `gateway`, and hands over each table as it is made.
///
/// # Errors
/// If a server cannot be started, or does not answer every request well.
pub fn run(what: &str, turns: &Turns, print: &mut dyn FnMut(&str)) -> Result<()> {
    match what {
        "grpc" => protocols::grpc(turns, print),
        "http" => protocols::http(turns, print),
        "resp" => protocols::resp(turns, print),
        "redis" => redis::run(turns, print),
        "gateway" => gateway::run(turns, print),
        _ => bail!("'{what}' is none of grpc, http, resp, redis and gateway"),
    }
}

/// One row of a table: a server and what it is sent.
struct Contender {
    name: String,
    address: String,
    pid: u32,
    request: LoadRequest,
}

/// How many requests are outstanding.
#[derive(Debug, Clone, Copy)]
struct Concurrency {
    connections: usize,
    in_flight: usize,
}

/// Loads all in turn; a table in which each is beside the first.
fn compare(title: &str, contenders: &[Contender], concurrency: Concurrency, turns: &Turns) -> Result<String> {
    let mut contest = Contest::new(title, contenders.iter().map(|contender| contender.name.clone()));
    let (warm_up, length) = (Duration::from_secs(turns.seconds.min(1)), Duration::from_secs(turns.seconds));
    for _ in 0..turns.count {
        for (row, contender) in contenders.iter().enumerate() {
            let report = contender.load(concurrency, warm_up, length)?;
            contest.add(row, LoadFigures::of(&report)?);
        }
    }
    Ok(contest.to_string())
}

impl Contender {
    /// Loads the server; every request must be answered well.
    fn load(&self, concurrency: Concurrency, warm_up: Duration, length: Duration) -> Result<LoadReport> {
        let Concurrency { connections, in_flight } = concurrency;
        let plan = Plan {
            address: self.address.clone(),
            target: resolved(&self.address)?,
            connect: ConnectOptions::default(),
            connections,
            in_flight,
            threads: 1,
            pacing: LoadLoop::Closed,
            request: self.request.clone(),
            keys: KEYS,
            warm_up,
            length: RunLength::Time(length),
        };
        let report = load(&plan, Some(self.pid), &mut |_| ()).with_context(|| self.name.clone())?;
        let first_error = report.first_error.as_deref().unwrap_or_default();
        ensure!(
            report.errors == 0 && report.lost == 0,
            "{}: {} errors: {first_error}",
            self.name,
            report.errors
        );
        Ok(report)
    }
}

fn resolved(address: &str) -> Result<SocketAddr> {
    address.to_socket_addrs()?.next().with_context(|| format!("{address} is no address"))
}
