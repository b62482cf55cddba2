//! Reading: fields, whole tables, and which blocks there are.
//!
//! Invariants: everything is read at the generation of the last `refresh`, or not at
//! all, since each script compares it first; changes of that generation that are not
//! applied yet are read from its redo log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redis::{Pipeline, Value};
use tollgate_history::tables::TableId;
use tollgate_history::{Error, Result};

use super::keys::HashField;
use super::manifest::{GENERATION_BYTES, Manifest, part_names, unexpected};
use super::redo::{self, RedoChanges};
use super::{RedisTables, WriteBatch, script};

/// Fields that are read at once: blocks of some kilobytes each, so that nobody else
/// waits longer than some 0.2 ms.
const FIELDS_AT_ONCE: usize = 64;

/// Fields of a table that are read at once: small ones.
const ROWS_AT_ONCE: usize = 512;

/// No row of ours is longer: a flush of 20,000 new names of 256 bytes is a third.
const VALUE_BYTES_MAX: usize = 16 << 20;

const READ: &str = include_str!("../../lua/history/read.lua");
const SCAN: &str = include_str!("../../lua/history/scan.lua");

impl RedisTables {
    pub(super) fn read_manifest(&self) -> Result<Manifest> {
        let mut command = redis::cmd("GET");
        command.arg(&self.keys.manifest);
        Manifest::decode(&bytes(self.send(command)?)?.unwrap_or_default())
    }

    /// The changes of a manifest that may not be applied yet.
    pub(super) fn read_redo(&self, manifest: &Manifest) -> Result<RedoChanges> {
        if manifest.redo_parts == 0 {
            return Ok(RedoChanges::default());
        }
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys.redo);
        part_names(manifest).for_each(|name| {
            command.arg(name);
        });
        let Value::Array(parts) = self.send(command)? else { return Err(unexpected()) };
        let mut batch = WriteBatch::default();
        for part in parts {
            if bytes(part)?.and_then(|part| redo::decode(&part, &mut batch)).is_none() {
                if self.read_manifest()? != *manifest {
                    return Err(Error::Stale);
                }
                // A server that evicts keys without an expiry may have thrown it away.
                tracing::error!(server = self.client.server, "a commit of the history is lost in part");
            }
        }
        Ok(RedoChanges::new(batch))
    }

    /// The values of these keys, in order; none where there is none, and an empty one
    /// where it is longer than any of ours.
    pub(super) fn values(&self, table: TableId, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        for group in keys.chunks(FIELDS_AT_ONCE) {
            let fields: Vec<HashField> = group.iter().map(|key| self.keys.field(table, key)).collect();
            let hashes = fields.iter().map(|field| field.hash.as_str());
            let names: Vec<&str> = std::iter::once(self.keys.manifest.as_str()).chain(hashes).collect();
            let mut command = script(READ, &names);
            command.arg(&self.manifest.generation).arg(VALUE_BYTES_MAX);
            fields.iter().for_each(|field| {
                command.arg(&field.field);
            });
            let items = items(self.send(command)?)?;
            if items.len() != group.len() {
                return Err(unexpected());
            }
            for (key, item) in group.iter().zip(items) {
                let stored = bytes(item)?;
                values.push(self.redo.get(table, key).cloned().unwrap_or(stored));
            }
        }
        Ok(values)
    }

    /// All rows of a table that is one hash, in the order of their keys.
    pub(super) fn rows(&self, table: TableId) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let hash = self.keys.table(table);
        let mut rows = BTreeMap::new();
        let mut cursor = b"0".to_vec();
        loop {
            let mut command = script(SCAN, &[&self.keys.manifest, &hash]);
            command.arg(&self.manifest.generation).arg(&cursor).arg(ROWS_AT_ONCE);
            let reply = <[Value; 2]>::try_from(items(self.send(command)?)?);
            let Ok([next, Value::Array(pairs)]) = reply else { return Err(unexpected()) };
            let mut pairs = pairs.into_iter();
            while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
                if let (Some(key), Some(value)) = (bytes(key)?, bytes(value)?) {
                    rows.insert(key, value);
                }
            }
            cursor = bytes(next)?.ok_or_else(unexpected)?;
            if cursor == b"0" {
                break;
            }
        }
        for (key, value) in self.redo.of(table) {
            match value {
                Some(value) => rows.insert(key.clone(), value.clone()),
                None => rows.remove(key),
            };
        }
        Ok(rows)
    }

    /// The keys of the flushes in the log.
    pub(super) fn log_keys(&self) -> Result<Vec<Vec<u8>>> {
        let mut command = redis::cmd("HKEYS");
        command.arg(self.keys.table(TableId::Log));
        let Value::Array(items) = self.send(command)? else { return Err(unexpected()) };
        let mut keys = Vec::with_capacity(items.len());
        for item in items {
            keys.extend(bytes(item)?.filter(|key| self.redo.get(TableId::Log, key).is_none()));
        }
        keys.sort_unstable();
        Ok(keys)
    }

    /// The keys of all blocks, read once for each generation.
    pub(super) fn block_index(&self) -> Result<Arc<BTreeSet<Vec<u8>>>> {
        let mut index = self.block_index.lock();
        if let Some(index) = &*index {
            return Ok(Arc::clone(index));
        }
        let mut commands = Pipeline::new();
        for chunk in &self.manifest.chunks {
            commands.cmd("HKEYS").arg(self.keys.chunk(chunk));
        }
        commands.cmd("GETRANGE").arg(&self.keys.manifest).arg(0).arg(GENERATION_BYTES - 1);
        let mut replies = self.send_all(commands)?;
        if bytes(replies.pop().ok_or_else(unexpected)?)?.unwrap_or_default() != self.manifest.generation {
            return Err(Error::Stale);
        }
        let mut keys = BTreeSet::new();
        for (chunk, reply) in self.manifest.chunks.iter().zip(replies) {
            let Value::Array(numbers) = reply else { return Err(unexpected()) };
            for number in numbers {
                keys.extend(bytes(number)?.map(|number| [chunk.as_slice(), &number].concat()));
            }
        }
        for (key, value) in self.redo.of(TableId::Blocks) {
            match value {
                Some(_) => keys.insert(key.clone()),
                None => keys.remove(key),
            };
        }
        Ok(Arc::clone(index.insert(Arc::new(keys))))
    }
}

/// The reply of a script that compares the generation first.
fn items(reply: Value) -> Result<Vec<Value>> {
    if reply == Value::Nil {
        return Err(Error::Stale);
    }
    if let Value::Array(items) = reply { Ok(items) } else { Err(unexpected()) }
}

/// A string or nothing.
pub(super) fn bytes(value: Value) -> Result<Option<Vec<u8>>> {
    if value == Value::Nil {
        return Ok(None);
    }
    if let Value::BulkString(bytes) = value { Ok(Some(bytes)) } else { Err(unexpected()) }
}
