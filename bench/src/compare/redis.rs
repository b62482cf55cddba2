//! Decisions on Redis beside what `redis-benchmark` gets from the same script.
//!
//! For one algorithm after the other, a `redis-server` and a `tollgate` on it are started and loaded
//! over gRPC; then the command that Tollgate sends for one request is run alone by `redis-benchmark`,
//! with as many connections and as many commands in flight.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;
use tollgate_load::LoadProtocol;
use tollgate_load::plan::{DescriptorCheck, LoadRequest};
use tollgate_testkit::RedisServer;
use tollgate_testkit::redis::wait_until;

use super::server_process::{ServerProcess, free_address};
use super::{Concurrency, Contender, Turns};
use crate::figures::{millis, plotted, ratio, redis_cpu_us, two_places};
use crate::report::Section;
use crate::report::plot::{Labels, bars};
use crate::report::samples::Samples;
use crate::report::table::MarkdownTable;

/// As much in flight as on four connections of Envoy with 32 streams each.
const CONCURRENCY: Concurrency = Concurrency { connections: 4, in_flight: 32 };
const ALGORITHMS: [&str; 6] =
    ["fixed_window", "sliding_counter", "token_bucket", "leaky_bucket", "sliding_buckets", "sliding_log"];
/// Requests of `redis-benchmark` for each second of load: it takes about as long on a usual machine.
const REQUESTS_PER_SECOND: u64 = 60_000;
/// For a command to reach Redis.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn run(turns: &Turns, section: &mut Section) -> Result<()> {
    let head = [
        "algorithm",
        "redis-benchmark /s",
        "tollgate /s",
        "±",
        "ratio",
        "decisions a call",
        "Redis CPU µs",
        "±",
        "node CPU µs",
        "p50 ms",
        "p99 ms",
    ];
    let (mut table, mut redis_cpu) = (MarkdownTable::new(head), Vec::new());
    for algorithm in ALGORITHMS {
        for (build, program) in turns.builds()? {
            let figures = RedisFigures::measure(&RedisRig::start(&program, algorithm)?, turns)?;
            table.row(figures.row(&format!("{build}{algorithm}")));
            redis_cpu.push((format!("{build}{algorithm}"), plotted(figures.redis_cpu.median(), 100)));
        }
    }
    section.say(&table.to_string());
    let labels = Labels { title: "CPU time of Redis for a decision", x: "", y: "µs of Redis' one thread" };
    section.show("redis", "CPU time of Redis for a decision, by algorithm", bars(labels, &redis_cpu));
    Ok(())
}

/// What one algorithm came to; CPU times in hundredths of a microsecond.
#[derive(Default)]
struct RedisFigures {
    alone: Samples,
    per_second: Samples,
    per_call: Samples,
    redis_cpu: Samples,
    node_cpu: Samples,
    p50_us: Samples,
    p99_us: Samples,
}

impl RedisFigures {
    fn measure(rig: &RedisRig, turns: &Turns) -> Result<Self> {
        let (command, contender, mut figures) = (rig.command()?, rig.contender(), Self::default());
        contender.load(CONCURRENCY, Duration::ZERO, Duration::from_secs(1))?;
        for _ in 0..turns.count {
            let (cpu_before, calls_before) = (redis_cpu_us(&rig.redis)?, rig.script_calls()?);
            let report = contender.load(CONCURRENCY, Duration::ZERO, Duration::from_secs(turns.seconds))?;
            let (cpu_us, calls) =
                (redis_cpu_us(&rig.redis)? - cpu_before, rig.script_calls()? - calls_before);
            figures.alone.add(rig.benchmark(&command, turns.seconds * REQUESTS_PER_SECOND)?);
            figures.per_second.add(report.per_second());
            figures.per_call.add(ratio(report.answered, calls));
            figures.redis_cpu.add(ratio(cpu_us, report.answered));
            figures.node_cpu.add(report.server_cpu_ns().context("no CPU time in /proc")? / 10);
            figures.p50_us.add(u64::try_from(report.latencies.p50.as_micros())?);
            figures.p99_us.add(u64::try_from(report.latencies.p99.as_micros())?);
        }
        Ok(figures)
    }

    fn row(&self, name: &str) -> [String; 11] {
        let (alone, own) = (self.alone.median(), self.per_second.median());
        [
            name.to_owned(),
            alone.to_string(),
            own.to_string(),
            format!("{} %", self.per_second.spread_percent()),
            two_places(ratio(own, alone)),
            two_places(self.per_call.median()),
            two_places(self.redis_cpu.median()),
            format!("{} %", self.redis_cpu.spread_percent()),
            two_places(self.node_cpu.median()),
            millis(Duration::from_micros(self.p50_us.median())),
            millis(Duration::from_micros(self.p99_us.median())),
        ]
    }
}

/// A `tollgate` on a `redis-server`, with limits of one algorithm.
struct RedisRig {
    redis: RedisServer,
    tollgate: ServerProcess,
    http: String,
    /// Removed with this value.
    _folder: TempDir,
}

impl RedisRig {
    fn start(program: &Path, algorithm: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let rules = folder.path().join("rules.yaml");
        let limit = format!("{{ algorithm: {algorithm}, requests_per_unit: 10000, unit: hour }}");
        fs::write(
            &rules,
            format!("domain: bench\ndescriptors:\n  - key: user_id\n    rate_limit: {limit}\n"),
        )?;
        let (redis, grpc, http) = (RedisServer::start(), free_address(), free_address());
        let mut command = Command::new(program);
        command.args(["serve", "--grpc", &grpc, "--http", &http, "--admin", "127.0.0.1:0"]);
        command.args(["--store", &redis.url(), "--rules"]).arg(rules);
        command.env("REDIS_TIMEOUT", "1s").env("TOLLGATE_HISTORY", "false");
        let tollgate = ServerProcess::start(command, grpc)?;
        let rig = Self { redis, tollgate, http, _folder: folder };
        // It listens before it has read its rules.
        wait_until("the rules are loaded", TIMEOUT, || rig.check("first").is_ok());
        Ok(rig)
    }

    fn contender(&self) -> Contender {
        let entries = vec![("user_id".to_owned(), "u{key}".to_owned())];
        let check = DescriptorCheck { domain: "bench".to_owned(), entries, cost: 1 };
        Contender {
            name: "tollgate".to_owned(),
            address: self.tollgate.address().to_owned(),
            pid: self.tollgate.pid(),
            request: LoadRequest::Check(LoadProtocol::Grpc, check),
        }
    }

    /// How often scripts were called so far.
    fn script_calls(&self) -> Result<u64> {
        let stats = self.redis.cli(&["info", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        let calls = line.and_then(|line| line.split(',').next()).and_then(|calls| calls.parse().ok());
        calls.with_context(|| format!("no calls of scripts in {stats}"))
    }

    /// The words of the command that Tollgate sends for one decision, as MONITOR shows them.
    fn command(&self) -> Result<Vec<String>> {
        let mut monitor = TcpStream::connect(("127.0.0.1", self.redis.port()))?;
        monitor.set_read_timeout(Some(TIMEOUT))?;
        monitor.write_all(b"MONITOR\r\n")?;
        let mut lines = BufReader::new(monitor).lines();
        lines.next().context("MONITOR is not answered")??;
        self.check("u0")?;
        for line in lines {
            let line = line.context("Tollgate has sent no script")?;
            if let Some((_, command)) = line.split_once("] ").filter(|_| line.contains("\"EVALSHA\"")) {
                let words = command.trim_matches('"').split("\" \"");
                // redis-benchmark puts a number of its own there.
                return Ok(words.map(|word| word.replace("|u0", "|u__rand_int__")).collect());
            }
        }
        bail!("redis-server has closed the connection")
    }

    /// One check over HTTP.
    fn check(&self, user: &str) -> Result<()> {
        let body = format!(r#"{{"domain":"bench","descriptors":[{{"user_id":"{user}"}}]}}"#);
        let mut stream = TcpStream::connect(&self.http)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        write!(
            stream,
            "POST /v1/check HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        ensure!(response.starts_with("HTTP/1.1 200"), "a check is answered with {response}");
        Ok(())
    }

    /// How many of these commands a second `redis-benchmark` gets.
    fn benchmark(&self, command: &[String], requests: u64) -> Result<u64> {
        let Concurrency { connections, in_flight } = CONCURRENCY;
        let output = Command::new("redis-benchmark")
            .args(["-p", &self.redis.port().to_string(), "-c", &connections.to_string()])
            .args(["-P", &in_flight.to_string(), "-n", &requests.to_string(), "-r", "1000000", "--csv"])
            .args(command)
            .output()
            .context("cannot start redis-benchmark")?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let rate = printed.lines().last().and_then(|line| line.rsplit("\",\"").nth(6));
        let whole = rate.and_then(|rate| rate.split('.').next()).and_then(|whole| whole.parse().ok());
        whole.with_context(|| format!("redis-benchmark says {printed}"))
    }
}
