//! Writing: flushes, and commits in steps of one change each.
//!
//! A commit is noted (`redo`), put in force (`root`) and made true, in this order.
//! Until it is in force nothing has happened; from then on it has, whoever makes
//! it true.
//!
//! Invariants: every script changes one key with one command, so that a log of
//! commands that is torn anywhere, and a failover that forgets the last of them,
//! leave what was there after some earlier command; every change but that of a
//! post is made at one edition and refused at any other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redis::{Cmd, Value};
use tollgate_history::engine::{Batch, Table};
use tollgate_history::{Appended, Error, FlushName, Result};

use super::names::{Place, split_block};
use super::read::{bytes, strange};
use super::redo::{self, PART_BYTES};
use super::root::{Root, damaged};
use super::{RedisEngine, script};

/// Fields that one command sets or removes: a script has room for some thousand.
const FIELDS_MAX: usize = 500;

/// Flushes that wait to be folded: what 100 nodes make in an hour. Beyond, nobody
/// folds, and what is there is worth more than what would come.
const POSTS_MAX: usize = 24_000;

const POST: &str = include_str!("../../lua/history/post.lua");
const GUARDED: &str = include_str!("../../lua/history/guarded.lua");
const COMMIT: &str = include_str!("../../lua/history/commit.lua");

impl RedisEngine {
    pub(super) fn write_post(&self, name: FlushName, post: &[u8]) -> Result<Appended> {
        let (seen, log) = (self.names.table(Table::Seen), self.names.table(Table::Log));
        let mut command = script(POST, &[&seen, &log]);
        command.arg(&name.instance.0).arg(&name.seq.to_be_bytes()).arg(&name.key());
        command.arg(post).arg(POSTS_MAX);
        let Value::Int(answer) = self.ask(command)? else { return Err(strange()) };
        match answer {
            1 => Ok(Appended::Written),
            0 => Ok(Appended::Repeated),
            _ => Err(Error::Full { most: POSTS_MAX }),
        }
    }

    pub(super) fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        let parts = redo::encode(batch);
        let index = changed(&*self.index()?, batch);
        let chunks: BTreeSet<&[u8]> = index.iter().map(|key| split_block(key).0).collect();
        let next = Root {
            head: Root::new_head(),
            parts: u16::try_from(parts.len()).map_err(|_| damaged("a commit is too large"))?,
            chunks: chunks.into_iter().map(<[u8]>::to_vec).collect(),
        };
        self.note(&next, &parts)?;
        self.put_in_force(&next)?;
        self.make_true(&next, batch)?;
        self.root = Root { parts: 0, ..next };
        *self.index.lock() = Some(Arc::new(index));
        Ok(())
    }

    /// Writes the parts where whoever comes finds them.
    pub(super) fn note(&self, next: &Root, parts: &[Vec<u8>]) -> Result<()> {
        self.guarded(&self.root.head, &self.names.redo, "UNLINK", &[])?;
        for (part, name) in parts.iter().zip(part_names(next)) {
            self.guarded(&self.root.head, &self.names.redo, "HSET", &[&name, part])?;
        }
        Ok(())
    }

    pub(super) fn put_in_force(&self, next: &Root) -> Result<()> {
        let mut command = script(COMMIT, &[&self.names.root, &self.names.redo]);
        let last = part_names(next).last().unwrap_or_default();
        command.arg(&self.root.head).arg(last).arg(next.parts).arg(next.encode()?);
        done(&self.ask(command)?)
    }

    /// Makes every change of a commit that is in force, and says that it is made.
    pub(super) fn make_true(&self, root: &Root, batch: &Batch) -> Result<()> {
        for (hash, pairs) in puts_by_hash(self, batch) {
            for group in groups(&pairs) {
                let arguments: Vec<&[u8]> =
                    group.iter().flat_map(|(field, value)| [field.as_slice(), *value]).collect();
                self.guarded(&root.head, &hash, "HSET", &arguments)?;
            }
        }
        // Removed last: a flush is in the log until it is noted as seen.
        for (hash, fields) in removes_by_hash(self, batch) {
            for group in fields.chunks(FIELDS_MAX) {
                let arguments: Vec<&[u8]> = group.iter().map(Vec::as_slice).collect();
                self.guarded(&root.head, &hash, "HDEL", &arguments)?;
            }
        }
        let made = Root { parts: 0, ..root.clone() };
        self.guarded(&root.head, &self.names.root, "SET", &[&made.encode()?])?;
        self.guarded(&root.head, &self.names.redo, "UNLINK", &[])
    }

    /// Makes true what somebody else put in force and did not live to finish.
    pub(super) fn finish(&self, root: &Root) -> Result<()> {
        let mut command = redis::cmd("HMGET");
        command.arg(&self.names.redo);
        part_names(root).for_each(|name| {
            command.arg(name);
        });
        let Value::Array(parts) = self.ask(command)? else { return Err(strange()) };
        let mut batch = Batch::default();
        for part in parts {
            let read = bytes(part)?.and_then(|part| redo::decode(&part, &mut batch));
            if read.is_none() {
                // Finished by another meanwhile, or thrown away by a server that may throw away.
                let now = self.read_root()?;
                if now != *root {
                    return Ok(());
                }
                tracing::error!(server = self.client.server, "a commit of the history is lost in part");
            }
        }
        self.make_true(root, &batch)
    }

    /// Runs one command on a key, if that edition is in force.
    fn guarded(&self, head: &[u8], key: &str, name: &str, arguments: &[&[u8]]) -> Result<()> {
        let mut command: Cmd = script(GUARDED, &[&self.names.root, key]);
        command.arg(head).arg(name);
        arguments.iter().for_each(|argument| {
            command.arg(*argument);
        });
        done(&self.ask(command)?)
    }
}

/// A script that finds another edition gives nothing.
fn done(answer: &Value) -> Result<()> {
    if *answer == Value::Int(1) { Ok(()) } else { Err(Error::Moved) }
}

/// The names of the parts of a commit, which no other commit has.
fn part_names(root: &Root) -> impl Iterator<Item = Vec<u8>> + '_ {
    (0..root.parts).map(|part| [root.head.as_slice(), &part.to_be_bytes()].concat())
}

/// The keys of all blocks after these changes.
fn changed(index: &BTreeSet<Vec<u8>>, batch: &Batch) -> BTreeSet<Vec<u8>> {
    let mut index = index.clone();
    for (_, key) in batch.removes.iter().filter(|(table, _)| *table == Table::Blocks) {
        index.remove(key);
    }
    index.extend(
        batch.puts.iter().filter(|(table, _, _)| *table == Table::Blocks).map(|(_, key, _)| key.clone()),
    );
    index
}

/// Fields and their values.
type Pairs<'a> = Vec<(Vec<u8>, &'a [u8])>;

fn puts_by_hash<'a>(engine: &RedisEngine, batch: &'a Batch) -> BTreeMap<String, Pairs<'a>> {
    let mut hashes: BTreeMap<String, Pairs<'a>> = BTreeMap::new();
    for (table, key, value) in &batch.puts {
        let Place { hash, field } = engine.names.place(*table, key);
        hashes.entry(hash).or_default().push((field, value));
    }
    hashes
}

/// What is removed and not written again.
fn removes_by_hash(engine: &RedisEngine, batch: &Batch) -> BTreeMap<String, Vec<Vec<u8>>> {
    let put: BTreeSet<(Table, &[u8])> = batch.puts.iter().map(|(table, key, _)| (*table, &**key)).collect();
    let mut hashes: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for (table, key) in batch.removes.iter().filter(|(table, key)| !put.contains(&(*table, &**key))) {
        let Place { hash, field } = engine.names.place(*table, key);
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
