//! Tells the store that this node is alive, and learns which others are.
//!
//! A node that must decide without the store takes its share of a limit, which
//! is the limit divided by the nodes that were alive when the store was last
//! asked. All nodes keep one list under one key, which `lua/heartbeat.lua`
//! updates; nodes that have not been heard of for some heartbeats drop out.
//!
//! Invariant: it never delays a request. One task at a time beats, from the
//! start on; where its runtime ends, the next request starts another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::connect::CONNECT_TIMEOUT;
use super::endpoint_client::EndpointClient;
use crate::stats::{Stats, StoreNode};

/// Heartbeats that a node may miss before it counts as gone.
const MISSED_MAX: u32 = 3;
/// After a heartbeat without a reply the next follows so soon, because a node that
/// does not know of the others takes too much.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Characters of a host's name, at most.
const HOST_NAME_MAX: usize = 63;

const SCRIPT: &str = include_str!("../../lua/heartbeat.lua");

/// The heartbeat of this node.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    client: Arc<EndpointClient>,
    key: String,
    node: String,
    every: Duration,
    is_running: AtomicBool,
    stats: Arc<Stats>,
}

impl Heartbeat {
    pub(crate) fn new(
        client: Arc<EndpointClient>,
        key: String,
        every: Duration,
        stats: Arc<Stats>,
    ) -> Arc<Self> {
        let node = format!("{}-{:08x}", host_name(), fastrand::u32(..));
        Arc::new(Self { client, key, node, every, is_running: AtomicBool::new(false), stats })
    }

    /// The name of this node among all that share the store.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Starts the task that beats, unless it runs.
    pub(crate) fn keep_beating(self: &Arc<Self>) {
        if self.is_running.load(Ordering::Relaxed) || self.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = BeatTask(Arc::downgrade(self));
        tokio::spawn(async move {
            while let Some(heartbeat) = task.0.upgrade() {
                let pause = match heartbeat.beat().await {
                    true => heartbeat.every,
                    false => heartbeat.every.min(RETRY_AFTER),
                };
                drop(heartbeat);
                tokio::time::sleep(pause).await;
            }
        });
    }

    /// Whether the store replied.
    async fn beat(&self) -> bool {
        let life = self.every.saturating_mul(MISSED_MAX);
        let life_ms = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        let mut commands = Pipeline::new();
        commands.cmd("EVAL").arg(SCRIPT).arg(1).arg(&self.key).arg(&self.node).arg(life_ms);
        let replies = self.client.run_commands(&self.key, &commands, Instant::now() + CONNECT_TIMEOUT).await;
        // Without a reply the last count stands.
        let read = replies.ok().and_then(|replies| read_nodes(&replies, &self.node));
        let Some((count, nodes)) = read else { return false };
        self.stats.set_nodes(count, nodes);
        true
    }
}

/// How many nodes there are, and which.
fn read_nodes(replies: &[Value], own: &str) -> Option<(u32, Vec<StoreNode>)> {
    let [Value::Array(reply)] = replies else { return None };
    let [Value::Int(count), Value::Array(heard)] = reply.as_slice() else { return None };
    let node = |pair: &[Value]| match pair {
        [Value::BulkString(name), Value::Int(age_ms)] => {
            let name = String::from_utf8_lossy(name).into_owned();
            let age = Duration::from_millis(u64::try_from(*age_ms).unwrap_or(0));
            Some(StoreNode { is_this: name == own, name, age })
        }
        _ => None,
    };
    Some((u32::try_from(*count).unwrap_or(1), heard.chunks(2).filter_map(node).collect()))
}

/// What people call this machine, or `node` where that is not to be had. The list of nodes has no
/// room for the characters that divide it.
fn host_name() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || ['-', '.', '_'].contains(c);
    let name: String = text.trim().chars().filter(is_plain).take(HOST_NAME_MAX).collect();
    if name.is_empty() { "node".to_owned() } else { name }
}

/// The task that beats. Wherever it ends, another may begin.
struct BeatTask(Weak<Heartbeat>);

impl Drop for BeatTask {
    fn drop(&mut self) {
        if let Some(heartbeat) = self.0.upgrade() {
            heartbeat.is_running.store(false, Ordering::Release);
        }
    }
}
