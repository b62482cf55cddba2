//! On demand: what a command over RESP costs, beside `INCR` of `redis-server` and `THROTTLE` of
//! `throttlecrab-server`, in one run.
//!
//! Starts all three, loads one after the other with `respload`, with 1, 16 and 64 commands on their
//! way on each of 50 connections, several rounds, and prints medians. Every limit lets everything
//! pass, so that each command writes.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::rounds::{Figures, Row, table};
use super::tools;
use super::under_load::{Server, free_address, generous_rules, number, port};
use crate::process::Invocation;

const ROUNDS: usize = 3;
const PIPELINES: [&str; 3] = ["1", "16", "64"];
/// Who is asked what; the first is the one to compare with.
const ASKED: [(Who, &str); 4] = [
    (Who::Redis, "INCR user:{k}"),
    (Who::Tollgate, "THROTTLE user:{k} 1000000 1000000 1"),
    (Who::Tollgate, "TOLLGATE.CHECK bench user_id user:{k}"),
    (Who::Throttlecrab, "THROTTLE user:{k} 1000000 1000000 1"),
];

#[derive(Debug, Clone, Copy)]
enum Who {
    Redis,
    Tollgate,
    Throttlecrab,
}

/// Loads all and prints a table for each pipeline.
pub(crate) fn run() -> Result<()> {
    let respload = tools::tool("respload")?;
    let peers = Peers::start()?;
    for pipeline in PIPELINES {
        let name = |(who, command): (Who, &str)| {
            format!("{} {}", peers.server(who).name(), command.split(' ').next().unwrap_or_default())
        };
        let mut rows = ASKED.map(|asked| Row { name: name(asked), rounds: Vec::new() });
        for _ in 0..ROUNDS {
            for (row, (who, command)) in rows.iter_mut().zip(ASKED) {
                row.rounds.push(load(&respload, peers.server(who), command, pipeline)?);
            }
        }
        println!("{}", table(&format!("RESP, pipeline {pipeline}"), &rows));
    }
    Ok(())
}

struct Peers {
    redis: Server,
    tollgate: Server,
    throttlecrab: Server,
}

impl Peers {
    fn start() -> Result<Self> {
        let (program, throttlecrab) = (tools::tollgate()?, tools::throttlecrab()?);
        let address = free_address()?;
        let mut redis = Command::new(tools::from_debian("redis-server", "--version")?);
        redis.args(["--port", port(&address), "--save", "", "--appendonly", "no"]).stdout(Stdio::null());
        let redis = Server::start("redis-server", redis, address)?;
        let address = free_address()?;
        let mut crab = Command::new(throttlecrab);
        crab.args(["--redis", "--redis-host", "127.0.0.1", "--redis-port", port(&address)]);
        crab.args(["--store", "adaptive", "--store-capacity", "2000000", "--log-level", "warn"]);
        // It complains of every connection that is closed.
        crab.stdout(Stdio::null());
        let throttlecrab = Server::start("throttlecrab-server", crab, address)?;
        let address = free_address()?;
        let mut own = Command::new(program);
        own.args(["serve", "--resp", &address, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
        own.args(["--admin", "127.0.0.1:0", "--rules"]).arg(generous_rules()?);
        own.arg("--data").arg(tools::folder()?.join("tollgate-data")).stderr(Stdio::null());
        let tollgate = Server::start("tollgate", own, address)?;
        Ok(Self { redis, tollgate, throttlecrab })
    }

    const fn server(&self, who: Who) -> &Server {
        match who {
            Who::Redis => &self.redis,
            Who::Tollgate => &self.tollgate,
            Who::Throttlecrab => &self.throttlecrab,
        }
    }
}

fn load(respload: &Path, server: &Server, command: &str, pipeline: &str) -> Result<Figures> {
    let respload = respload.to_str().context("the path of the target folder is not UTF-8")?;
    let id = server.id();
    let arguments = [
        "--addr",
        server.address(),
        "--server-pid",
        &id,
        "--cmd",
        command,
        "--pipeline",
        pipeline,
        "--conns",
        "50",
        "--keys",
        "1000000",
        "--seconds",
        "2",
        "--json",
    ];
    let json = Invocation::new(respload, &arguments).capture()?;
    let value = |name: &str| number(&json, name).with_context(|| format!("no {name} in {json}"));
    Ok(Figures {
        per_second: value("rps")?,
        cpu_us: value("server_us")?,
        p50_us: value("p50_us")?,
        p99_us: value("p99_us")?,
    })
}
