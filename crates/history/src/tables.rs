//! Where bytes are kept: ordered tables of keys and values, written in batches.
//!
//! Below `store`, which knows what the bytes mean. [`MemoryTables`] are for tests
//! and for servers without a folder, [`RedbTables`] are a file; those on Redis are
//! in `tollgate-redis` and implement [`SharedTables`], because several processes
//! write to them.
//!
//! Invariants, held by `tests/it/tables.rs`:
//! - a batch is written whole or not at all, and survives a crash once `commit`
//!   has returned;
//! - keys are in byte order, and tables do not see each other.
//!
//! Deliberately not here: what a row means, when to write.

mod memory;
mod redb;

use std::ops::{ControlFlow, Range};

use tollgate_core::Time;

use crate::error::Result;
use crate::flush::{AppendResult, FlushId};

pub use self::redb::{Access, RedbTables};
pub use memory::MemoryTables;

/// The tables of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableId {
    /// Format and watermarks.
    Meta,
    /// Labels and their numbers.
    Series,
    /// The last flush of every instance.
    LastFlush,
    /// Flushes that are not in blocks yet.
    Log,
    /// Compacted periods.
    Blocks,
}

impl TableId {
    /// All.
    pub const ALL: [Self; 5] = [Self::Meta, Self::Series, Self::LastFlush, Self::Log, Self::Blocks];

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Series => "series",
            Self::LastFlush => "seen",
            Self::Log => "log",
            Self::Blocks => "blocks",
        }
    }
}

/// Changes that are made together.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    /// Keys to remove, before anything is put.
    pub removes: Vec<(TableId, Vec<u8>)>,
    /// Values to write, in place of what was there.
    pub puts: Vec<(TableId, Vec<u8>, Vec<u8>)>,
}

impl WriteBatch {
    /// Writes a value.
    pub fn put(&mut self, table: TableId, key: Vec<u8>, value: Vec<u8>) {
        self.puts.push((table, key, value));
    }

    /// Removes a value, if there is one.
    pub fn remove(&mut self, table: TableId, key: Vec<u8>) {
        self.removes.push((table, key));
    }
}

/// More bytes than any key has: a label's three names and their lengths.
const KEY_BYTES_MAX: usize = 1_100;

/// Gets the place of a key among those asked for, and its value.
pub type GetVisitor<'a> = dyn FnMut(usize, &[u8]) -> Result<()> + 'a;

/// Gets a key and its value, and says whether to go on.
pub type ScanVisitor<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'a;

/// Five ordered tables of bytes by bytes. An error of a visitor ends the call and is its result.
///
/// ```
/// use tollgate_history::tables::{MemoryTables, TableId, Tables, WriteBatch};
/// let mut tables = MemoryTables::default();
/// let mut batch = WriteBatch::default();
/// batch.put(TableId::Meta, b"key".to_vec(), b"value".to_vec());
/// tables.commit(&batch)?;
/// assert_eq!(tables.get(TableId::Meta, b"key")?.as_deref(), Some(&b"value"[..]));
/// # Ok::<(), tollgate_history::Error>(())
/// ```
pub trait Tables: Send + Sync {
    /// Visits the keys that are there.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or the visitor fails.
    fn get_many(&self, table: TableId, keys: &[Vec<u8>], visit: &mut GetVisitor<'_>) -> Result<()>;

    /// Visits a range of keys in order, until the visitor breaks.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or the visitor fails.
    fn scan(&self, table: TableId, range: Range<&[u8]>, visit: &mut ScanVisitor<'_>) -> Result<()>;

    /// Visits all keys of a table in order, until the visitor breaks.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or the visitor fails.
    fn scan_all(&self, table: TableId, visit: &mut ScanVisitor<'_>) -> Result<()> {
        self.scan(table, &[]..&[0xff; KEY_BYTES_MAX], visit)
    }

    /// Makes all changes or none; returns when they will survive a crash.
    ///
    /// # Errors
    ///
    /// If the tables cannot be written. It is then unknown whether the changes were made.
    fn commit(&mut self, batch: &WriteBatch) -> Result<()>;

    /// The value of one key.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.get_many(table, &[key.to_vec()], &mut |_, value| {
            found = Some(value.to_vec());
            Ok(())
        })?;
        Ok(found)
    }

    /// The first key of a range; cheaper than a scan where values are far away.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    fn first_key(&self, table: TableId, range: Range<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut first = None;
        self.scan(table, range, &mut |key, _| {
            first = Some(key.to_vec());
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    /// Makes sure that nothing of what was removed is left anywhere in the bytes that are kept.
    ///
    /// # Errors
    ///
    /// If the tables cannot be written.
    fn rewrite(&mut self) -> Result<()> {
        Ok(())
    }

    /// How much was found to be damaged when the tables were opened, and left out.
    fn damaged(&self) -> u64 {
        0
    }

    /// The bytes that the tables take, if that is known.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    fn size_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// Tables that several processes write to.
///
/// Each process appends its flushes to the log by itself, and the leader moves them
/// into blocks. Every commit makes a new generation; reads are of the generation of
/// the last `refresh`, and never of two.
///
/// Invariants, held by the same suite:
/// - appending is one command with one effect, and can be repeated;
/// - a commit that is not based on the newest generation changes nothing and fails
///   with [`crate::Error::Stale`], whoever believes to be the leader;
/// - so does a read when there is a newer generation;
/// - nothing but `append` and `commit` changes the tables.
pub trait SharedTables: Tables {
    /// Adds a flush to the log, unless it is there or in blocks already.
    ///
    /// # Errors
    ///
    /// If the tables cannot be written. It is then unknown whether the flush was.
    fn append(&mut self, id: FlushId, bytes: &[u8]) -> Result<AppendResult>;

    /// Visits the flushes in the log whose keys are wanted.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or the visitor fails.
    fn log_entries(&self, is_wanted: &dyn Fn(&[u8]) -> bool, visit: &mut ScanVisitor<'_>) -> Result<()>;

    /// The clock of the server, which all processes share.
    ///
    /// # Errors
    ///
    /// If it cannot be asked.
    fn clock(&self) -> Result<Time>;

    /// Takes or extends the leader's lease; whether this process has it. Two may
    /// believe so at once without harm: it only keeps them from doing the same work.
    ///
    /// # Errors
    ///
    /// If the lease cannot be asked for.
    fn try_lead(&mut self) -> Result<bool>;

    /// Turns to the newest generation; whether it is another than before.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    fn refresh(&mut self) -> Result<bool>;
}
