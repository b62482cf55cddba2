//! What the benchmarks share: servers that are started, watched and killed.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};

use anyhow::{Context as _, Result, bail};

use super::tools;
use crate::process::Invocation;

/// How often a server that starts is looked at.
const LOOKS_MAX: usize = 500;

/// An address on which nobody listens.
pub(super) fn free_address() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot find a free port")?;
    Ok(listener.local_addr().context("cannot find a free port")?.to_string())
}

/// The port of an address.
pub(super) fn port(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or_default()
}

/// A file of rules for the domain `bench` that let everything pass.
pub(super) fn generous_rules() -> Result<PathBuf> {
    let path = tools::folder()?.join("generous.yaml");
    let limit = "{ algorithm: token_bucket, requests_per_unit: 1000000, unit: second }";
    let text = format!("domain: bench\ndescriptors:\n  - key: user_id\n    rate_limit: {limit}\n");
    fs::write(&path, text).context("cannot write rules")?;
    Ok(path)
}

/// A server under load; killed with this value.
pub(super) struct Server {
    name: &'static str,
    address: String,
    child: Child,
}

impl Server {
    /// Starts it, and waits until it listens.
    pub(super) fn start(name: &'static str, mut command: Command, address: String) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let mut server = Self { name, address, child };
        for _ in 0..LOOKS_MAX {
            if TcpStream::connect(&server.address).is_ok() {
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait().context("cannot look at a server")? {
                bail!("{name} ended with {status}");
            }
            Invocation::new("sleep", &["0.02"]).capture()?;
        }
        bail!("{name} does not listen on {}", server.address)
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn id(&self) -> String {
        self.child.id().to_string()
    }

    /// The CPU time that it has taken so far, in steps of 10 ms.
    pub(super) fn cpu_ms(&self) -> Result<u64> {
        let stat =
            fs::read_to_string(format!("/proc/{}/stat", self.child.id())).context("there is no /proc")?;
        // The name of the program, which may hold anything, ends with the last bracket.
        let (_, after) = stat.rsplit_once(')').context("what is in /proc is not understood")?;
        let ticks: Option<u64> = after.split(' ').skip(12).take(2).map(|text| text.parse::<u64>().ok()).sum();
        Ok(ticks.context("what is in /proc is not understood")? * 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A number of a flat JSON object.
pub(super) fn number(json: &str, name: &str) -> Option<f64> {
    let (_, after) = json.split_once(&format!("\"{name}\":"))?;
    after.split([',', '}']).next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_name() {
        let json = r#"{"a":1.5,"b": 2 ,"server_us":7.25}"#;
        assert_eq!(number(json, "a"), Some(1.5));
        assert_eq!(number(json, "b"), Some(2.0));
        assert_eq!(number(json, "server_us"), Some(7.25));
        assert_eq!(number(json, "c"), None);
    }
}
