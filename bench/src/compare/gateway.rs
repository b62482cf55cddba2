//! Proxies with limits beside each other, in front of one upstream: Tollgate's gateway, nginx with `limit_req`,
//! HAProxy with a stick table.
//!
//! Every proxy has one core, and the upstream and the load have the other, so that each proxy has one thread of
//! work and its CPU time for a request is what it takes. Each is measured without limits, with a million keys that
//! are all allowed, and denying everything.
//!
//! What limits add is a small part of what proxying takes, and less than what a noisy machine makes of that from one
//! second to the next. So requests that pass are measured in many short turns, each proxy without limits and at once
//! with them, and what is told is the median of these differences. Before that, each proxy with limits is asked a
//! million times, so that most keys are known.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;
use tollgate_load::plan::{LoadRequest, RunLength};

use super::server_process::{CoreSplit, ServerProcess, free_address};
use super::{Concurrency, Contender, LoadTurn, TurnLength, Turns, compare, compare_for};
use crate::report::Section;

const CONCURRENCY: Concurrency = Concurrency { connections: 64, in_flight: 1 };
/// The core of the proxies, and the one of everything else.
const CORES: [&str; 2] = ["0", "1"];

/// Turns of requests that pass, for each of `cargo xtask bench`.
const SHORT_TURNS: u32 = 12;
const SHORT_WARM_UP: Duration = Duration::from_millis(100);
const SHORT_TURN: Duration = Duration::from_millis(400);
/// How often a proxy with limits is asked before the first turn, and with what seed, which no turn has.
const FILLING: LoadTurn =
    LoadTurn { seed: u32::MAX, warm_up: Duration::ZERO, length: RunLength::Count(1_000_000) };

/// What a proxy limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProxyLimits {
    Off,
    /// By a header; everything is allowed.
    ByKey,
    /// Everything is denied but the first request.
    DenyAll,
}

/// A proxy that is measured.
struct Proxy {
    name: String,
    server: ServerProcess,
}

/// Requests that pass, with limits and without, and requests that are denied.
pub(super) fn run(turns: &Turns, section: &mut Section) -> Result<()> {
    let _cores = CoreSplit::new()?;
    let folder = tempfile::tempdir()?;
    let upstream = nginx(&folder, "upstream", "return 200 hello;", "", CORES[1])?;
    let start = |limits| -> Result<Vec<Proxy>> {
        let names = match limits {
            ProxyLimits::Off => ["nginx", "HAProxy", "tollgate"],
            ProxyLimits::ByKey => ["nginx limit_req", "HAProxy stick table", "tollgate, a million keys"],
            ProxyLimits::DenyAll => ["nginx limit_req", "HAProxy stick table", "tollgate"],
        };
        let [nginx, haproxy, own] = names.map(str::to_owned);
        let mut proxies = vec![
            Proxy { name: nginx, server: nginx_proxy(&folder, &upstream, limits)? },
            Proxy { name: haproxy, server: self::haproxy(&folder, &upstream, limits)? },
        ];
        for (build, program) in turns.builds()? {
            let server = tollgate(&folder, &upstream, (limits, &program))?;
            proxies.push(Proxy { name: format!("{build}{own}"), server });
        }
        Ok(proxies)
    };
    let (off, on, deny) =
        (start(ProxyLimits::Off)?, start(ProxyLimits::ByKey)?, start(ProxyLimits::DenyAll)?);
    let passing: Vec<Contender> =
        off.iter().zip(&on).flat_map(|(off, on)| [off, on]).map(contender).collect();
    let (count, warm_up, length) = (turns.count * SHORT_TURNS, SHORT_WARM_UP, SHORT_TURN);
    let short = TurnLength { count, warm_up, length, are_others_held: false };
    for proxy in &on {
        contender(proxy).load_turn(CONCURRENCY, FILLING)?;
    }
    let contest = compare_for("gateway, requests that pass", &passing, CONCURRENCY, short)?;
    contest.say_pairs("gateway, what limiting adds", section);
    contest.into_section("gateway-pass", section);
    let denied: Vec<Contender> = deny.iter().map(contender).collect();
    compare("gateway, denials", &denied, CONCURRENCY, turns)?.into_section("gateway-deny", section);
    Ok(())
}

fn contender(proxy: &Proxy) -> Contender {
    Contender {
        name: proxy.name.clone(),
        address: proxy.server.address().to_owned(),
        pid: proxy.server.pid(),
        request: LoadRequest::Get { path: "/".to_owned(), header: "x-key: k{key}".to_owned() },
    }
}

/// A program on one core; `taskset` becomes the program, so that its process is the server's.
fn pinned(core: &str, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core, program]);
    command
}

/// nginx with one location.
fn nginx(folder: &TempDir, name: &str, location: &str, http: &str, core: &str) -> Result<ServerProcess> {
    let (address, root) = (free_address(), folder.path().display());
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = kinds.map(|kind| format!("{kind}_temp_path {root}/{name}-{kind};")).join(" ");
    let configuration = format!(
        "events {{ worker_connections 4096; }}\nhttp {{ access_log off; {temporary} keepalive_requests 100000000;\n\
         {http}\nserver {{ listen {address} backlog=4096; location / {{ {location} }} }} }}\n"
    );
    let file = folder.path().join(format!("{name}.conf"));
    fs::write(&file, configuration)?;
    let mut command = pinned(core, "nginx");
    let globals = format!("daemon off; master_process off; pid {root}/{name}.pid;");
    command.arg("-p").arg(folder.path()).arg("-c").arg(file).args(["-e", "stderr", "-g", &globals]);
    ServerProcess::start(command, address)
}

fn nginx_proxy(folder: &TempDir, upstream: &ServerProcess, limits: ProxyLimits) -> Result<ServerProcess> {
    let forward = "proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection \"\";";
    let (zone, limit) = match limits {
        ProxyLimits::Off => ("", ""),
        ProxyLimits::ByKey => (
            "limit_req_zone $http_x_key zone=z:256m rate=1000000r/s; limit_req_status 429; limit_req_log_level info;",
            "limit_req zone=z burst=100000 nodelay;",
        ),
        ProxyLimits::DenyAll => (
            "limit_req_zone $server_port zone=z:1m rate=1r/m; limit_req_status 429; limit_req_log_level info;",
            "limit_req zone=z;",
        ),
    };
    let http = format!("{zone} upstream u {{ server {}; keepalive 256; }}", upstream.address());
    nginx(folder, &format!("nginx-{limits:?}"), &format!("{limit} {forward}"), &http, CORES[0])
}

fn haproxy(folder: &TempDir, upstream: &ServerProcess, limits: ProxyLimits) -> Result<ServerProcess> {
    let address = free_address();
    let limit = match limits {
        ProxyLimits::Off => "",
        ProxyLimits::ByKey => {
            "  stick-table type string len 16 size 1m expire 1h store http_req_rate(1s)\n\
             \x20 http-request track-sc0 req.hdr(x-key)\n\
             \x20 http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000 }\n"
        }
        ProxyLimits::DenyAll => {
            "  stick-table type integer size 1k expire 600s store http_req_rate(60s)\n\
             \x20 http-request track-sc0 dst_port\n\
             \x20 http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1 }\n"
        }
    };
    let configuration = format!(
        "global\n  nbthread 1\n  maxconn 4096\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  \
         timeout server 60s\n  http-reuse always\nfrontend f\n  bind {address}\n{limit}  default_backend b\n\
         backend b\n  server s {}\n",
        upstream.address()
    );
    let file = folder.path().join(format!("haproxy-{limits:?}.cfg"));
    fs::write(&file, configuration)?;
    let mut command = pinned(CORES[0], "haproxy");
    command.args(["-db", "-f"]).arg(file);
    ServerProcess::start(command, address)
}

fn tollgate(
    folder: &TempDir,
    upstream: &ServerProcess,
    (limits, program): (ProxyLimits, &Path),
) -> Result<ServerProcess> {
    let own = tempfile::tempdir_in(folder)?.keep();
    let (action, limit) = match limits {
        // Nobody sends it, so that no descriptor is made.
        ProxyLimits::Off => ("request_header: { header_name: x-none, descriptor_key: key }", GENEROUS),
        ProxyLimits::ByKey => ("request_header: { header_name: x-key, descriptor_key: key }", GENEROUS),
        ProxyLimits::DenyAll => ("generic_key: { descriptor_key: key, descriptor_value: all }", ONE_AN_HOUR),
    };
    fs::write(
        own.join("tollgate.yaml"),
        format!("mapping: {{ domain: bench, descriptors: [[{{ {action} }}]] }}\n"),
    )?;
    let rules = format!("domain: bench\ndescriptors:\n  - key: key\n    rate_limit: {limit}\n");
    fs::write(own.join("rules.yaml"), rules)?;
    let address = free_address();
    let mut command = pinned(CORES[0], &program.to_string_lossy());
    command.current_dir(&own).args(["serve", "--rules", "rules.yaml", "--gateway", &address]);
    command.args(["--upstream", &format!("http://{}", upstream.address())]);
    for other in ["--grpc", "--http", "--admin"] {
        command.args([other, "127.0.0.1:0"]);
    }
    ServerProcess::start(command, address)
}

/// Allows everything that a run asks for, and keeps a key for the hour in which a token comes back, as HAProxy does;
/// nginx may forget one that was not asked for a minute.
const GENEROUS: &str = "{ algorithm: token_bucket, requests_per_unit: 1, unit: hour, burst: 1000 }";
const ONE_AN_HOUR: &str = "{ algorithm: token_bucket, requests_per_unit: 1, unit: hour }";
