//! A cluster of three masters, each with a replica.

use std::time::Duration;

use super::{RedisServer, cli, wait_until};

/// How long a server is missed before it is voted out, in ms.
const NODE_TIMEOUT_MS: &str = "1000";
/// Forming a cluster takes some seconds of gossip.
const FORM_MAX: Duration = Duration::from_secs(60);

/// Three masters and three replicas.
#[derive(Debug)]
pub struct RedisCluster {
    /// All six; which are masters changes.
    pub servers: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts six servers and makes a cluster of them.
    ///
    /// # Panics
    /// If that does not come about.
    pub fn start() -> Self {
        let arguments = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            NODE_TIMEOUT_MS,
            "--cluster-replica-validity-factor",
            "0",
            "--repl-diskless-sync-delay",
            "0",
        ];
        let servers: Vec<_> = (0..6).map(|_| RedisServer::start_with(&arguments)).collect();
        let addresses: Vec<_> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        let mut create = vec!["--cluster", "create"];
        create.extend(addresses.iter().map(String::as_str));
        create.extend(["--cluster-replicas", "1", "--cluster-yes"]);
        let ports: Vec<_> = servers.iter().map(RedisServer::port).collect();
        let said = ports.first().map_or_else(String::new, |port| cli(*port, &create));
        let cluster = Self { servers };
        wait_until(&format!("a cluster forms: {said}"), FORM_MAX, || cluster.is_whole());
        cluster
    }

    /// As `--store` takes it.
    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// Whether every server sees all slots served, and every master a replica.
    pub fn is_whole(&self) -> bool {
        let is_ok = |server: &RedisServer| server.cli(&["cluster", "info"]).contains("cluster_state:ok");
        let has_replica =
            |server: &RedisServer| server.cli(&["info", "replication"]).contains("master_link_status:up");
        let replicas = self.servers.iter().filter(|server| has_replica(server)).count();
        self.servers.iter().all(is_ok) && replicas == self.servers.len() / 2
    }

    /// Which server is the master of a slot, by its own word.
    pub fn master_of(&self, slot: u16) -> Option<usize> {
        (0..self.servers.len()).find(|server| self.is_master_of(*server, slot))
    }

    /// Whether a server says that it is the master of a slot.
    pub fn is_master_of(&self, server: usize, slot: u16) -> bool {
        let Some(server) = self.servers.get(server) else { return false };
        let has = |range: &str| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            matches!((from.parse(), to.parse()), (Ok(from), Ok(to)) if (from..=to).contains(&slot))
        };
        let nodes = server.cli(&["cluster", "nodes"]);
        nodes.lines().any(|line| line.contains("myself,master") && line.split(' ').skip(8).any(has))
    }
}
