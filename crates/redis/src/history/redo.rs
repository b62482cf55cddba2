//! The redo log: the changes of a commit, written before they are applied.
//!
//! A batch changes several keys, and Redis makes several changes together only in ways
//! that a torn append-only file can repeat. So the batch is written first, in parts;
//! [`super::manifest`] puts it in force with one command; then each change is applied
//! on its own. Readers see the changes from the redo log until then, and the next
//! commit applies all of them again if the last one was interrupted. That changes
//! nothing: they only set and remove.
//!
//! ```text
//! per change: table and kind, length of the key, key, and for a put: length of the value, value
//!             u8              u32 BE                                  u32 BE
//! ```

use std::collections::BTreeMap;

use tollgate_history::tables::{TableId, WriteBatch};

/// Bytes of one part, and of one command that applies changes. Redis does nothing else
/// meanwhile, and a rate limit waits for it no longer than some 0.2 ms.
pub(super) const PART_BYTES: usize = 128 << 10;

/// Set in the kind of a removal.
const REMOVE: u8 = 0x80;

/// The batch in parts, at least one.
pub(super) fn encode(batch: &WriteBatch) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut push = |change: Vec<u8>| match parts.last_mut() {
        Some(part) if part.len() + change.len() <= PART_BYTES || part.is_empty() => part.extend(change),
        _ => parts.push(change),
    };
    for (table, key) in &batch.removes {
        push(change(letter(*table) | REMOVE, &[key]));
    }
    for (table, key, value) in &batch.puts {
        push(change(letter(*table), &[key, value]));
    }
    parts
}

fn change(kind: u8, pieces: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![kind];
    for piece in pieces {
        let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(piece);
    }
    bytes
}

/// Adds the changes of a part to a batch; none if the bytes are not a part.
pub(super) fn decode(mut bytes: &[u8], batch: &mut WriteBatch) -> Option<()> {
    while let Some((kind, rest)) = bytes.split_first() {
        let table = TableId::ALL.into_iter().find(|table| letter(*table) == kind & !REMOVE)?;
        let (key, rest) = piece(rest)?;
        bytes = rest;
        if kind & REMOVE != 0 {
            batch.remove(table, key.to_vec());
        } else {
            let (value, rest) = piece(rest)?;
            batch.put(table, key.to_vec(), value.to_vec());
            bytes = rest;
        }
    }
    Some(())
}

fn piece(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

/// Changes that are in force and may not be applied yet, for readers.
#[derive(Debug, Default)]
pub(super) struct RedoChanges {
    pub(super) batch: WriteBatch,
    /// The new value of each key; none if it is removed.
    values: BTreeMap<(TableId, Vec<u8>), Option<Vec<u8>>>,
}

impl RedoChanges {
    pub(super) fn new(batch: WriteBatch) -> Self {
        let removes = batch.removes.iter().map(|(table, key)| ((*table, key.clone()), None));
        let puts = batch.puts.iter().map(|(table, key, value)| ((*table, key.clone()), Some(value.clone())));
        let values = removes.chain(puts).collect();
        Self { batch, values }
    }

    /// The new value of a key, or that it is removed; none if it is not changed.
    pub(super) fn get(&self, table: TableId, key: &[u8]) -> Option<&Option<Vec<u8>>> {
        if self.values.is_empty() { None } else { self.values.get(&(table, key.to_vec())) }
    }

    /// The changes of one table.
    pub(super) fn of(&self, table: TableId) -> impl Iterator<Item = (&Vec<u8>, &Option<Vec<u8>>)> {
        let changes = self.values.iter().filter(move |((of, _), _)| *of == table);
        changes.map(|((_, key), value)| (key, value))
    }
}

/// The letter of a table, in keys and in parts.
pub(super) const fn letter(table: TableId) -> u8 {
    match table {
        TableId::Meta => b'm',
        TableId::Series => b's',
        TableId::LastFlush => b'i',
        TableId::Log => b'l',
        TableId::Blocks => b'b',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parts: &[Vec<u8>]) -> Option<WriteBatch> {
        let mut batch = WriteBatch::default();
        parts.iter().try_for_each(|part| decode(part, &mut batch))?;
        Some(batch)
    }

    #[test]
    fn a_batch_comes_back_from_its_parts() {
        let mut batch = WriteBatch::default();
        for n in 0..40_u8 {
            batch.put(TableId::ALL[usize::from(n % 5)], vec![n; usize::from(n)], vec![n; 10_000]);
            batch.remove(TableId::Log, vec![n]);
        }
        batch.put(TableId::Blocks, b"large".to_vec(), vec![7; 3 * PART_BYTES]);
        let parts = encode(&batch);
        assert_eq!(parts.len(), 5);
        let came = read(&parts).unwrap();
        assert_eq!((came.removes, came.puts), (batch.removes, batch.puts));
        assert_eq!(encode(&WriteBatch::default()), [b""]);
    }

    #[test]
    fn bytes_that_are_no_part_are_refused() {
        let mut batch = WriteBatch::default();
        batch.put(TableId::Meta, b"k".to_vec(), b"v".to_vec());
        let part = encode(&batch).remove(0);
        for length in 1..part.len() {
            assert!(read(&[part[..length].to_vec()]).is_none(), "cut to {length}");
        }
        assert!(read(&[b"x\0\0\0\0".to_vec()]).is_none());
    }
}
