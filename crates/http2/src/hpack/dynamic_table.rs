//! The dynamic table of HPACK (RFC 7541, 2.3.2 and 4): what was sent before, the newest first.
//!
//! An entry keeps what its field means beside its text, so that a field which is sent by its index,
//! as nearly all are from the second call on, is not looked at again.

use std::collections::VecDeque;

use crate::field::{FieldKind, HeaderField};

/// What an entry counts besides its text.
pub(crate) const ENTRY_BYTES: usize = 32;

/// One field, its name and its value in one piece.
#[derive(Debug)]
struct TableEntry {
    text: Box<[u8]>,
    name_bytes: usize,
    kind: FieldKind,
}

/// What was sent before, the newest first.
#[derive(Debug)]
pub(crate) struct DynamicTable {
    entries: VecDeque<TableEntry>,
    bytes: usize,
    bytes_max: usize,
}

impl DynamicTable {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// The field at `index`, which begins with 0.
    #[inline]
    pub(super) fn field(&self, index: usize) -> Option<HeaderField<'_>> {
        let entry = self.entries.get(index)?;
        let (name, value) = entry.text.split_at_checked(entry.name_bytes)?;
        Some(HeaderField { name, value, kind: entry.kind })
    }

    /// Inserts `text`, whose first `name_bytes` are the name. What does not fit empties the table.
    pub(super) fn insert(&mut self, text: Box<[u8]>, name_bytes: usize, kind: FieldKind) {
        let bytes = text.len() + ENTRY_BYTES;
        self.evict(self.bytes_max.saturating_sub(bytes));
        if bytes <= self.bytes_max {
            self.bytes += bytes;
            self.entries.push_front(TableEntry { text, name_bytes, kind });
        }
    }

    pub(super) fn resize(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.evict(bytes_max);
    }

    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some(entry) = self.entries.pop_back()
        {
            self.bytes -= entry.text.len() + ENTRY_BYTES;
        }
    }

    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}
