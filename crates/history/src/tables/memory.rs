//! Tables in memory, gone with the process.
//!
//! For servers that have no folder, and for tests, which clone them as a crash
//! would leave them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{GetVisitor, ScanVisitor, TableId, Tables, WriteBatch};
use crate::error::Result;

/// Keeps everything in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryTables {
    values: BTreeMap<(TableId, Vec<u8>), Vec<u8>>,
}

impl Tables for MemoryTables {
    fn get_many(&self, table: TableId, keys: &[Vec<u8>], visit: &mut GetVisitor<'_>) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            if let Some(value) = self.values.get(&(table, key.clone())) {
                visit(place, value)?;
            }
        }
        Ok(())
    }

    fn scan(&self, table: TableId, range: Range<&[u8]>, visit: &mut ScanVisitor<'_>) -> Result<()> {
        let keys = (table, range.start.to_vec())..(table, range.end.to_vec());
        if keys.start >= keys.end {
            return Ok(());
        }
        for ((_, key), value) in self.values.range(keys) {
            if visit(key, value)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self, batch: &WriteBatch) -> Result<()> {
        for (table, key) in &batch.removes {
            self.values.remove(&(*table, key.clone()));
        }
        for (table, key, value) in &batch.puts {
            self.values.insert((*table, key.clone()), value.clone());
        }
        Ok(())
    }
}
