//! Writing: flushes, and commits in steps of one change each.
//!
//! A commit is written to the redo log (`redo`), put in force (`manifest`) and applied,
//! in this order. Until it is in force nothing has happened; from then on it has, and
//! the next commit applies it if this process does not live to do it.
//!
//! Invariants: every script changes one key with one command, so that an append-only
//! file that is torn anywhere, and a failover that loses the last commands, leave what
//! was there after some earlier command; every change but that of an append is made at
//! one generation and refused at any other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redis::{Cmd, Value};
use tollgate_history::tables::{TableId, WriteBatch};
use tollgate_history::{AppendResult, Error, FlushId, Result};

use super::keys::{HashField, split_block};
use super::manifest::{Manifest, damaged, part_names, unexpected};
use super::redo::{self, PART_BYTES, RedoChanges};
use super::{RedisTables, script};

/// Fields that one command sets or removes: a script has room for some thousand.
const FIELDS_MAX: usize = 500;

/// Flushes in the log: what 100 nodes write in an hour. Beyond, no leader compacts, and
/// what is there is worth more than what would come.
const LOG_MAX: usize = 24_000;

const APPEND: &str = include_str!("../../lua/history/append.lua");
const GUARDED: &str = include_str!("../../lua/history/guarded.lua");
const COMMIT: &str = include_str!("../../lua/history/commit.lua");

impl RedisTables {
    pub(super) fn append_flush(&self, id: FlushId, bytes: &[u8]) -> Result<AppendResult> {
        let (last_flush, log) = (self.keys.table(TableId::LastFlush), self.keys.table(TableId::Log));
        let mut command = script(APPEND, &[&last_flush, &log]);
        command.arg(&id.instance.0).arg(&id.seq.to_be_bytes()).arg(&id.key());
        command.arg(bytes).arg(LOG_MAX);
        let Value::Int(reply) = self.send(command)? else { return Err(unexpected()) };
        match reply {
            1 => Ok(AppendResult::Written),
            0 => Ok(AppendResult::Repeated),
            _ => Err(Error::Full { most: LOG_MAX }),
        }
    }

    pub(super) fn write_batch(&mut self, batch: &WriteBatch) -> Result<()> {
        if self.manifest.redo_parts > 0 {
            self.apply(&self.manifest, &self.redo.batch)?;
            self.manifest.redo_parts = 0;
            self.redo = RedoChanges::default();
        }
        let parts = redo::encode(batch);
        let index = changed(&*self.block_index()?, batch);
        let chunks: BTreeSet<&[u8]> = index.iter().map(|key| split_block(key).0).collect();
        let next = Manifest {
            generation: Manifest::new_generation(),
            redo_parts: u16::try_from(parts.len()).map_err(|_| damaged("a commit is too large"))?,
            chunks: chunks.into_iter().map(<[u8]>::to_vec).collect(),
        };
        self.write_redo(&next, &parts)?;
        self.publish(&next)?;
        self.apply(&next, batch)?;
        self.manifest = Manifest { redo_parts: 0, ..next };
        *self.block_index.lock() = Some(Arc::new(index));
        Ok(())
    }

    /// Writes the redo log of a commit.
    pub(super) fn write_redo(&self, next: &Manifest, parts: &[Vec<u8>]) -> Result<()> {
        self.guarded(&self.manifest.generation, &self.keys.redo, "UNLINK", &[])?;
        for (part, name) in parts.iter().zip(part_names(next)) {
            self.guarded(&self.manifest.generation, &self.keys.redo, "HSET", &[&name, part])?;
        }
        Ok(())
    }

    /// Puts a commit in force.
    pub(super) fn publish(&self, next: &Manifest) -> Result<()> {
        let mut command = script(COMMIT, &[&self.keys.manifest, &self.keys.redo]);
        let last = part_names(next).last().unwrap_or_default();
        command.arg(&self.manifest.generation).arg(last).arg(next.redo_parts).arg(next.encode()?);
        done(&self.send(command)?)
    }

    /// Applies every change of a commit that is in force, and notes that it is applied.
    pub(super) fn apply(&self, manifest: &Manifest, batch: &WriteBatch) -> Result<()> {
        for (hash, pairs) in puts_by_hash(self, batch) {
            for group in groups(&pairs) {
                let arguments: Vec<&[u8]> =
                    group.iter().flat_map(|(field, value)| [field.as_slice(), *value]).collect();
                self.guarded(&manifest.generation, &hash, "HSET", &arguments)?;
            }
        }
        // Removed last: a flush stays in the log until its sequence number is noted.
        for (hash, fields) in removes_by_hash(self, batch) {
            for group in fields.chunks(FIELDS_MAX) {
                let arguments: Vec<&[u8]> = group.iter().map(Vec::as_slice).collect();
                self.guarded(&manifest.generation, &hash, "HDEL", &arguments)?;
            }
        }
        let applied = Manifest { redo_parts: 0, ..manifest.clone() };
        self.guarded(&manifest.generation, &self.keys.manifest, "SET", &[&applied.encode()?])?;
        self.guarded(&manifest.generation, &self.keys.redo, "UNLINK", &[])
    }

    /// Runs one command on a key, if that generation is in force.
    fn guarded(&self, generation: &[u8], key: &str, name: &str, arguments: &[&[u8]]) -> Result<()> {
        let mut command: Cmd = script(GUARDED, &[&self.keys.manifest, key]);
        command.arg(generation).arg(name);
        arguments.iter().for_each(|argument| {
            command.arg(*argument);
        });
        done(&self.send(command)?)
    }
}

/// A script that finds another generation returns nothing.
fn done(reply: &Value) -> Result<()> {
    if *reply == Value::Int(1) { Ok(()) } else { Err(Error::Stale) }
}

/// The keys of all blocks after these changes.
fn changed(index: &BTreeSet<Vec<u8>>, batch: &WriteBatch) -> BTreeSet<Vec<u8>> {
    let mut index = index.clone();
    for (_, key) in batch.removes.iter().filter(|(table, _)| *table == TableId::Blocks) {
        index.remove(key);
    }
    index.extend(
        batch.puts.iter().filter(|(table, _, _)| *table == TableId::Blocks).map(|(_, key, _)| key.clone()),
    );
    index
}

/// Fields and their values.
type FieldValues<'a> = Vec<(Vec<u8>, &'a [u8])>;

fn puts_by_hash<'a>(tables: &RedisTables, batch: &'a WriteBatch) -> BTreeMap<String, FieldValues<'a>> {
    let mut hashes: BTreeMap<String, FieldValues<'a>> = BTreeMap::new();
    for (table, key, value) in &batch.puts {
        let HashField { hash, field } = tables.keys.field(*table, key);
        hashes.entry(hash).or_default().push((field, value));
    }
    hashes
}

/// What is removed and not written again.
fn removes_by_hash(tables: &RedisTables, batch: &WriteBatch) -> BTreeMap<String, Vec<Vec<u8>>> {
    let put: BTreeSet<(TableId, &[u8])> = batch.puts.iter().map(|(table, key, _)| (*table, &**key)).collect();
    let mut hashes: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for (table, key) in batch.removes.iter().filter(|(table, key)| !put.contains(&(*table, &**key))) {
        let HashField { hash, field } = tables.keys.field(*table, key);
        hashes.entry(hash).or_default().push(field);
    }
    hashes
}

/// The pairs in groups that one command takes.
fn groups<'a, 'b>(pairs: &'b [(Vec<u8>, &'a [u8])]) -> Vec<&'b [(Vec<u8>, &'a [u8])]> {
    let mut groups = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, (field, value)) in pairs.iter().enumerate() {
        let length = field.len() + value.len();
        if at > start && (bytes + length > PART_BYTES || at - start >= FIELDS_MAX) {
            groups.extend(pairs.get(start..at));
            (start, bytes) = (at, 0);
        }
        bytes += length;
    }
    groups.extend(pairs.get(start..).filter(|rest| !rest.is_empty()));
    groups
}
