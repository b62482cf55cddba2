//! Reading: fields, whole tables, and which blocks there are.
//!
//! Invariant: everything is read at the edition of the last `renew`, or not at
//! all: each script compares it first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redis::{Pipeline, Value};
use tollgate_history::engine::Table;
use tollgate_history::{Error, Result};

use super::names::Place;
use super::root::damaged;
use super::{RedisEngine, script};

/// Fields that are read at once: blocks of some kilobytes each, so that nobody
/// else waits longer than some 0.2 ms.
const FIELDS_AT_ONCE: usize = 64;

/// Fields of a table that are read at once: small ones.
const ROWS_AT_ONCE: usize = 512;

/// No row of ours is longer: a flush of 20,000 new names of 256 bytes is a third.
const VALUE_BYTES_MAX: usize = 16 << 20;

const READ: &str = include_str!("../../lua/history/read.lua");
const SCAN: &str = include_str!("../../lua/history/scan.lua");

impl RedisEngine {
    /// The values of these fields, in order; none where there is none, and an
    /// empty one where it is longer than any of ours.
    pub(super) fn fields(&self, places: &[Place]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(places.len());
        for group in places.chunks(FIELDS_AT_ONCE) {
            let hashes = group.iter().map(|place| place.hash.as_str());
            let keys: Vec<&str> = std::iter::once(self.names.root.as_str()).chain(hashes).collect();
            let mut command = script(READ, &keys);
            command.arg(&self.root.head).arg(VALUE_BYTES_MAX);
            group.iter().for_each(|place| {
                command.arg(&place.field);
            });
            let items = items(self.ask(command)?)?;
            if items.len() != group.len() {
                return Err(strange());
            }
            for item in items {
                values.push(bytes(item)?);
            }
        }
        Ok(values)
    }

    /// All rows of a table that is one hash, in the order of their keys.
    pub(super) fn rows(&self, table: Table) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let hash = self.names.table(table);
        let mut rows = BTreeMap::new();
        let mut cursor = b"0".to_vec();
        loop {
            let mut command = script(SCAN, &[&self.names.root, &hash]);
            command.arg(&self.root.head).arg(&cursor).arg(ROWS_AT_ONCE);
            let answer = <[Value; 2]>::try_from(items(self.ask(command)?)?);
            let Ok([next, Value::Array(pairs)]) = answer else { return Err(strange()) };
            let mut pairs = pairs.into_iter();
            while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
                if let (Some(key), Some(value)) = (bytes(key)?, bytes(value)?) {
                    rows.insert(key, value);
                }
            }
            cursor = bytes(next)?.ok_or_else(strange)?;
            if cursor == b"0" {
                return Ok(rows);
            }
        }
    }

    /// The keys of the posts that are there.
    pub(super) fn post_keys(&self) -> Result<Vec<Vec<u8>>> {
        let mut command = redis::cmd("HKEYS");
        command.arg(self.names.table(Table::Log));
        let Value::Array(items) = self.ask(command)? else { return Err(strange()) };
        let mut keys = Vec::with_capacity(items.len());
        for item in items {
            keys.extend(bytes(item)?);
        }
        keys.sort_unstable();
        Ok(keys)
    }

    /// The keys of all blocks, read once for each edition.
    pub(super) fn index(&self) -> Result<Arc<BTreeSet<Vec<u8>>>> {
        let mut index = self.index.lock();
        if let Some(index) = &*index {
            return Ok(Arc::clone(index));
        }
        let mut commands = Pipeline::new();
        for chunk in &self.root.chunks {
            commands.cmd("HKEYS").arg(self.names.chunk(chunk));
        }
        commands.cmd("GETRANGE").arg(&self.names.root).arg(0).arg(super::root::HEAD_BYTES - 1);
        let mut answers = self.ask_all(commands)?;
        if bytes(answers.pop().ok_or_else(strange)?)?.unwrap_or_default() != self.root.head {
            return Err(Error::Moved);
        }
        let mut keys = BTreeSet::new();
        for (chunk, answer) in self.root.chunks.iter().zip(answers) {
            let Value::Array(shards) = answer else { return Err(strange()) };
            for shard in shards {
                keys.extend(bytes(shard)?.map(|shard| [chunk.as_slice(), &shard].concat()));
            }
        }
        Ok(Arc::clone(index.insert(Arc::new(keys))))
    }
}

/// What a script gives that compares the edition first.
fn items(answer: Value) -> Result<Vec<Value>> {
    if answer == Value::Nil {
        return Err(Error::Moved);
    }
    if let Value::Array(items) = answer { Ok(items) } else { Err(strange()) }
}

/// A text or nothing; all else is strange.
pub(super) fn bytes(value: Value) -> Result<Option<Vec<u8>>> {
    if value == Value::Nil {
        return Ok(None);
    }
    if let Value::BulkString(bytes) = value { Ok(Some(bytes)) } else { Err(strange()) }
}

pub(super) const fn strange() -> Error {
    damaged("Redis answers what no Redis answers")
}
