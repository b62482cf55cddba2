//! The history of several nodes, in the Redis that they share.
//!
//! [`RedisTables`] are tables of `tollgate-history` like those in memory and in a
//! folder, with the same rows. In the order of the flow:
//!
//! | module | what it holds |
//! |---|---|
//! | `keys` | the keys |
//! | `manifest`, `redo` | what is in force, and the changes of the last commit |
//! | `read` | fields, tables, which blocks there are |
//! | `write` | flushes and commits |
//!
//! Invariants: a flush is one command with one effect; a commit happens with one
//! command, and is based on the newest generation or does not happen; nothing depends on
//! the lease. So no crash, torn file, failover or second leader counts anything twice;
//! what Redis itself loses is lost whole. Reading writes nothing.
//!
//! Deliberately not here: what rows mean, when to compact, timers.

mod keys;
mod manifest;
mod read;
mod redo;
mod write;

use std::collections::BTreeSet;
use std::ops::{Bound, Range};
use std::sync::Arc;

use parking_lot::Mutex;
use redis::{Cmd, Pipeline, Value};
use tollgate_core::{Micros, Time};
use tollgate_history::tables::{GetVisitor, ScanVisitor, SharedTables, TableId, Tables, WriteBatch};
use tollgate_history::{AppendResult, Error, FlushId, InstanceId, Result};

use crate::calls::blocking_client::BlockingClient;
use crate::config::RedisConfig;
use crate::error::StoreFailure;
use keys::HistoryKeys;
use manifest::{Manifest, unexpected};
use redo::RedoChanges;

/// How long the leader's lease lasts: two flushes. Nobody compacts meanwhile if the
/// leader is gone.
const LEASE_MS: u32 = 40_000;

const CLOCK: &str = "return redis.call('TIME')";
const LEAD: &str = include_str!("../lua/history/lead.lua");

/// The tables of a history in Redis, Valkey, or a cluster of them.
///
/// They connect when they are first used, and block: not for a thread that answers
/// requests.
///
/// ```no_run
/// use tollgate_history::{Bounds, SharedHistory};
/// use tollgate_redis::{RedisConfig, history::RedisTables};
/// let config = RedisConfig::new("redis://127.0.0.1:6379".parse()?);
/// let history = SharedHistory::open(RedisTables::new(&config)?, Bounds::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RedisTables {
    client: BlockingClient,
    keys: HistoryKeys,
    /// This process, as a holder of the lease.
    holder: String,
    /// What was in force at the last `refresh`, or after a commit since.
    manifest: Manifest,
    /// The changes of that commit, if they may not be applied yet.
    redo: RedoChanges,
    /// Bytes in Redis when the generation last changed.
    size_bytes: Option<u64>,
    /// The keys of all blocks of that generation, once they were needed.
    block_index: Mutex<Option<Arc<BTreeSet<Vec<u8>>>>>,
}

/// Why Redis gave no reply that can be used.
#[derive(Debug, thiserror::Error)]
enum HistoryTrouble {
    #[error("{server} keeps something else under the keys {keys}*; remove it or set another key prefix")]
    Foreign { server: String, keys: String },
    #[error("{server} could not be asked ({}{}{said})", trouble.name(), if said.is_empty() { "" } else { ": " })]
    Trouble { server: String, trouble: StoreFailure, said: Box<str> },
}

impl RedisTables {
    /// The tables in the main endpoint, behind the same prefix as the counters.
    ///
    /// # Errors
    /// If certificates or keys for TLS cannot be used, or there can be no thread.
    pub fn new(config: &RedisConfig) -> Result<Self, crate::Error> {
        let keys = HistoryKeys::new(&config.key_prefix);
        Ok(Self {
            client: BlockingClient::new(config, &keys.manifest, "history-redis")?,
            keys,
            holder: InstanceId::random().to_string(),
            manifest: Manifest::default(),
            redo: RedoChanges::default(),
            size_bytes: None,
            block_index: Mutex::default(),
        })
    }

    fn send_all(&self, commands: Pipeline) -> Result<Vec<Value>> {
        let server = || self.client.server.clone();
        self.client.send(commands).map_err(|trouble| {
            let trouble = if trouble == StoreFailure::BadState {
                HistoryTrouble::Foreign { server: server(), keys: self.keys.base.clone() }
            } else {
                HistoryTrouble::Trouble { server: server(), trouble, said: self.client.said() }
            };
            Error::Tables { source: Box::new(trouble) }
        })
    }

    fn send(&self, command: Cmd) -> Result<Value> {
        let mut commands = Pipeline::new();
        commands.add_command(command);
        self.send_all(commands)?.pop().ok_or_else(unexpected)
    }

    /// The size of all keys, as far as the server lets this user know.
    fn measure(&self) -> Option<u64> {
        let mut commands = Pipeline::new();
        for key in self.keys.all(&self.manifest.chunks) {
            commands.cmd("MEMORY").arg("USAGE").arg(key);
        }
        let sizes = self.send_all(commands).ok()?.into_iter();
        let known = sizes
            .filter_map(|size| if let Value::Int(size) = size { u64::try_from(size).ok() } else { None });
        Some(known.sum())
    }

    fn visit_values(&self, table: TableId, keys: &[Vec<u8>], visit: &mut ScanVisitor<'_>) -> Result<()> {
        // A few at first: who wants one does not pay for all.
        let (first, rest) = keys.split_at(keys.len().min(4));
        for group in std::iter::once(first).chain(rest.chunks(256)) {
            for (key, value) in group.iter().zip(self.values(table, group)?) {
                let Some(value) = value else { continue };
                if visit(key, &value)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// A command that runs a script over these keys.
fn script(text: &str, keys: &[&str]) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(text).arg(keys.len()).arg(keys);
    command
}

impl Tables for RedisTables {
    fn get_many(&self, table: TableId, keys: &[Vec<u8>], visit: &mut GetVisitor<'_>) -> Result<()> {
        for (place, value) in self.values(table, keys)?.into_iter().enumerate() {
            if let Some(value) = value {
                visit(place, &value)?;
            }
        }
        Ok(())
    }

    fn scan(&self, table: TableId, range: Range<&[u8]>, visit: &mut ScanVisitor<'_>) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        let within = (Bound::Included(range.start), Bound::Excluded(range.end));
        if table == TableId::Blocks {
            let keys: Vec<Vec<u8>> = self.block_index()?.range::<[u8], _>(within).cloned().collect();
            return self.visit_values(table, &keys, visit);
        }
        for (key, value) in self.rows(table)?.range::<[u8], _>(within) {
            if visit(key, value)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self, batch: &WriteBatch) -> Result<()> {
        let done = self.write_batch(batch);
        match done {
            Ok(()) => self.size_bytes = self.measure(),
            Err(_) => *self.block_index.lock() = None,
        }
        done
    }

    fn first_key(&self, table: TableId, range: Range<&[u8]>) -> Result<Option<Vec<u8>>> {
        if range.start >= range.end {
            return Ok(None);
        }
        let within = (Bound::Included(range.start), Bound::Excluded(range.end));
        if table == TableId::Blocks {
            return Ok(self.block_index()?.range::<[u8], _>(within).next().cloned());
        }
        Ok(self.rows(table)?.range::<[u8], _>(within).next().map(|(key, _)| key.clone()))
    }

    fn size_bytes(&self) -> Result<Option<u64>> {
        Ok(self.size_bytes)
    }
}

impl SharedTables for RedisTables {
    fn append(&mut self, id: FlushId, bytes: &[u8]) -> Result<AppendResult> {
        self.append_flush(id, bytes)
    }

    fn log_entries(&self, is_wanted: &dyn Fn(&[u8]) -> bool, visit: &mut ScanVisitor<'_>) -> Result<()> {
        let mut keys = self.log_keys()?;
        keys.retain(|key| is_wanted(key));
        self.visit_values(TableId::Log, &keys, visit)
    }

    fn clock(&self) -> Result<Time> {
        // A script, because a cluster sends a command without a key to any of its servers.
        let reply = self.send(script(CLOCK, &[&self.keys.manifest]))?;
        let (seconds, micros): (u64, u64) = redis::from_redis_value(reply).map_err(|_| unexpected())?;
        Ok(Time::from_secs(seconds) + Micros::new(micros))
    }

    fn try_lead(&mut self) -> Result<bool> {
        let mut command = script(LEAD, &[&self.keys.lease]);
        command.arg(&self.holder).arg(LEASE_MS);
        Ok(self.send(command)? == Value::Int(1))
    }

    fn refresh(&mut self) -> Result<bool> {
        let manifest = self.read_manifest()?;
        let is_new = manifest.generation != self.manifest.generation;
        if is_new || manifest.redo_parts != self.manifest.redo_parts {
            self.redo = self.read_redo(&manifest)?;
        }
        self.manifest = manifest;
        if is_new {
            *self.block_index.lock() = None;
            self.size_bytes = self.measure();
        }
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests;
