//! A master, a replica, and three sentinels who watch them.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{RedisServer, cli, free_port, wait_until};

/// How long a master is missed before it is replaced, in ms.
const DOWN_AFTER_MS: u32 = 500;
const SENTINELS: usize = 3;
const READY_MAX: Duration = Duration::from_secs(60);

/// A master, a replica, and three sentinels.
#[derive(Debug)]
pub struct RedisSentinel {
    /// The first master, then its replica.
    pub servers: Vec<RedisServer>,
    sentinels: Vec<(u16, Child)>,
    folder: tempfile::TempDir,
}

impl RedisSentinel {
    /// The name that the sentinels know the master by.
    pub const MASTER: &str = "main";

    /// Starts all five, and waits until they know each other.
    ///
    /// # Panics
    /// If that does not come about.
    #[expect(clippy::expect_used, reason = "a test that cannot go on says so by failing")]
    pub fn start() -> Self {
        let master = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]);
        let port = master.port().to_string();
        let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]);
        let folder = tempfile::tempdir().expect("a folder for the sentinels");
        let mut started = Self { servers: vec![master, replica], sentinels: Vec::new(), folder };
        for _ in 0..SENTINELS {
            started.add_sentinel(&port);
        }
        wait_until("the sentinels know each other and the replica", READY_MAX, || started.is_ready());
        started
    }

    #[expect(clippy::expect_used, reason = "a test that cannot go on says so by failing")]
    fn add_sentinel(&mut self, master_port: &str) {
        let port = free_port();
        let name = Self::MASTER;
        let config = self.folder.path().join(format!("{port}.conf"));
        let text = format!(
            "port {port}\nbind 127.0.0.1\nlogfile {folder}/{port}.log\ndir {folder}\n\
             sentinel monitor {name} 127.0.0.1 {master_port} 2\n\
             sentinel down-after-milliseconds {name} {DOWN_AFTER_MS}\n\
             sentinel failover-timeout {name} 3000\n",
            folder = self.folder.path().display(),
        );
        fs::write(&config, text).expect("a file for the sentinel");
        let child = Command::new(super::others::program())
            .arg(&config)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is not installed; run `cargo xtask setup`");
        self.sentinels.push((port, child));
    }

    fn is_ready(&self) -> bool {
        let knows = |(port, _): &(u16, Child)| {
            let said = cli(*port, &["info", "sentinel"]);
            said.contains("status=ok,") && said.contains("slaves=1,sentinels=3")
        };
        self.sentinels.iter().all(knows)
            && self
                .servers
                .iter()
                .any(|server| server.cli(&["info", "replication"]).contains("master_link_status:up"))
    }

    /// As `--store` takes it.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|(port, _)| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{}", hosts.join(","), Self::MASTER)
    }

    /// The port of the master, as the sentinels see it.
    pub fn master_port(&self) -> Option<u16> {
        let (port, _) = self.sentinels.first()?;
        let said = cli(*port, &["sentinel", "get-master-addr-by-name", Self::MASTER]);
        said.lines().nth(1)?.parse().ok()
    }

    /// Asks a sentinel to replace the master by hand.
    pub fn fail_over(&self) -> String {
        let port = self.sentinels.first().map_or(0, |(port, _)| *port);
        cli(port, &["sentinel", "failover", Self::MASTER])
    }
}

impl Drop for RedisSentinel {
    fn drop(&mut self) {
        for (_, child) in &mut self.sentinels {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}
