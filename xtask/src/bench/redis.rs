//! On demand: what a decision on Redis costs, beside what `redis-benchmark` gets from the same script.
//!
//! Starts a `redis-server` and a `tollgate` on it, for one algorithm after the other; has
//! `tollgate bench` load it over gRPC; and runs the command that the node sends for one request
//! alone with `redis-benchmark`, with as many connections and as much on its way. All on one machine,
//! in one run.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::under_load::{Server, free_address, number};
use crate::process::Invocation;
use crate::workspace;

/// As much on its way as four connections of Envoy with 32 streams.
const CONNECTIONS: &str = "4";
const IN_FLIGHT: &str = "32";
const WARM_UP: &str = "2s";
const DURATION: &str = "5s";
const BENCHMARK_REQUESTS: u64 = 300_000;
const ALGORITHMS: [&str; 6] =
    ["fixed_window", "sliding_counter", "token_bucket", "leaky_bucket", "sliding_buckets", "sliding_log"];

/// Loads all and prints a table.
pub(crate) fn run() -> Result<()> {
    Invocation::new("cargo", &["build", "--release", "--locked", "-p", "tollgate-cli"]).run()?;
    println!(
        "{:<16} {:>14} {:>14} {:>6} {:>9} {:>12} {:>12} {:>8} {:>8}",
        "algorithm",
        "benchmark /s",
        "tollgate /s",
        "ratio",
        "per call",
        "redis CPU",
        "node CPU",
        "p50",
        "p99"
    );
    for algorithm in ALGORITHMS {
        println!("{}", measured(algorithm)?);
    }
    Ok(())
}

/// A node on a server, with limits of one algorithm.
struct Rig {
    program: String,
    redis: Server,
    node: Server,
    port: String,
    http: String,
}

impl Rig {
    fn start(algorithm: &str) -> Result<Self> {
        let target = workspace::target()?;
        let folder = target.join("bench-redis");
        fs::create_dir_all(&folder).context("cannot make a folder in the target folder")?;
        let rules = folder.join("rules.yaml");
        fs::write(&rules, rules_for(algorithm)).context("cannot write rules")?;
        let (redis_address, grpc, http) = (free_address()?, free_address()?, free_address()?);
        let port = redis_address.rsplit(':').next().unwrap_or_default().to_owned();
        let mut redis = Command::new("redis-server");
        redis.args(["--port", &port, "--save", "", "--appendonly", "no"]).stdout(Stdio::null());
        let redis = Server::start("redis-server", redis, redis_address.clone())?;
        let program = target.join("release/tollgate");
        let mut node = Command::new(&program);
        node.args(["serve", "--grpc", &grpc, "--http", &http, "--admin", "127.0.0.1:0"]);
        node.args(["--store", &format!("redis://{redis_address}"), "--rules"]).arg(&rules);
        node.env("REDIS_TIMEOUT", "1s").env("TOLLGATE_HISTORY", "false").stderr(Stdio::null());
        let node = Server::start("tollgate", node, grpc)?;
        let program = program.to_str().context("the path of the target folder is not UTF-8")?.to_owned();
        Ok(Self { program, redis, node, port, http })
    }
}

fn rules_for(algorithm: &str) -> String {
    let limit = format!("{{ algorithm: {algorithm}, requests_per_unit: 10000, unit: hour }}");
    format!("domain: bench\ndescriptors:\n  - key: user_id\n    rate_limit: {limit}\n")
}

fn measured(algorithm: &str) -> Result<String> {
    let rig = Rig::start(algorithm)?;
    let Rig { redis, port, .. } = &rig;
    let command = sent(&rig)?;
    load(&rig, WARM_UP)?;
    let (before, calls_before) = (redis.cpu_ms()?, script_calls(port)?);
    let report = load(&rig, DURATION)?;
    let (redis_ms, calls) = (redis.cpu_ms()? - before, script_calls(port)? - calls_before);
    let value = |name: &str| number(&report, name).with_context(|| format!("no {name} in {report}"));
    let figures = Figures {
        alone: benchmark(&command, port)?,
        per_second: value("answered_per_s")?,
        answered: value("answered")?,
        calls,
        redis_ms: u32::try_from(redis_ms).context("more than a month")?,
        node_ns: value("server_cpu_per_decision_ns")?,
        p50_us: value("p50_us")?,
        p99_us: value("p99_us")?,
    };
    Ok(row(algorithm, &figures))
}

/// How often a script was called so far.
fn script_calls(port: &str) -> Result<u32> {
    let stats = Invocation::new("redis-cli", &["-p", port, "INFO", "commandstats"]).capture()?;
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let calls = line.and_then(|line| line.split(',').next()).and_then(|calls| calls.parse().ok());
    calls.with_context(|| format!("no calls of scripts in {stats}"))
}

/// What is told of one algorithm.
struct Figures {
    alone: f64,
    per_second: f64,
    answered: f64,
    calls: u32,
    redis_ms: u32,
    node_ns: f64,
    p50_us: f64,
    p99_us: f64,
}

#[expect(clippy::float_arithmetic, reason = "for people to read")]
fn row(algorithm: &str, figures: &Figures) -> String {
    let Figures { alone, per_second, answered, calls, redis_ms, node_ns, p50_us, p99_us } = figures;
    let (per_call, redis_us) = (answered / f64::from(*calls), f64::from(*redis_ms) * 1_000.0 / answered);
    let node_us = node_ns / 1_000.0;
    let ratio = per_second / alone;
    format!(
        "{algorithm:<16} {alone:>14.0} {per_second:>14.0} {ratio:>6.2} {per_call:>9.1} {redis_us:>9.1} µs \
         {node_us:>9.1} µs {:>5.2} ms {:>5.2} ms",
        p50_us / 1_000.0,
        p99_us / 1_000.0
    )
}

/// The words of the command that the node sends for one decision, as the server saw them.
fn sent(Rig { node, http, port, .. }: &Rig) -> Result<Vec<String>> {
    let mut monitor = Command::new("timeout");
    monitor.args(["2", "redis-cli", "-p", port, "MONITOR"]).stdout(Stdio::piped());
    let monitor = monitor.spawn().context("cannot start redis-cli")?;
    let body = r#"{"domain":"bench","descriptors":[{"user_id":"u0"}]}"#;
    let url = format!("http://{http}/v1/check");
    let json = "content-type: application/json";
    // The monitor may come a moment late; some of them it sees.
    for _ in 0..20 {
        Invocation::new("curl", &["-s", "-H", json, &url, "-d", body]).capture()?;
        Invocation::new("sleep", &["0.05"]).capture()?;
    }
    let seen = monitor.wait_with_output().context("redis-cli cannot be waited for")?;
    let seen = String::from_utf8_lossy(&seen.stdout);
    let line = seen.lines().find(|line| line.contains("\"EVALSHA\""));
    let Some((_, command)) = line.and_then(|line| line.split_once("] ")) else {
        bail!("{} on {} sent no script", node.name(), node.address());
    };
    let words = command.trim_matches('"').split("\" \"");
    // Each request of redis-benchmark gets a number of its own there.
    Ok(words.map(|word| word.replace("|u0", "|u__rand_int__")).collect())
}

fn load(Rig { program, node, .. }: &Rig, duration: &str) -> Result<String> {
    let id = node.id();
    let mut arguments = vec!["bench", "--grpc", node.address(), "--domain", "bench", "--format", "json"];
    arguments.extend(["--connections", CONNECTIONS, "--in-flight", IN_FLIGHT, "--warm-up", "0s"]);
    arguments.extend(["--descriptor", "user_id=u{key}", "--server-pid", &id, "--duration", duration]);
    Invocation::new(program, &arguments).capture()
}

/// How many of these a second redis-benchmark gets.
fn benchmark(command: &[String], port: &str) -> Result<f64> {
    let requests = BENCHMARK_REQUESTS.to_string();
    let mut arguments =
        vec!["-p", port, "-c", CONNECTIONS, "-P", IN_FLIGHT, "-n", &requests, "-r", "1000000", "--csv"];
    arguments.extend(command.iter().map(String::as_str));
    let printed = Invocation::new("redis-benchmark", &arguments).capture()?;
    let rate = printed.lines().last().and_then(|line| line.rsplit("\",\"").nth(6));
    rate.and_then(|rate| rate.parse().ok()).with_context(|| format!("redis-benchmark said {printed}"))
}
