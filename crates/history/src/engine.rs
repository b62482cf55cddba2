//! Where bytes are kept: three calls, and any ordered map will do.
//!
//! Below the store, which knows what the bytes mean. [`Memory`] is for tests and
//! for servers without a folder, [`Embedded`] is a file.
//!
//! Invariants that every engine keeps, shown by `tests/it/engines.rs`:
//! - a batch is written whole or not at all, and is there after a crash once
//!   `commit` has returned;
//! - keys are in the order of their bytes, and tables do not see each other.

mod embedded;
mod memory;

use std::ops::{ControlFlow, Range};

use crate::error::Result;

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

    fn disk_bytes(&self) -> Result<Option<u64>> {
        (**self).disk_bytes()
    }
}
