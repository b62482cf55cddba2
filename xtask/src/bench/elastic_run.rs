//! The step `bench-elastic`: a gateway with an elastic limit, an upstream with a fixed capacity, and a crowd.
//!
//! | module | what it holds |
//! |---|---|
//! | `upstream` | an API that serves so many requests at a time and takes the same time for each |
//! | `crowd` | customers that send at a steady rate, whatever they are answered |
//!
//! Three phases: one customer within its limit, the same customer as greedy as the allowance lets it be,
//! and all customers at once. It prints what was offered and served, and the upstream's own latency beside
//! that of the first phase. The argument is another build of `tollgate` than the release build.

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

/// What a customer may send a second, and three times as much while there is room.
const LIMIT: u32 = 50;
const RULES: &str = "\
domain: gateway
descriptors:
  - key: method
    descriptors:
      - key: path
        rate_limit:
          name: customer
          algorithm: sliding_counter
          requests_per_unit: 50
          unit: second
          throttle: { elastic: { exceed: 200%, below_load: 70% } }
";
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
    let upstream = SlowUpstream::start()?;
    let (_process, gateway) = start(&program, upstream.address())?;
    let slots = u32::try_from(SLOTS)?;
    let capacity = slots * 1_000 / u32::try_from(SERVICE_TIME.as_millis())?;
    println!(
        "the upstream serves {capacity} a second; a customer may send {LIMIT}, and {} while the load is below 70 %\n",
        3 * LIMIT
    );
    println!(
        "{:<34} {:>8} {:>8} {:>8} {:>10} {:>10} {:>7}",
        "phase", "offered", "served", "denied", "median", "p95", "ratio"
    );
    let mut base = None;
    let phases: [(&str, &[(&str, u32)]); 3] = [
        ("one customer, within its limit", &[("/a", 45)]),
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
        let median = latencies.percentile(50);
        let base = *base.get_or_insert(median);
        let offered: u32 = customers.iter().map(|(_, rate)| rate).sum();
        println!(
            "{name:<34} {offered:>6}/s {:>6}/s {:>6}/s {:>7} us {:>7} us {:>6}%",
            served / seconds,
            denied / seconds,
            median,
            latencies.percentile(95),
            median * 100 / base.max(1),
        );
    }
    Ok(())
}

fn totals(crowd: &[Customer]) -> [u64; 2] {
    crowd.iter().map(Customer::counts).fold([0, 0], |sum, own| [sum[0] + own[0], sum[1] + own[1]])
}

/// Starts a gateway in front of the upstream, with the upstream as its only source of load.
fn start(program: &str, upstream: SocketAddr) -> Result<(GatewayProcess, SocketAddr)> {
    let folder = workspace::target()?.join("tmp/elastic-run");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("rules.yaml"), RULES)?;
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
