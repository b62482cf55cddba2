//! Decisions on Redis beside what `redis-benchmark` gets from the same script.
//!
//! For one algorithm after the other, a `redis-server` and a `tollgate` on it are started and loaded
//! over gRPC; then the command that Tollgate sends for one request is run alone by `redis-benchmark`,
//! with as many connections and as many commands in flight.
//!
//! Then one limit on one server and on a cluster, beside envoyproxy/ratelimit, if `cargo xtask` could
//! build it.

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
use tollgate_testkit::redis::wait_until;
use tollgate_testkit::{RedisCluster, RedisServer};

use super::server_process::{ServerProcess, free_address, peer};
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
    beside_ratelimit(turns, section)
}

/// A fixed window on one server and on a cluster, beside envoyproxy/ratelimit.
fn beside_ratelimit(turns: &Turns, section: &mut Section) -> Result<()> {
    let head = [
        "service",
        "/s",
        "±",
        "ratio",
        "CPU µs",
        "±",
        "for the same CPU",
        "Redis CPU µs",
        "±",
        "p50 ms",
        "p99 ms",
    ];
    let mut table = MarkdownTable::new(head);
    section.say(
        "One limit by the hour for each of a million users, on one server and on a cluster of three with \
         replicas, beside envoyproxy/ratelimit as it comes, without statistics. \
         Beside the first row of a store: requests a second (ratio), and requests for the same CPU time of \
         the service. The CPU time of Redis is that of its masters.",
    );
    for store in [CounterStore::Server(RedisServer::start()), CounterStore::Cluster(RedisCluster::start())] {
        let mut services = Vec::new();
        if let Ok(program) = peer("service_cmd") {
            services.push((ServiceRig::ratelimit(&program, &store)?, ServiceFigures::default()));
        }
        for (build, program) in turns.builds()? {
            let rig = ServiceRig::tollgate(&program, build, &store)?;
            services.push((rig, ServiceFigures::default()));
        }
        for (rig, _) in &services {
            rig.contender.load(CONCURRENCY, Duration::ZERO, Duration::from_secs(1))?;
        }
        for _ in 0..turns.count {
            for (rig, figures) in &mut services {
                figures.measure(rig, &store, turns.seconds)?;
            }
        }
        let Some((_, first)) = services.first() else { continue };
        for (rig, figures) in &services {
            let name = format!("{} on {}", rig.contender.name, store.name());
            table.row(figures.row(name, first));
        }
    }
    section.say(&table.to_string());
    Ok(())
}

/// Where services keep their counters.
enum CounterStore {
    Server(RedisServer),
    Cluster(RedisCluster),
}

impl CounterStore {
    const fn name(&self) -> &'static str {
        match self {
            Self::Server(_) => "one server",
            Self::Cluster(_) => "a cluster of three",
        }
    }

    /// As `--store` takes it.
    fn url(&self) -> String {
        match self {
            Self::Server(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    fn servers(&self) -> &[RedisServer] {
        match self {
            Self::Server(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => &cluster.servers,
        }
    }

    /// The CPU time of the masters so far.
    fn cpu_us(&self) -> Result<u64> {
        let masters = self.servers().iter().filter(|server| server.cli(&["role"]).starts_with("master"));
        masters.map(redis_cpu_us).sum()
    }
}

/// What one service came to; CPU times in hundredths of a microsecond.
#[derive(Default)]
struct ServiceFigures {
    per_second: Samples,
    cpu: Samples,
    redis_cpu: Samples,
    p50_us: Samples,
    p99_us: Samples,
}

impl ServiceFigures {
    fn measure(&mut self, rig: &ServiceRig, store: &CounterStore, seconds: u64) -> Result<()> {
        let before = store.cpu_us()?;
        let report = rig.contender.load(CONCURRENCY, Duration::ZERO, Duration::from_secs(seconds))?;
        self.redis_cpu.add(ratio(store.cpu_us()? - before, report.answered));
        self.per_second.add(report.per_second());
        self.cpu
            .add(report.server_cpu_ns().context("the system does not tell the CPU time of the server")? / 10);
        self.p50_us.add(u64::try_from(report.latencies.p50.as_micros())?);
        self.p99_us.add(u64::try_from(report.latencies.p99.as_micros())?);
        Ok(())
    }

    /// Beside the first service, turn by turn.
    fn row(&self, name: String, first: &Self) -> [String; 11] {
        [
            name,
            self.per_second.median().to_string(),
            format!("{} %", self.per_second.spread_percent()),
            two_places(self.per_second.median_ratio(&first.per_second)),
            two_places(self.cpu.median()),
            format!("{} %", self.cpu.spread_percent()),
            two_places(first.cpu.median_ratio(&self.cpu)),
            two_places(self.redis_cpu.median()),
            format!("{} %", self.redis_cpu.spread_percent()),
            millis(Duration::from_micros(self.p50_us.median())),
            millis(Duration::from_micros(self.p99_us.median())),
        ]
    }
}

/// A service with one limit, which it keeps in a store.
struct ServiceRig {
    contender: Contender,
    /// Killed with this value.
    _process: ServerProcess,
    /// Removed with this value.
    _folder: TempDir,
}

impl ServiceRig {
    fn tollgate(program: &Path, build: &str, store: &CounterStore) -> Result<Self> {
        let (folder, grpc) = (tempfile::tempdir()?, free_address());
        let rules = folder.path().join("rules.yaml");
        fs::write(&rules, rules_of("{ requests_per_unit: 1000000, unit: hour }"))?;
        let mut command = Command::new(program);
        command.args(["serve", "--grpc", &grpc, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command.args(["--store", &store.url(), "--rules"]).arg(rules);
        command.env("REDIS_TIMEOUT", "1s").env("TOLLGATE_HISTORY", "false");
        Self::start(format!("{build}tollgate"), command, grpc, folder)
    }

    /// Without statistics, which it would write to its log for each request.
    fn ratelimit(program: &Path, store: &CounterStore) -> Result<Self> {
        let (folder, grpc) = (tempfile::tempdir()?, free_address());
        let rules = folder.path().join("ratelimit/config");
        fs::create_dir_all(&rules)?;
        fs::write(rules.join("bench.yaml"), rules_of("{ requests_per_unit: 1000000, unit: hour }"))?;
        let addresses: Vec<_> =
            store.servers().iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        let port = |address: &str| address.rsplit(':').next().unwrap_or_default().to_owned();
        let mut command = Command::new(program);
        command.env("GRPC_PORT", port(&grpc)).env("PORT", port(&free_address()));
        command.env("DEBUG_PORT", port(&free_address())).env("LOG_LEVEL", "error");
        command.env("USE_STATSD", "false").env("DISABLE_STATS", "true");
        command.env("RUNTIME_ROOT", folder.path()).env("RUNTIME_SUBDIRECTORY", "ratelimit");
        command.env("RUNTIME_WATCH_ROOT", "false").env("BACKEND_TYPE", "redis");
        let kind = if matches!(store, CounterStore::Cluster(_)) { "CLUSTER" } else { "SINGLE" };
        command.env("REDIS_SOCKET_TYPE", "tcp").env("REDIS_TYPE", kind);
        command.env("REDIS_URL", addresses.join(","));
        Self::start("envoyproxy/ratelimit".to_owned(), command, grpc, folder)
    }

    fn start(name: String, command: Command, grpc: String, folder: TempDir) -> Result<Self> {
        let process = ServerProcess::start(command, grpc)?;
        let contender = contender(name, &process);
        Ok(Self { contender, _process: process, _folder: folder })
    }
}

/// A rule file with this limit for each user.
fn rules_of(limit: &str) -> String {
    format!("domain: bench\ndescriptors:\n  - key: user_id\n    rate_limit: {limit}\n")
}

/// Asks a service about a million users.
fn contender(name: String, process: &ServerProcess) -> Contender {
    let entries = vec![("user_id".to_owned(), "u{key}".to_owned())];
    let check = DescriptorCheck { domain: "bench".to_owned(), entries, cost: 1 };
    Contender {
        name,
        address: process.address().to_owned(),
        pid: process.pid(),
        request: LoadRequest::Check(LoadProtocol::Grpc, check),
    }
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
        let (command, mut figures) = (rig.command()?, Self::default());
        let contender = contender("tollgate".to_owned(), &rig.tollgate);
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
            figures.node_cpu.add(
                report.server_cpu_ns().context("the system does not tell the CPU time of the server")? / 10,
            );
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
        fs::write(&rules, rules_of(&limit))?;
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
