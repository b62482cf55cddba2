//! Where bytes are kept: three calls, and any ordered map will do.
//!
//! Below the store, which knows what the bytes mean. [`Memory`] is for tests and
//! for servers without a folder, [`Embedded`] is a file; the one on Redis is in
//! `tollgate-redis`, and [`Shared`], because several processes write to it.
//!
//! Invariants that every engine keeps, shown by `tests/it/engines.rs`:
//! - a batch is written whole or not at all, and is there after a crash once
//!   `commit` has returned;
//! - keys are in the order of their bytes, and tables do not see each other.

mod embedded;
mod memory;

use std::ops::{ControlFlow, Range};

use crate::error::Result;
use crate::flush::{Appended, FlushName};

pub use embedded::{Access, Embedded};
pub use memory::Memory;

/// What keys are kept apart by.
///
/// ```
/// use tollgate_history::engine::Table;
/// assert_eq!(Table::ALL.len(), 5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// What the history knows about itself.
    Meta,
    /// Labels and their numbers.
    Series,
    /// The last flush of every instance.
    Seen,
    /// Flushes that are not folded yet.
    Log,
    /// Folded periods.
    Blocks,
}

impl Table {
    /// All.
    pub const ALL: [Self; 5] = [Self::Meta, Self::Series, Self::Seen, Self::Log, Self::Blocks];
}

/// Changes that are made together.
///
/// ```
/// use tollgate_history::engine::{Batch, Table};
/// let mut batch = Batch::default();
/// batch.put(Table::Meta, b"key".to_vec(), b"value".to_vec());
/// assert!(!batch.is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// To be removed; done before the puts.
    pub removes: Vec<(Table, Vec<u8>)>,
    /// To be written, in place of what was there.
    pub puts: Vec<(Table, Vec<u8>, Vec<u8>)>,
}

impl Batch {
    /// Writes a value.
    pub fn put(&mut self, table: Table, key: Vec<u8>, value: Vec<u8>) {
        self.puts.push((table, key, value));
    }

    /// Removes a value, if there is one.
    pub fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.removes.push((table, key));
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.removes.is_empty()
    }
}

/// What an engine can do that several processes write to.
///
/// Each of them writes its flushes into the table `Log` by itself, and whoever
/// leads folds them. Editions keep them apart: every commit makes a new one, and
/// what was read of an older one is not mixed with it.
///
/// Invariants, shown by the same suite:
/// - a post is one command, which can be repeated, and nothing else;
/// - a commit that is not based on the newest edition changes nothing and fails
///   with [`crate::Error::Moved`], whoever thinks that he leads;
/// - so does reading when the edition is not the one of the last `renew`.
pub trait Shared {
    /// Writes a flush under its name, unless it is there or was folded before.
    ///
    /// # Errors
    ///
    /// If the engine cannot be written; whether it was written is then not known.
    fn post(&mut self, name: FlushName, bytes: &[u8]) -> Result<Appended>;

    /// Calls `visit` with every post that is wanted by its key.
    ///
    /// # Errors
    ///
    /// If the engine cannot be read.
    fn posts(&self, is_wanted: &dyn Fn(&[u8]) -> bool, visit: &mut Visit<'_>) -> Result<()>;

    /// Whether it is for this process to commit. This may be wrong at any time
    /// without harm, and is only asked so that not all do the same work.
    ///
    /// # Errors
    ///
    /// If the engine cannot be asked.
    fn lead(&mut self) -> Result<bool>;

    /// Turns to the newest edition; whether it is another than before.
    ///
    /// # Errors
    ///
    /// If the engine cannot be read.
    fn renew(&mut self) -> Result<bool>;
}

/// What a scan does with a key and its value.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Where bytes are kept.
///
/// ```
/// use tollgate_history::engine::{Batch, Engine, Memory, Table};
/// let mut engine = Memory::default();
/// let mut batch = Batch::default();
/// batch.put(Table::Meta, b"key".to_vec(), b"value".to_vec());
/// engine.commit(&batch).unwrap();
/// assert_eq!(engine.get(Table::Meta, b"key").unwrap().as_deref(), Some(&b"value"[..]));
/// ```
pub trait Engine: Send + Sync {
    /// Calls `visit` with the place of each key that is there, and its value.
    ///
    /// # Errors
    ///
    /// If the engine cannot be read.
    fn get_many(&self, table: Table, keys: &[Vec<u8>], visit: &mut dyn FnMut(usize, &[u8])) -> Result<()>;

    /// Calls `visit` with the keys of a range, in order, until it breaks.
    ///
    /// # Errors
    ///
    /// If the engine cannot be read.
    fn scan(&self, table: Table, range: Range<&[u8]>, visit: &mut Visit<'_>) -> Result<()>;

    /// Makes all changes, or none, and returns when they will survive a crash.
    ///
    /// # Errors
    ///
    /// If the engine cannot be written; whether the changes were made is then
    /// not known.
    fn commit(&mut self, batch: &Batch) -> Result<()>;

    /// The value of one key.
    ///
    /// # Errors
    ///
    /// If the engine cannot be read.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.get_many(table, &[key.to_vec()], &mut |_, value| found = Some(value.to_vec()))?;
        Ok(found)
    }

    /// The first key of a range, for whoever does not want its value.
    ///
    /// # Errors
    ///
    /// If the engine cannot be read.
    fn first_key(&self, table: Table, range: Range<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut first = None;
        self.scan(table, range, &mut |key, _| {
            first = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    /// What it can do beside, if several processes write to it.
    fn shared(&mut self) -> Option<&mut dyn Shared> {
        None
    }

    /// The bytes that the values take, if the engine can tell.
    ///
    /// # Errors
    ///
    /// If the engine cannot be read.
    fn disk_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

impl<E: Engine + ?Sized> Engine for Box<E> {
    fn get_many(&self, table: Table, keys: &[Vec<u8>], visit: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        (**self).get_many(table, keys, visit)
    }

    fn scan(&self, table: Table, range: Range<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        (**self).scan(table, range, visit)
    }

    fn commit(&mut self, batch: &Batch) -> Result<()> {
        (**self).commit(batch)
    }

    fn first_key(&self, table: Table, range: Range<&[u8]>) -> Result<Option<Vec<u8>>> {
        (**self).first_key(table, range)
    }

    fn shared(&mut self) -> Option<&mut dyn Shared> {
        (**self).shared()
    }

    fn disk_bytes(&self) -> Result<Option<u64>> {
        (**self).disk_bytes()
    }
}
