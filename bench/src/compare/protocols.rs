//! Who is compared over gRPC, HTTP and RESP, and what each is sent.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tollgate_load::LoadProtocol;
use tollgate_load::plan::{DescriptorCheck, LoadRequest};
use tollgate_testkit::RedisServer;

use super::server_process::{CoreSplit, ServerProcess, free_address, peer, program};
use super::{Concurrency, Contender, Turns, compare, compare_alone};
use crate::report::Section;

/// Commands in a pipeline, on each of 50 connections.
const PIPELINES: [usize; 3] = [1, 16, 64];
/// A limit that allows everything that a run asks for, and whose keys stay for the six seconds in which a token comes
/// back, as those of INCR do for ever.
const GENEROUS: &str = "domain: bench\ndescriptors:\n  - key: user_id\n    rate_limit: \
    { algorithm: token_bucket, requests_per_unit: 600, unit: hour, burst: 1000 }\n";
const THROTTLE: &str = "THROTTLE user:{key} 1000 600 3600";
/// A token comes back after a quarter of a second, and with it the key is as good as new; a million keys are met
/// about twice a second each, so that most expire in between.
const SHORT_THROTTLE: &str = "THROTTLE user:{key} 20 20 5";
const SHORT_SET: &str = "SET user:{key} 1 PX 250";

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
    let rules = include_str!("../../../examples/plans.yaml");
    let tollgates = Tollgate::start("--grpc", rules, |program| Command::new(program), turns)?;
    let contender = |name: &str, server: &ServerProcess| contender(name, server, check.clone());
    let mut contenders = vec![contender("empty tonic server", &tonic), contender("empty h2 server", &h2)];
    contenders.extend(tollgates.iter().map(|tollgate| tollgate.contender("tollgate", check.clone())));
    let concurrency = Concurrency { connections: 4, in_flight: 32 };
    compare("gRPC, 4 connections × 32 in flight", &contenders, concurrency, turns)?
        .into_section("grpc", section);
    Ok(())
}

/// A check by throttlecrab-server and by Tollgate, each on a core of its own.
pub(super) fn http(turns: &Turns, section: &mut Section) -> Result<()> {
    let cores = CoreSplit::new()?;
    let throttlecrab = throttlecrab("http", &cores)?;
    let tollgates = Tollgate::start("--http", GENEROUS, |program| cores.server(program), turns)?;
    let body = r#"{"key":"user:{key}","max_burst":1000,"count_per_period":600,"period":3600}"#;
    let post = LoadRequest::Post { path: "/throttle".to_owned(), body: body.to_owned() };
    let check = check(LoadProtocol::Http, "bench", &[("user_id", "user:{key}")]);
    let mut contenders = vec![contender("throttlecrab-server /throttle", &throttlecrab, post)];
    contenders
        .extend(tollgates.iter().map(|tollgate| tollgate.contender("tollgate /v1/check", check.clone())));
    let concurrency = Concurrency { connections: 50, in_flight: 1 };
    compare("HTTP, 50 connections", &contenders, concurrency, turns)?.into_section("http", section);
    Ok(())
}

/// A command of redis-server, Tollgate and throttlecrab-server, in pipelines of several lengths, each server on
/// a core of its own; and once more with keys that expire all the time.
pub(super) fn resp(turns: &Turns, section: &mut Section) -> Result<()> {
    let cores = CoreSplit::new()?;
    let redis = RedisServer::start();
    let redis_pid = redis_pid(&redis)?;
    cores.move_server(redis_pid)?;
    let throttlecrab = throttlecrab("redis", &cores)?;
    let tollgates = Tollgate::start("--resp", GENEROUS, |program| cores.server(program), turns)?;
    let check = check(LoadProtocol::Resp, "bench", &[("user_id", "user:{key}")]);
    let of_redis = |words: &str| Contender {
        name: format!("redis-server {}", words.split(' ').next().unwrap_or_default()),
        address: format!("127.0.0.1:{}", redis.port()),
        pid: redis_pid,
        request: command(words),
    };
    let of_throttlecrab =
        |words: &str| contender("throttlecrab-server THROTTLE", &throttlecrab, command(words));
    let mut contenders = vec![of_redis("INCR user:{key}"), of_throttlecrab(THROTTLE)];
    for tollgate in &tollgates {
        if !tollgate.is_without_history {
            contenders.push(tollgate.contender("tollgate THROTTLE", command(THROTTLE)));
        }
        contenders.push(tollgate.contender("tollgate TOLLGATE.CHECK", check.clone()));
    }
    for pipeline in PIPELINES {
        let title = format!("RESP, 50 connections, pipeline of {pipeline}");
        let concurrency = Concurrency { connections: 50, in_flight: pipeline };
        let contest = compare(&title, &contenders, concurrency, turns)?;
        contest.into_section(&format!("resp-{pipeline}"), section);
    }
    redis.cli(&["flushall"]);
    let mut expiring = vec![of_redis(SHORT_SET), of_throttlecrab(SHORT_THROTTLE)];
    expiring.extend(
        tollgates
            .iter()
            .filter(|tollgate| !tollgate.is_without_history)
            .map(|tollgate| tollgate.contender("tollgate THROTTLE", command(SHORT_THROTTLE))),
    );
    let concurrency = Concurrency { connections: 50, in_flight: 16 };
    compare_alone("RESP, pipeline of 16, keys that expire", &expiring, concurrency, turns)?
        .into_section("resp-expiry", section);
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
fn throttlecrab(protocol: &str, cores: &CoreSplit) -> Result<ServerProcess> {
    let address = free_address();
    let (host, port) = address.split_once(':').context("an address has a port")?;
    let mut command = cores.server(&peer("throttlecrab-server")?);
    command.arg(format!("--{protocol}")).args([&format!("--{protocol}-host"), host]);
    command.args([&format!("--{protocol}-port"), port]);
    command.args(["--store", "adaptive", "--store-capacity", "2000000", "--log-level", "warn"]);
    ServerProcess::start(command, address)
}

/// A build of Tollgate with some rules.
struct Tollgate {
    build: &'static str,
    /// It keeps no history: what that saves is what the history costs.
    is_without_history: bool,
    server: ServerProcess,
    /// Removed with this value.
    _folder: TempDir,
}

impl Tollgate {
    /// Starts each build so that `listener`, such as `--grpc`, is at the server's address, and this one once more
    /// without a history; `command` begins the command of a program.
    fn start(
        listener: &str,
        rules: &str,
        command: impl Fn(&Path) -> Command,
        turns: &Turns,
    ) -> Result<Vec<Self>> {
        let builds = turns.builds()?;
        let without = builds.first().cloned().map(|build| (build, true));
        let all = builds.into_iter().map(|build| (build, false)).chain(without);
        all.map(|((build, program), is_without_history)| {
            let folder = tempfile::tempdir()?;
            let mut command = command(&program);
            if is_without_history {
                command.env("TOLLGATE_HISTORY", "false");
            }
            let server = Self::start_build(command, listener, rules, folder.path())?;
            Ok(Self { build, is_without_history, server, _folder: folder })
        })
        .collect()
    }

    fn start_build(
        mut command: Command,
        listener: &str,
        rules: &str,
        folder: &Path,
    ) -> Result<ServerProcess> {
        let file = folder.join("rules.yaml");
        fs::write(&file, rules)?;
        let address = free_address();
        command.arg("serve");
        for other in ["--grpc", "--http", "--admin"] {
            if other != listener {
                command.args([other, "127.0.0.1:0"]);
            }
        }
        command.args([listener, &address, "--rules"]).arg(file);
        command.arg("--data").arg(folder.join("data"));
        ServerProcess::start(command, address)
    }

    fn contender(&self, name: &str, request: LoadRequest) -> Contender {
        let without = if self.is_without_history { ", no history" } else { "" };
        contender(&format!("{}{name}{without}", self.build), &self.server, request)
    }
}
