//! The gateway as a process between real programs: nginx and a hyper server behind it, curl, h2load, wrk and
//! Python's websockets before it.
//!
//! | module | what it shows |
//! |---|---|
//! | `bodies` | curl and nginx: bodies of every size and kind arrive byte for byte, over HTTP/1.1 and HTTP/2 |
//! | `load` | wrk and h2load: nothing is lost under load |
//! | `logs` | the first lines, and the access log |
//! | `memory` | large bodies and thousands of idle connections, in bytes of this process |
//! | `tunnels` | Python's websockets through it |
//! | `hyper_upstream`, `nginx` | what stands behind it |
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

mod bodies;
mod hyper_upstream;
mod load;
mod logs;
mod memory;
mod nginx;
mod tunnels;

use std::net::SocketAddr;
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::serve::Serving;

/// A rule that this many requests never meet, so that every request is decided.
const RULES: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    \
                     rate_limit: { algorithm: token_bucket, requests_per_unit: 1000000, unit: second }\n";

/// A gateway in front of an upstream, ended with this value.
struct GatewayProcess {
    serving: Serving,
    address: SocketAddr,
    /// Removed with this value.
    _folder: TempDir,
}

impl GatewayProcess {
    fn start(upstream: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("rules")).unwrap();
        std::fs::write(folder.path().join("rules/gateway.yaml"), RULES).unwrap();
        let upstream = format!("http://{upstream}");
        let flags = ["--gateway", "127.0.0.1:0", "--upstream", &upstream];
        let mut serving = Serving::start(folder.path(), &flags);
        let words = serving.until("the gateway (HTTP/1.1, HTTP/2) listens on ");
        let address = words.split(' ').next().unwrap().parse().unwrap();
        serving.until("try: ");
        Self { serving, address, _folder: folder }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A line of `/proc/PID/status`, in KB.
    fn memory_kb(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.serving.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

/// What a program prints; it must succeed.
fn output(program: &str, arguments: &[&str]) -> Vec<u8> {
    let run = Command::new(program).args(arguments).output();
    let run = run.unwrap_or_else(|error| panic!("{program}: {error}; cargo xtask setup installs it"));
    let complaint = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{program} {arguments:?}: {}: {complaint}", run.status);
    run.stdout
}

/// How long it takes until the bytes of [`pattern`] repeat: a prime, so that no buffer is as long.
const PERIOD: usize = 65_521;

/// Bytes that differ from place to place, so that lost, doubled or swapped ones show.
fn pattern(from: usize, length: usize) -> Vec<u8> {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let bytes = (0..PERIOD).map(|place| (place * place / 7 + place) % 251);
        bytes.map(|byte| u8::try_from(byte).unwrap()).collect()
    });
    let mut made = Vec::with_capacity(length);
    while made.len() < length {
        let start = (from + made.len()) % PERIOD;
        let end = PERIOD.min(start + length - made.len());
        made.extend_from_slice(&BYTES[start..end]);
    }
    made
}
