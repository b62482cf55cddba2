//! Tollgate beside its peers, in one run: `cargo xtask bench`.
//!
//! Servers are started on loopback, loaded one after the other for several turns by
//! `tollgate_load`, and shown as medians in one table. Every limit allows everything, so that each
//! request writes. Libraries are timed by programs of their own, which print samples.
//!
//! | module | what it holds |
//! |---|---|
//! | `in_process` | libraries, memory and pauses |
//! | `scaling` | more keys, rules, descriptors, connections, nodes |
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
mod in_process;
mod medians;
mod protocols;
mod redis;
mod scaling;
mod server_process;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tollgate_load::plan::{KeySpace, LoadLoop, LoadRequest, Plan, RunLength};
use tollgate_load::transport::ConnectOptions;
use tollgate_load::{LoadReport, run as load};

use crate::report::Section;
use crate::report::page::{SECTIONS, load_average};
use medians::{Contest, LoadFigures};
use server_process::{HeldServers, program};

/// A million users.
const KEY_COUNT: u32 = 1_000_000;

/// How long and how often each server is loaded.
#[derive(Debug, Clone)]
pub struct Turns {
    /// Seconds of each load.
    pub seconds: u64,
    /// How often each server has its turn.
    pub count: u32,
    /// Another build of `tollgate`, to be compared as well: what a change did shows only beside the build
    /// before it, in one run.
    pub before: Option<PathBuf>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { seconds: 2, count: 3, before: None }
    }
}

impl Turns {
    /// The builds of `tollgate` that are compared, by what they are called in tables.
    fn builds(&self) -> Result<Vec<(&'static str, PathBuf)>> {
        let before = self.before.as_ref().map(|path| ("before: ", path.clone()));
        Ok([("", program("tollgate")?)].into_iter().chain(before).collect())
    }
}

/// Measures one of the page's sections.
///
/// # Errors
/// If a server cannot be started, or does not answer every request well.
pub fn run(what: &str, turns: &Turns) -> Result<Section> {
    let before = load_average();
    let mut section = Section::default();
    match what {
        "in-process" => in_process::speed(&mut section),
        "memory" => in_process::memory(&mut section),
        "pause" => in_process::pause(&mut section),
        "grpc" => protocols::grpc(turns, &mut section),
        "http" => protocols::http(turns, &mut section),
        "resp" => protocols::resp(turns, &mut section),
        "redis" => redis::run(turns, &mut section),
        "gateway" => gateway::run(turns, &mut section),
        "scaling" => scaling::run(turns, &mut section),
        _ => bail!(
            "'{what}' is none of {}",
            SECTIONS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
        ),
    }?;
    section.say(&format!(
        "The load average was {before} before and {} at the end, of which these programs make up about 2.",
        load_average()
    ));
    Ok(section)
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
fn compare(
    title: &str,
    contenders: &[Contender],
    concurrency: Concurrency,
    turns: &Turns,
) -> Result<Contest> {
    compare_for(title, contenders, concurrency, short(turns))
}

/// The same, while all others are held: theirs is work that goes on after their turn, such as removing keys.
fn compare_alone(
    title: &str,
    contenders: &[Contender],
    concurrency: Concurrency,
    turns: &Turns,
) -> Result<Contest> {
    compare_for(title, contenders, concurrency, TurnLength { are_others_held: true, ..short(turns) })
}

/// The turns of a comparison, in short ones.
fn short(turns: &Turns) -> TurnLength {
    let length = Duration::from_secs(turns.seconds) / TURN_PARTS;
    TurnLength { count: turns.count * TURN_PARTS, warm_up: WARM_UP, length, are_others_held: false }
}

/// How many short turns are made of each: what a noisy machine does to one second it mostly does to all of it, so that
/// those who are compared have to be loaded within less.
const TURN_PARTS: u32 = 4;
/// What a server is loaded for before a short turn.
const WARM_UP: Duration = Duration::from_millis(150);

/// So many turns of that length.
#[derive(Debug, Clone, Copy)]
struct TurnLength {
    count: u32,
    warm_up: Duration,
    length: Duration,
    are_others_held: bool,
}

/// The same in turns of another length.
fn compare_for(
    title: &str,
    contenders: &[Contender],
    concurrency: Concurrency,
    TurnLength { count, warm_up, length, are_others_held }: TurnLength,
) -> Result<Contest> {
    let mut contest = Contest::new(title, contenders.iter().map(|contender| contender.name.clone()));
    for turn in 0..count {
        for (row, contender) in contenders.iter().enumerate() {
            let turn = LoadTurn { seed: turn, warm_up, length: RunLength::Time(length) };
            let others = contenders.iter().filter(|other| are_others_held && other.pid != contender.pid);
            let _held = HeldServers::hold(others.map(|other| other.pid))?;
            let report = contender.load_turn(concurrency, turn)?;
            contest.add(row, LoadFigures::of(&report)?);
        }
    }
    Ok(contest)
}

/// One turn of one server.
#[derive(Debug, Clone, Copy)]
struct LoadTurn {
    /// Each turn draws other keys, so that a server meets more of them with each.
    seed: u32,
    warm_up: Duration,
    length: RunLength,
}

impl Contender {
    /// Loads the server once.
    fn load(&self, concurrency: Concurrency, warm_up: Duration, length: Duration) -> Result<LoadReport> {
        self.load_turn(concurrency, LoadTurn { seed: 0, warm_up, length: RunLength::Time(length) })
    }

    /// Loads the server; every request must be answered well.
    fn load_turn(&self, concurrency: Concurrency, turn: LoadTurn) -> Result<LoadReport> {
        let LoadTurn { seed, warm_up, length } = turn;
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
            keys: KeySpace { count: KEY_COUNT, zipf: None, seed },
            warm_up,
            length,
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
