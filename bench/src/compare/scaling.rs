//! What a decision costs with more keys, rules, descriptors, connections, and nodes on one Redis.
//!
//! The first three are in process (`bench/in-process`), the others are servers under load.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tollgate_load::LoadProtocol;
use tollgate_load::plan::{DescriptorCheck, LoadRequest};
use tollgate_testkit::RedisServer;
use tollgate_testkit::redis::wait_until;

use super::in_process::samples;
use super::server_process::{ServerProcess, free_address, program};
use super::{Concurrency, Contender, Turns};
use crate::figures::{plotted, ratio, redis_cpu_us, two_places};
use crate::report::Section;
use crate::report::plot::{Labels, PlotCurve, curves};
use crate::report::samples::{Samples, tenths};
use crate::report::table::MarkdownTable;

const CONNECTIONS: [usize; 5] = [1, 10, 100, 1_000, 8_000];
/// On a busy machine a server needs some seconds.
const START_MAX: Duration = Duration::from_secs(20);
const NODES: [usize; 4] = [1, 2, 4, 8];
const RULES: &str = "domain: bench\ndescriptors:\n  - key: user_id\n    rate_limit: \
    { algorithm: token_bucket, requests_per_unit: 1000000, unit: hour }\n";

pub(super) fn run(turns: &Turns, section: &mut Section) -> Result<()> {
    in_process(section)?;
    connections(turns, section)?;
    nodes(turns, section)
}

/// How a case must grow, as its page says.
const PROMISES: [(&str, &str, &str); 3] = [
    (
        "keys",
        "ns for a check of one key among so many",
        "It grows with what the caches of the machine hold, and not with the table: a check reads one or two lines of memory however many keys there are.",
    ),
    (
        "rules",
        "ns for a check by one rule among so many",
        "No step goes through rules: one is found by hashing the entry ([rules](guide/rules.md)). It grows as rules and their counters leave the caches, because both of a rule are asked for here each time: about ten lines of memory.",
    ),
    (
        "descriptors",
        "ns for a request with so many descriptors",
        "It grows with their number. A request with one limit has a short way; in a longer one a descriptor costs about as much as a request of its own.",
    ),
];

fn in_process(section: &mut Section) -> Result<()> {
    let samples = samples(&program("tollgate-in-process")?, "scaling")?;
    for (case, what, promise) in PROMISES {
        section.say(&format!("### By {case}\n\n{}", promise.replace(". ", ".\n")));
        let mut table = MarkdownTable::new([case, "ns", "±"]);
        let mut points = Vec::new();
        for (count, of) in samples.case(case) {
            table.row([count.clone(), tenths(of.median()), format!("{} %", of.spread_percent())]);
            points.push((count.parse()?, plotted(of.median(), 10)));
        }
        section.say(&table.to_string());
        let labels = Labels { title: what, x: case, y: "ns" };
        section.show(
            &format!("by-{case}"),
            what,
            curves(labels, &[PlotCurve { name: case.to_owned(), points }]),
        );
    }
    Ok(())
}

/// A node with its rules.
struct Node {
    server: ServerProcess,
    /// Removed with this value.
    _folder: TempDir,
}

impl Node {
    fn start(listener: &str, store: &str) -> Result<Self> {
        let (folder, address) = (tempfile::tempdir()?, free_address());
        let rules = folder.path().join("rules.yaml");
        fs::write(&rules, RULES)?;
        let mut command = Command::new(program("tollgate")?);
        command.args(["serve", "--store", store, "--rules"]).arg(rules);
        for other in ["--grpc", "--http", "--admin"].into_iter().filter(|other| *other != listener) {
            command.args([other, "127.0.0.1:0"]);
        }
        command.args([listener, &address]);
        command.env("REDIS_TIMEOUT", "1s").env("TOLLGATE_HISTORY", "false");
        let node = Self { server: ServerProcess::start(command, address)?, _folder: folder };
        let protocol = if listener == "--resp" { LoadProtocol::Resp } else { LoadProtocol::Grpc };
        // It listens before it has read its rules.
        wait_until("the rules are loaded", START_MAX, || {
            let once = Concurrency { connections: 1, in_flight: 1 };
            node.contender(protocol).load(once, Duration::ZERO, Duration::from_millis(20)).is_ok()
        });
        Ok(node)
    }

    fn contender(&self, protocol: LoadProtocol) -> Contender {
        let entries = vec![("user_id".to_owned(), "u{key}".to_owned())];
        let check = DescriptorCheck { domain: "bench".to_owned(), entries, cost: 1 };
        Contender {
            name: "tollgate".to_owned(),
            address: self.server.address().to_owned(),
            pid: self.server.pid(),
            request: LoadRequest::Check(protocol, check),
        }
    }
}

fn connections(turns: &Turns, section: &mut Section) -> Result<()> {
    section.say("### By connections\n\nOver RESP, one command at a time on each.\nCPU time for a decision falls as more of them are ready together, and grows again when connections no longer fit the caches.");
    let mut table = MarkdownTable::new(["connections", "/s", "±", "CPU µs", "p99 ms"]);
    let (mut points, node) = (Vec::new(), Node::start("--resp", "memory")?);
    for count in CONNECTIONS {
        let (mut rate, mut cpu, mut p99) = (Samples::default(), Samples::default(), Samples::default());
        for _ in 0..turns.count {
            let concurrency = Concurrency { connections: count, in_flight: 1 };
            let length = Duration::from_secs(turns.seconds);
            let report =
                node.contender(LoadProtocol::Resp).load(concurrency, Duration::from_millis(500), length)?;
            rate.add(report.per_second());
            cpu.add(
                report.server_cpu_ns().context("the system does not tell the CPU time of the server")? / 10,
            );
            p99.add(u64::try_from(report.latencies.p99.as_micros())? / 10);
        }
        let [cpu_us, p99_ms] = [&cpu, &p99].map(|samples| two_places(samples.median()));
        table.row([
            count.to_string(),
            rate.median().to_string(),
            format!("{} %", rate.spread_percent()),
            cpu_us,
            p99_ms,
        ]);
        points.push((u64::try_from(count)?, plotted(cpu.median(), 100)));
    }
    section.say(&table.to_string());
    let labels = Labels { title: "CPU time of a decision by connections", x: "connections", y: "µs" };
    let curve = PlotCurve { name: "RESP".to_owned(), points };
    section.show("by-connections", labels.title, curves(labels, &[curve]));
    Ok(())
}

fn nodes(turns: &Turns, section: &mut Section) -> Result<()> {
    section.say("### By nodes on one Redis\n\nNodes share one Redis and each is loaded by callers of its own; everything runs on one machine, so that only CPU time tells anything.\nThe CPU time of Redis for a decision must not grow with their number: the longer nodes wait for it, the more requests of one moment share a call.\nThat of a node grows a little, as they take the caches from each other.");
    let mut table = MarkdownTable::new(["nodes", "/s together", "Redis CPU µs", "±", "node CPU µs", "±"]);
    let (mut redis_points, mut node_points) = (Vec::new(), Vec::new());
    for count in NODES {
        let redis = RedisServer::start();
        let nodes = (0..count).map(|_| Node::start("--grpc", &redis.url())).collect::<Result<Vec<_>>>()?;
        let (mut rate, mut redis_cpu, mut node_cpu) =
            (Samples::default(), Samples::default(), Samples::default());
        for _ in 0..turns.count {
            let before = redis_cpu_us(&redis)?;
            let reports = load_all(&nodes, Duration::from_secs(turns.seconds))?;
            let answered: u64 = reports.iter().map(|(answered, ..)| answered).sum();
            rate.add(reports.iter().map(|(_, rate, _)| rate).sum());
            redis_cpu.add(ratio(redis_cpu_us(&redis)? - before, answered));
            node_cpu.add(
                reports.iter().map(|(answered, _, cpu)| answered * cpu).sum::<u64>() / answered.max(1) / 10,
            );
        }
        table.row([
            count.to_string(),
            rate.median().to_string(),
            two_places(redis_cpu.median()),
            format!("{} %", redis_cpu.spread_percent()),
            two_places(node_cpu.median()),
            format!("{} %", node_cpu.spread_percent()),
        ]);
        redis_points.push((u64::try_from(count)?, plotted(redis_cpu.median(), 100)));
        node_points.push((u64::try_from(count)?, plotted(node_cpu.median(), 100)));
    }
    section.say(&table.to_string());
    let labels = Labels { title: "CPU time of a decision by nodes on one Redis", x: "nodes", y: "µs" };
    let [redis, node] = [("Redis", redis_points), ("a node", node_points)]
        .map(|(name, points)| PlotCurve { name: name.to_owned(), points });
    section.show("by-nodes", labels.title, curves(labels, &[redis, node]));
    Ok(())
}

/// Loads all nodes at once: answers, answers a second, and CPU time for an answer of each.
fn load_all(nodes: &[Node], length: Duration) -> Result<Vec<(u64, u64, u64)>> {
    let concurrency = Concurrency { connections: 1, in_flight: 32 };
    thread::scope(|scope| {
        let loads: Vec<_> = nodes
            .iter()
            .map(|node| {
                scope.spawn(move || {
                    let report = node.contender(LoadProtocol::Grpc).load(
                        concurrency,
                        Duration::from_millis(500),
                        length,
                    )?;
                    let cpu = report
                        .server_cpu_ns()
                        .context("the system does not tell the CPU time of the server")?;
                    Ok((report.answered, report.per_second(), cpu))
                })
            })
            .collect();
        loads.into_iter().map(|load| load.join().expect("a load does not panic")).collect()
    })
}
