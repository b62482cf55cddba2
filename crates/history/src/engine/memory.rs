//! An engine that forgets everything when it goes.
//!
//! For tests, which can also clone it as a crash would leave it, and for servers
//! that have no folder.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Batch, Engine, Table, Visit};
use crate::error::Result;

/// Keeps everything in memory.
///
/// ```
/// use tollgate_history::engine::{Engine, Memory, Table};
/// assert_eq!(Memory::default().get(Table::Meta, b"key").unwrap(), None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Memory {
    values: BTreeMap<(Table, Vec<u8>), Vec<u8>>,
}

impl Engine for Memory {
    fn get_many(&self, table: Table, keys: &[Vec<u8>], visit: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = self.values.get(&(table, key.clone())) {
                visit(place, value);
            }
        }
        Ok(())
    }

    fn scan(&self, table: Table, range: Range<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        let keys = (table, range.start.to_vec())..(table, range.end.to_vec());
        if keys.start >= keys.end {
            return Ok(());
        }
        for ((_, key), value) in self.values.range(keys) {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self, batch: &Batch) -> Result<()> {
        for (table, key) in &batch.removes {
            self.values.remove(&(*table, key.clone()));
        }
        for (table, key, value) in &batch.puts {
            self.values.insert((*table, key.clone()), value.clone());
        }
        Ok(())
    }
}
