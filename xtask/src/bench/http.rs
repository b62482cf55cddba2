//! On demand: what a check over HTTP costs, beside `throttlecrab-server`, in one run.
//!
//! Starts both, loads one after the other with `wrk` on 50 connections with random keys, several
//! rounds, and prints medians. Every limit lets everything pass, so that each check writes.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::rounds::{Figures, Row, table};
use super::tools;
use super::under_load::{Server, free_address, generous_rules, port};
use crate::process::Invocation;

const ROUNDS: usize = 3;
const SECONDS: &str = "3s";
/// A million users.
const KEYS: u32 = 1_000_000;

/// One server, and what it is asked.
struct Peer {
    server: Server,
    path: &'static str,
    /// A body of JSON, with `%d` for the number of the user.
    body: &'static str,
}

/// Loads both and prints a table.
pub(crate) fn run() -> Result<()> {
    let wrk = tools::from_debian("wrk", "--version")?;
    let peers = [throttlecrab()?, tollgate()?];
    let mut rows = peers
        .each_ref()
        .map(|peer| Row { name: format!("{} {}", peer.server.name(), peer.path), rounds: Vec::new() });
    for _ in 0..ROUNDS {
        for (row, peer) in rows.iter_mut().zip(&peers) {
            row.rounds.push(peer.load(wrk)?);
        }
    }
    println!("{}", table("HTTP", &rows));
    Ok(())
}

fn throttlecrab() -> Result<Peer> {
    let (mut program, address) = (Command::new(tools::throttlecrab()?), free_address()?);
    program.args(["--http", "--http-host", "127.0.0.1", "--http-port", port(&address)]);
    program.args(["--store", "adaptive", "--store-capacity", "2000000", "--log-level", "warn"]);
    program.stdout(Stdio::null());
    Ok(Peer {
        server: Server::start("throttlecrab-server", program, address)?,
        path: "/throttle",
        body: r#"{"key":"user:%d","max_burst":1000000,"count_per_period":1000000,"period":1}"#,
    })
}

fn tollgate() -> Result<Peer> {
    let (mut program, address) = (Command::new(tools::tollgate()?), free_address()?);
    program.args(["serve", "--http", &address, "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    program.arg("--rules").arg(generous_rules()?).stderr(Stdio::null());
    program.arg("--data").arg(tools::folder()?.join("tollgate-data"));
    Ok(Peer {
        server: Server::start("tollgate", program, address)?,
        path: "/v1/check",
        body: r#"{"domain":"bench","descriptors":[{"user_id":"user:%d"}]}"#,
    })
}

impl Peer {
    fn load(&self, wrk: &str) -> Result<Figures> {
        let script = tools::folder()?.join(format!("{}.lua", self.server.name()));
        fs::write(&script, self.script()).context("cannot write a script for wrk")?;
        let script = script.to_str().context("the path of the target folder is not UTF-8")?;
        let url = format!("http://{}", self.server.address());
        let before = self.server.cpu_ms()?;
        let arguments = ["-t1", "-c50", "-d", SECONDS, "--latency", "-s", script, &url];
        let printed = Invocation::new(wrk, &arguments).capture()?;
        told(&printed, self.server.cpu_ms()? - before)
    }

    /// What has wrk ask about another user each time.
    fn script(&self) -> String {
        let Self { path, body, .. } = self;
        format!(
            "request = function()\n  \
             local body = string.format('{body}', math.random({KEYS}))\n  \
             return wrk.format('POST', '{path}', {{ ['content-type'] = 'application/json' }}, body)\n\
             end\n"
        )
    }
}

/// What wrk printed, and what the server used meanwhile.
#[expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "for people to read"
)]
fn told(printed: &str, cpu_ms: u64) -> Result<Figures> {
    if printed.contains("Non-2xx") || printed.contains("Socket errors") {
        bail!("some were not answered:\n{printed}");
    }
    let after = |word: &str| {
        let line = printed.lines().find_map(|line| line.trim().strip_prefix(word));
        line.map(str::trim).with_context(|| format!("wrk does not tell {word}:\n{printed}"))
    };
    let answered = printed.lines().find_map(|line| line.trim().split_once(" requests in "));
    let answered: f64 = answered.and_then(|(count, _)| count.parse().ok()).context("wrk counts nothing")?;
    Ok(Figures {
        per_second: after("Requests/sec:")?.parse().context("wrk tells no number a second")?,
        cpu_us: cpu_ms as f64 * 1_000.0 / answered,
        p50_us: micros(after("50%")?)?,
        p99_us: micros(after("99%")?)?,
    })
}

/// A time as wrk prints it.
#[expect(clippy::float_arithmetic, reason = "for people to read")]
fn micros(text: &str) -> Result<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1_000.0,
        "s" => 1_000_000.0,
        _ => bail!("'{text}' is no time that wrk prints"),
    };
    Ok(number.parse::<f64>().with_context(|| format!("'{text}' is no time that wrk prints"))? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "Running 3s test @ http://127.0.0.1:1\n  Latency Distribution\n     50%  794.00us\n     \
        99%   16.39ms\n  200000 requests in 3.10s, 41.10MB read\nRequests/sec:  31272.22\n";

    #[test]
    fn what_wrk_prints_is_understood() {
        let figures = told(PRINTED, 4_000).unwrap();
        let expected = Figures { per_second: 31_272.22, cpu_us: 20.0, p50_us: 794.0, p99_us: 16_390.0 };
        assert_eq!(figures, expected);
        let failed = told(&format!("{PRINTED}  Non-2xx or 3xx responses: 7\n"), 4_000);
        assert!(failed.unwrap_err().to_string().contains("responses: 7"));
        assert!(micros("7 parsecs").is_err());
    }
}
