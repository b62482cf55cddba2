//! Who is compared over gRPC, HTTP and RESP, and what each is sent.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tollgate_load::LoadProtocol;
use tollgate_load::plan::{DescriptorCheck, LoadRequest};
use tollgate_testkit::RedisServer;

use super::server_process::{ServerProcess, free_address, peer, program};
use super::{Concurrency, Contender, Turns, compare};
use crate::report::Section;

/// Commands in a pipeline, on each of 50 connections.
const PIPELINES: [usize; 3] = [1, 16, 64];
/// A limit that allows everything.
const GENEROUS: &str = "domain: bench\ndescriptors:\n  - key: user_id\n    rate_limit: \
    { algorithm: token_bucket, requests_per_unit: 1000000, unit: second }\n";
const THROTTLE: &str = "THROTTLE user:{key} 1000000 1000000 1";

/// A call of a tonic server and of a bare h2 server that always say OK, and of Tollgate with rules as
/// people have them: a token bucket and a sliding counter together, in a domain with plans and wildcards.
pub(super) fn grpc(turns: &Turns, section: &mut Section) -> Result<()> {
    let entries = [("plan", "pro"), ("user_id", "u{key}")];
    let check = check(LoadProtocol::Grpc, "api", &entries);
    let empty = |name: &str| {
        let address = free_address();
        let mut command = Command::new(program(name)?);
        command.arg(&address);
        ServerProcess::start(command, address)
    };
    let (tonic, h2) = (empty("empty-tonic")?, empty("empty-h2")?);
    let tollgates = Tollgate::start("--grpc", include_str!("../../../examples/plans.yaml"), turns)?;
    let contender = |name: &str, server: &ServerProcess| contender(name, server, check.clone());
    let mut contenders = vec![contender("empty tonic server", &tonic), contender("empty h2 server", &h2)];
    contenders.extend(tollgates.iter().map(|tollgate| tollgate.contender("tollgate", check.clone())));
    let concurrency = Concurrency { connections: 4, in_flight: 32 };
    compare("gRPC, 4 connections × 32 in flight", &contenders, concurrency, turns)?
        .into_section("grpc", section);
    Ok(())
}

/// A check by throttlecrab-server and by Tollgate.
pub(super) fn http(turns: &Turns, section: &mut Section) -> Result<()> {
    let throttlecrab = throttlecrab("http")?;
    let tollgates = Tollgate::start("--http", GENEROUS, turns)?;
    let body = r#"{"key":"user:{key}","max_burst":1000000,"count_per_period":1000000,"period":1}"#;
    let post = LoadRequest::Post { path: "/throttle".to_owned(), body: body.to_owned() };
    let check = check(LoadProtocol::Http, "bench", &[("user_id", "user:{key}")]);
    let mut contenders = vec![contender("throttlecrab-server /throttle", &throttlecrab, post)];
    contenders
        .extend(tollgates.iter().map(|tollgate| tollgate.contender("tollgate /v1/check", check.clone())));
    let concurrency = Concurrency { connections: 50, in_flight: 1 };
    compare("HTTP, 50 connections", &contenders, concurrency, turns)?.into_section("http", section);
    Ok(())
}

/// A command of redis-server, Tollgate and throttlecrab-server, in pipelines of several lengths.
pub(super) fn resp(turns: &Turns, section: &mut Section) -> Result<()> {
    let redis = RedisServer::start();
    let throttlecrab = throttlecrab("redis")?;
    let tollgates = Tollgate::start("--resp", GENEROUS, turns)?;
    let check = check(LoadProtocol::Resp, "bench", &[("user_id", "user:{key}")]);
    let mut contenders = vec![
        Contender {
            name: "redis-server INCR".to_owned(),
            address: format!("127.0.0.1:{}", redis.port()),
            pid: redis_pid(&redis)?,
            request: command("INCR user:{key}"),
        },
        contender("throttlecrab-server THROTTLE", &throttlecrab, command(THROTTLE)),
    ];
    for tollgate in &tollgates {
        contenders.push(tollgate.contender("tollgate THROTTLE", command(THROTTLE)));
        contenders.push(tollgate.contender("tollgate TOLLGATE.CHECK", check.clone()));
    }
    for pipeline in PIPELINES {
        let title = format!("RESP, 50 connections, pipeline of {pipeline}");
        let concurrency = Concurrency { connections: 50, in_flight: pipeline };
        let contest = compare(&title, &contenders, concurrency, turns)?;
        contest.into_section(&format!("resp-{pipeline}"), section);
    }
    Ok(())
}

fn contender(name: &str, server: &ServerProcess, request: LoadRequest) -> Contender {
    Contender { name: name.to_owned(), address: server.address().to_owned(), pid: server.pid(), request }
}

fn check(protocol: LoadProtocol, domain: &str, entries: &[(&str, &str)]) -> LoadRequest {
    let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    LoadRequest::Check(protocol, DescriptorCheck { domain: domain.to_owned(), entries, cost: 1 })
}

fn command(words: &str) -> LoadRequest {
    LoadRequest::Command(words.split(' ').map(str::to_owned).collect())
}

fn redis_pid(server: &RedisServer) -> Result<u32> {
    let about = server.cli(&["info", "server"]);
    let pid = about.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok());
    pid.context("redis-server does not tell its process id")
}

/// throttlecrab-server over one of its protocols.
fn throttlecrab(protocol: &str) -> Result<ServerProcess> {
    let address = free_address();
    let (host, port) = address.split_once(':').context("an address has a port")?;
    let mut command = Command::new(peer("throttlecrab-server")?);
    command.arg(format!("--{protocol}")).args([&format!("--{protocol}-host"), host]);
    command.args([&format!("--{protocol}-port"), port]);
    command.args(["--store", "adaptive", "--store-capacity", "2000000", "--log-level", "warn"]);
    ServerProcess::start(command, address)
}

/// A build of Tollgate with some rules.
struct Tollgate {
    build: &'static str,
    server: ServerProcess,
    /// Removed with this value.
    _folder: TempDir,
}

impl Tollgate {
    /// Starts each build so that `listener`, such as `--grpc`, is at the server's address.
    fn start(listener: &str, rules: &str, turns: &Turns) -> Result<Vec<Self>> {
        let builds = turns.builds()?.into_iter();
        builds.map(|(build, program)| Self::start_build(build, &program, listener, rules)).collect()
    }

    fn start_build(build: &'static str, program: &Path, listener: &str, rules: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("rules.yaml");
        fs::write(&file, rules)?;
        let address = free_address();
        let mut command = Command::new(program);
        command.arg("serve");
        for other in ["--grpc", "--http", "--admin"] {
            if other != listener {
                command.args([other, "127.0.0.1:0"]);
            }
        }
        command.args([listener, &address, "--rules"]).arg(file);
        command.arg("--data").arg(folder.path().join("data"));
        let server = ServerProcess::start(command, address)?;
        Ok(Self { build, server, _folder: folder })
    }

    fn contender(&self, name: &str, request: LoadRequest) -> Contender {
        contender(&format!("{}{name}", self.build), &self.server, request)
    }
}
