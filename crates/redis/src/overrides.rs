//! Overrides that all nodes share, and the log of their changes.
//!
//! A node writes with one script, and every node asks for the version now and then and reads all of
//! it when that has changed. What the rows say is the business of whoever writes them.
//!
//! | key | what |
//! |---|---|
//! | `o1:{overrides}:rows` | a hash: one row for each override |
//! | `o1:{overrides}:audit` | a list: what changed, the newest first |
//! | `o1:{overrides}:version` | a number that grows with each change |
//!
//! Invariants: one hash tag for all, so that a cluster keeps them in one slot; both lists are
//! bounded. A change is in the log before it is in force.
//!
//! Deliberately not here: what is done while Redis cannot be asked; whoever reads keeps what was
//! read last.

use std::sync::Arc;

use redis::{FromRedisValue, Pipeline, Value};
use tokio::time::Instant;

use crate::calls::connect::CONNECT_TIMEOUT;
use crate::calls::endpoint_client::EndpointClient;
use crate::error::StoreFailure;

const PUT: &str = include_str!("../lua/overrides/put.lua");
const REMOVE: &str = include_str!("../lua/overrides/remove.lua");

/// The overrides in the Redis that nodes share.
#[derive(Debug, Clone)]
pub struct SharedOverrides {
    client: Arc<EndpointClient>,
    rows: String,
    audit: String,
    version: String,
}

/// A row and the name it is kept under.
pub type OverrideRow = (String, String);

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct OverrideBounds {
    /// Rows.
    pub rows: usize,
    /// Entries of the log.
    pub audit: usize,
}

impl SharedOverrides {
    pub(crate) fn new(client: Arc<EndpointClient>, prefix: &str) -> Self {
        let key = |name: &str| format!("{prefix}o1:{{overrides}}:{name}");
        Self { client, rows: key("rows"), audit: key("audit"), version: key("version") }
    }

    /// The version, which is another one after each change.
    ///
    /// # Errors
    /// If Redis cannot be asked.
    pub async fn version(&self) -> Result<Option<String>, StoreFailure> {
        let mut commands = Pipeline::new();
        commands.cmd("GET").arg(&self.version);
        self.run(&commands).await
    }

    /// All rows.
    ///
    /// # Errors
    /// If Redis cannot be asked.
    pub async fn rows(&self) -> Result<Vec<OverrideRow>, StoreFailure> {
        let mut commands = Pipeline::new();
        commands.cmd("HGETALL").arg(&self.rows);
        self.run(&commands).await
    }

    /// What changed, the newest first.
    ///
    /// # Errors
    /// If Redis cannot be asked.
    pub async fn audit(&self, most: usize) -> Result<Vec<String>, StoreFailure> {
        let mut commands = Pipeline::new();
        commands.cmd("LRANGE").arg(&self.audit).arg(0).arg(most.saturating_sub(1));
        self.run(&commands).await
    }

    /// Puts a row, and a line in the log; false if there is no room for another row.
    ///
    /// # Errors
    /// If Redis cannot be asked, or did not say in time whether it did it.
    pub async fn put(
        &self,
        row: &OverrideRow,
        note: &str,
        bounds: OverrideBounds,
    ) -> Result<bool, StoreFailure> {
        let mut commands = Pipeline::new();
        self.script(&mut commands, PUT).arg(&row.0).arg(&row.1).arg(note).arg(bounds.rows).arg(bounds.audit);
        self.run(&commands).await
    }

    /// Removes a row if it is still this one, with a line in the log unless it went by itself;
    /// whether it did.
    ///
    /// # Errors
    /// If Redis cannot be asked, or did not say in time whether it did it.
    pub async fn remove(
        &self,
        row: &OverrideRow,
        note: Option<&str>,
        bounds: OverrideBounds,
    ) -> Result<bool, StoreFailure> {
        let mut commands = Pipeline::new();
        let command = self.script(&mut commands, REMOVE);
        command.arg(&row.0).arg(&row.1).arg(note.unwrap_or_default()).arg(bounds.audit);
        self.run(&commands).await
    }

    fn script<'p>(&self, commands: &'p mut Pipeline, text: &str) -> &'p mut Pipeline {
        commands.cmd("EVAL").arg(text).arg(3).arg(&self.rows).arg(&self.audit).arg(&self.version)
    }

    async fn run<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, StoreFailure> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let mut replies = self.client.run_commands(&self.rows, commands, deadline).await?;
        let reply = replies.pop().unwrap_or(Value::Nil);
        redis::from_redis_value(reply).map_err(|_| StoreFailure::BadState)
    }
}
