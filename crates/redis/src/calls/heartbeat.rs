//! Tells the store that this node is alive, and learns how many nodes are.
//!
//! A node that must decide without the store takes its share of a limit, which
//! is the limit divided by the nodes that were alive when the store was last
//! asked. All nodes keep one list under one key, which `lua/heartbeat.lua`
//! updates; nodes that have not been heard of for some heartbeats drop out.
//!
//! Invariant: it never delays a request. One task at a time beats; where its
//! runtime ends, the next request starts another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::connect::CONNECT_TIMEOUT;
use super::endpoint_client::EndpointClient;
use crate::stats::Stats;

/// Heartbeats that a node may miss before it counts as gone.
const MISSED_MAX: u32 = 3;

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
        let node = format!("{:016x}", fastrand::u64(..));
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
                heartbeat.beat().await;
                let every = heartbeat.every;
                drop(heartbeat);
                tokio::time::sleep(every).await;
            }
        });
    }

    async fn beat(&self) {
        let life = self.every.saturating_mul(MISSED_MAX);
        let life_ms = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        let mut commands = Pipeline::new();
        commands.cmd("EVAL").arg(SCRIPT).arg(1).arg(&self.key).arg(&self.node).arg(life_ms);
        let replies = self.client.run_commands(&self.key, &commands, Instant::now() + CONNECT_TIMEOUT).await;
        // Without a reply the last count stands.
        if let Ok([Value::Int(nodes)]) = replies.as_deref() {
            self.stats.set_nodes(u32::try_from(*nodes).unwrap_or(1));
        }
    }
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
