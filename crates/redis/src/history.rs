//! The history of several nodes, in the Redis that they share.
//!
//! [`RedisEngine`] is an engine of `tollgate-history` like those in memory and in
//! a folder, and keeps the same records and blocks. In the order of the flow:
//!
//! | module | what it holds |
//! |---|---|
//! | `names` | the keys |
//! | `client` | asks from threads that may wait |
//! | `read` | fields, tables, which blocks there are |
//! | `root`, `redo` | what is in force, and changes on their way |
//! | `write` | flushes and commits |
//!
//! Invariants: a flush is one command with one effect; a commit happens with one
//! command, and is based on the newest edition or does not happen; nothing depends
//! on the lock. So no crash, torn log, failover or second leader counts anything
//! twice; what Redis itself forgets is forgotten whole.
//!
//! Deliberately not here: what rows mean, when to fold, timers.

mod client;
mod names;
mod read;
mod redo;
mod root;
mod write;

use std::collections::BTreeSet;
use std::ops::{Bound, Range};
use std::sync::Arc;

use parking_lot::Mutex;
use redis::{Cmd, Pipeline, Value};
use tollgate_history::engine::{Batch, Engine, Shared, Table, Visit};
use tollgate_history::{Appended, Error, FlushName, Instance, Result};

use crate::config::RedisConfig;
use crate::error::StoreFailure;
use client::Client;
use names::{Names, Place};
use read::{bytes, strange};
use root::Root;

/// How long whoever leads keeps the lead without saying so again. Long enough for
/// two flushes, and nobody folds meanwhile if he is gone.
const LEAD_MS: u32 = 40_000;

const LEAD: &str = include_str!("../lua/history/lead.lua");

/// A history in Redis, Valkey, or a cluster of them.
///
/// It connects when it is first asked, and waits for answers: it is not to be
/// called on a thread that drives requests.
///
/// ```no_run
/// use tollgate_history::{Bounds, History};
/// use tollgate_redis::{RedisConfig, history::RedisEngine};
/// let config = RedisConfig::new("redis://127.0.0.1:6379".parse()?);
/// let history = History::open(RedisEngine::new(&config)?, Bounds::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RedisEngine {
    client: Client,
    names: Names,
    /// Who wants to lead.
    me: String,
    /// What was in force at the last `renew`, or after a commit since.
    root: Root,
    /// Bytes that it took when the edition last changed: whoever asks does not wait.
    used_bytes: Option<u64>,
    /// The keys of all blocks at that edition, if anybody asked.
    index: Mutex<Option<Arc<BTreeSet<Vec<u8>>>>>,
}

/// Why Redis could not be asked.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{server} keeps something else under the keys {keys}*; remove it or set another key prefix")]
    Foreign { server: String, keys: String },
    #[error("{server} could not be asked ({})", trouble.name())]
    Trouble { server: String, trouble: StoreFailure },
}

impl RedisEngine {
    /// The history in the main endpoint, behind the same prefix as the counters.
    ///
    /// # Errors
    /// If certificates or keys for TLS cannot be used, or there can be no thread.
    pub fn new(config: &RedisConfig) -> Result<Self, crate::Error> {
        let names = Names::new(&config.key_prefix);
        let client = Client::new(config, &names.root)?;
        let me = Instance::random().to_string();
        Ok(Self { client, names, me, root: Root::default(), used_bytes: None, index: Mutex::default() })
    }

    fn ask_all(&self, commands: Pipeline) -> Result<Vec<Value>> {
        let server = || self.client.server.clone();
        self.client.send(commands).map_err(|trouble| {
            let failure = if trouble == StoreFailure::BadState {
                Failure::Foreign { server: server(), keys: self.names.base.clone() }
            } else {
                Failure::Trouble { server: server(), trouble }
            };
            Error::Engine { source: Box::new(failure) }
        })
    }

    fn ask(&self, command: Cmd) -> Result<Value> {
        let mut commands = Pipeline::new();
        commands.add_command(command);
        self.ask_all(commands)?.pop().ok_or_else(strange)
    }

    fn read_root(&self) -> Result<Root> {
        let mut command = redis::cmd("GET");
        command.arg(&self.names.root);
        Root::decode(&bytes(self.ask(command)?)?.unwrap_or_default())
    }

    /// What all keys take, as far as the server lets this user know.
    fn measure(&self) -> Option<u64> {
        let mut commands = Pipeline::new();
        for key in self.names.all(&self.root.chunks) {
            commands.cmd("MEMORY").arg("USAGE").arg(key);
        }
        let sizes = self.ask_all(commands).ok()?.into_iter();
        let known = sizes
            .filter_map(|size| if let Value::Int(size) = size { u64::try_from(size).ok() } else { None });
        Some(known.sum())
    }

    fn visit_fields(&self, keys: &[Vec<u8>], table: Table, visit: &mut Visit<'_>) -> Result<()> {
        // A few at first: whoever wants one does not pay for all.
        let (first, rest) = keys.split_at(keys.len().min(4));
        for group in std::iter::once(first).chain(rest.chunks(256)) {
            let places: Vec<Place> = group.iter().map(|key| self.names.place(table, key)).collect();
            for (key, value) in group.iter().zip(self.fields(&places)?) {
                if value.is_some_and(|value| visit(key, &value).is_break()) {
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

impl Engine for RedisEngine {
    fn get_many(&self, table: Table, keys: &[Vec<u8>], visit: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let places: Vec<Place> = keys.iter().map(|key| self.names.place(table, key)).collect();
        for (place, value) in self.fields(&places)?.into_iter().enumerate() {
            if let Some(value) = value {
                visit(place, &value);
            }
        }
        Ok(())
    }

    fn scan(&self, table: Table, range: Range<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        let within = (Bound::Included(range.start), Bound::Excluded(range.end));
        if table == Table::Blocks {
            let keys: Vec<Vec<u8>> = self.index()?.range::<[u8], _>(within).cloned().collect();
            return self.visit_fields(&keys, table, visit);
        }
        for (key, value) in self.rows(table)?.range::<[u8], _>(within) {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self, batch: &Batch) -> Result<()> {
        let done = self.write_batch(batch);
        match done {
            Ok(()) => self.used_bytes = self.measure(),
            Err(_) => *self.index.lock() = None,
        }
        done
    }

    fn first_key(&self, table: Table, range: Range<&[u8]>) -> Result<Option<Vec<u8>>> {
        if range.start >= range.end {
            return Ok(None);
        }
        let within = (Bound::Included(range.start), Bound::Excluded(range.end));
        if table == Table::Blocks {
            return Ok(self.index()?.range::<[u8], _>(within).next().cloned());
        }
        Ok(self.rows(table)?.range::<[u8], _>(within).next().map(|(key, _)| key.clone()))
    }

    fn shared(&mut self) -> Option<&mut dyn Shared> {
        Some(self)
    }

    fn disk_bytes(&self) -> Result<Option<u64>> {
        Ok(self.used_bytes)
    }
}

impl Shared for RedisEngine {
    fn post(&mut self, name: FlushName, bytes: &[u8]) -> Result<Appended> {
        self.write_post(name, bytes)
    }

    fn posts(&self, is_wanted: &dyn Fn(&[u8]) -> bool, visit: &mut Visit<'_>) -> Result<()> {
        let mut keys = self.post_keys()?;
        keys.retain(|key| is_wanted(key));
        self.visit_fields(&keys, Table::Log, visit)
    }

    fn lead(&mut self) -> Result<bool> {
        let mut command = script(LEAD, &[&self.names.lock]);
        command.arg(&self.me).arg(LEAD_MS);
        Ok(self.ask(command)? == Value::Int(1))
    }

    fn renew(&mut self) -> Result<bool> {
        let mut root = self.read_root()?;
        if root.parts > 0 {
            self.finish(&root)?;
            root = self.read_root()?;
            if root.parts > 0 {
                return Err(Error::Moved);
            }
        }
        let has_moved = root.head != self.root.head;
        if has_moved {
            *self.index.lock() = None;
        }
        self.root = root;
        if has_moved {
            self.used_bytes = self.measure();
        }
        Ok(has_moved)
    }
}

#[cfg(test)]
mod tests;
