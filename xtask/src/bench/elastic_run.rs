//! The step `bench-elastic`: a gateway with an elastic limit, an upstream with a fixed capacity, and a crowd.
//!
//! | module | what it holds |
//! |---|---|
//! | `upstream` | an API that serves so many requests at a time and takes the same time for each |
//! | `crowd` | customers that send at a steady rate, whatever they are answered |
//!
//! Three phases for each set of rules: one customer within its limit, the same customer as greedy as the
//! allowance lets it be, and all customers at once. It prints what was offered and served, and the
//! upstream's own latency, median and 95th percentile, beside that of the first phase. The argument is another build of `tollgate` than the release build.

mod crowd;
mod upstream;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::process::Invocation;
use crate::workspace;
use crowd::Customer;
use upstream::{SERVICE_TIME, SLOTS, SlowUpstream};

/// Rules that an operator might choose.
struct ElasticRules {
    /// What is remarkable about them.
    name: &'static str,
    /// What a customer may send a second, in the words of a rule file.
    limit: &'static str,
    /// What one sends that stays within its limit.
    within: u32,
}

const RULES: [ElasticRules; 2] = [
    ElasticRules {
        name: "50 a second by a sliding_counter, three times as much below 70 %: for one customer at a time",
        limit: "algorithm: sliding_counter, requests_per_unit: 50, unit: second, \
                throttle: { elastic: { exceed: 200%, below_load: 70% } }",
        within: 45,
    },
    ElasticRules {
        name: "35 a second by a token_bucket of 2, half as much more below 70 %: for all of them together",
        limit: "algorithm: token_bucket, requests_per_unit: 35, unit: second, burst: 2, \
                throttle: { elastic: { exceed: 50%, below_load: 70% } }",
        within: 31,
    },
];
/// Long enough for the load to fall after the one before: it halves in ten seconds.
const PHASE: Duration = Duration::from_secs(30);
/// The first seconds of a phase, which belong to the one before.
const SETTLING: Duration = Duration::from_secs(3);

/// A server that is killed with this value.
struct GatewayProcess(Child);

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        // It has ended already, or ends now.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Runs it.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let program = match arguments {
        [] => {
            Invocation::new("cargo", &["build", "--release", "--locked", "-p", "tollgate-cli"]).run()?;
            workspace::target()?.join("release/tollgate").to_string_lossy().into_owned()
        }
        // It is started in another folder.
        [program] => fs::canonicalize(program)
            .with_context(|| format!("there is no {program}"))?
            .to_string_lossy()
            .into_owned(),
        _ => bail!("one argument at most: another build of tollgate"),
    };
    let slots = u32::try_from(SLOTS)?;
    println!("the upstream serves {} a second", slots * 1_000 / u32::try_from(SERVICE_TIME.as_millis())?);
    RULES.iter().try_for_each(|rules| run_phases(&program, rules))
}

/// Runs a gateway with these rules through all phases.
fn run_phases(program: &str, rules: &ElasticRules) -> Result<()> {
    let upstream = SlowUpstream::start()?;
    let (_process, gateway) = start(program, upstream.address(), rules)?;
    println!("\n{}\n", rules.name);
    println!(
        "{:<34} {:>8} {:>8} {:>8} {:>10} {:>6} {:>10} {:>6}",
        "phase", "offered", "served", "denied", "median", "", "p95", ""
    );
    let mut base = None;
    let phases: [(&str, &[(&str, u32)]); 3] = [
        ("one customer, within its limit", &[("/a", rules.within)]),
        ("one customer, greedy", &[("/a", 170)]),
        ("three customers, greedy", &[("/a", 170), ("/b", 170), ("/c", 170)]),
    ];
    for (name, customers) in phases {
        let crowd: Vec<Customer> =
            customers.iter().map(|(path, rate)| Customer::start(gateway, path, *rate)).collect();
        std::thread::park_timeout(SETTLING);
        upstream.take();
        let before = totals(&crowd);
        std::thread::park_timeout(PHASE);
        let (latencies, after) = (upstream.take(), totals(&crowd));
        drop(crowd);
        let [served, denied] = [after[0] - before[0], after[1] - before[1]];
        let seconds = PHASE.as_secs();
        let percentiles = [latencies.percentile(50), latencies.percentile(95)];
        let base = *base.get_or_insert(percentiles);
        let offered: u32 = customers.iter().map(|(_, rate)| rate).sum();
        print!("{name:<34} {offered:>6}/s {:>6}/s {:>6}/s", served / seconds, denied / seconds);
        for (own, base) in percentiles.into_iter().zip(base) {
            print!(" {own:>7} us {:>5}%", own * 100 / base.max(1));
        }
        println!();
    }
    Ok(())
}

fn totals(crowd: &[Customer]) -> [u64; 2] {
    crowd.iter().map(Customer::counts).fold([0, 0], |sum, own| [sum[0] + own[0], sum[1] + own[1]])
}

/// Starts a gateway in front of the upstream, with the upstream as its only source of load.
fn start(program: &str, upstream: SocketAddr, rules: &ElasticRules) -> Result<(GatewayProcess, SocketAddr)> {
    let folder = workspace::target()?.join("tmp/elastic-run");
    fs::create_dir_all(&folder)?;
    let limit = format!("{{ name: customer, {} }}", rules.limit);
    let text = format!(
        "domain: gateway\ndescriptors:\n  - key: method\n    descriptors:\n      - {{ key: path, rate_limit: {limit} }}\n"
    );
    fs::write(folder.join("rules.yaml"), text)?;
    let mut command = Command::new(program);
    let any = "127.0.0.1:0";
    command.args(["serve", "--rules", "rules.yaml", "--data", "data", "--gateway", any]);
    command.args(["--http", any, "--grpc", any, "--admin", any, "--upstream", &format!("http://{upstream}")]);
    command.env_clear().env("TOLLGATE_LOAD_HOST", "false").current_dir(&folder).stderr(Stdio::piped());
    let mut process = GatewayProcess(command.spawn().with_context(|| format!("cannot start {program}"))?);
    let log = process.0.stderr.take().context("its log is piped")?;
    let (mut lines, mut address) = (BufReader::new(log).lines(), None);
    for line in lines.by_ref() {
        let line = line?;
        if let Some((_, rest)) = line.split_once("the gateway (HTTP/1.1, HTTP/2) listens on ") {
            address = rest.split(' ').next().and_then(|text| text.parse().ok());
        }
        if line.contains("rules loaded") {
            break;
        }
    }
    // A pipe that nobody reads would hold the server up.
    std::thread::spawn(move || lines.for_each(drop));
    Ok((process, address.context("the gateway does not say where it listens")?))
}
