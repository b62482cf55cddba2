//! The changes of a commit, noted before they are made.
//!
//! A batch changes several keys, and Redis makes several changes together only in
//! ways that a torn log of commands can repeat. So the batch is noted first, in
//! parts; [`super::root`] puts it in force with one command; then each change is
//! made on its own. Whoever finds it half done makes all of them again, which
//! changes nothing: they only set and remove.
//!
//! ```text
//! per change: table and kind, length of the key, key, and for a put: length of the value, value
//!             u8              u32 BE                                  u32 BE
//! ```

use tollgate_history::engine::{Batch, Table};

/// Bytes of one part, and of one command that makes changes: Redis does nothing
/// else meanwhile, and a rate limit waits for it no longer than some 0.2 ms.
pub(super) const PART_BYTES: usize = 128 << 10;

/// The bit that tells a removal from a put.
const REMOVE: u8 = 0x80;

/// The batch in parts; never none.
pub(super) fn encode(batch: &Batch) -> Vec<Vec<u8>> {
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

/// Adds the changes of a part; none if it is not one.
pub(super) fn decode(mut bytes: &[u8], batch: &mut Batch) -> Option<()> {
    while let Some((kind, rest)) = bytes.split_first() {
        let table = Table::ALL.into_iter().find(|table| letter(*table) == kind & !REMOVE)?;
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

/// How a table is called in names of keys and in parts.
pub(super) const fn letter(table: Table) -> u8 {
    match table {
        Table::Meta => b'm',
        Table::Series => b's',
        Table::Seen => b'i',
        Table::Log => b'l',
        Table::Blocks => b'b',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parts: &[Vec<u8>]) -> Option<Batch> {
        let mut batch = Batch::default();
        parts.iter().try_for_each(|part| decode(part, &mut batch))?;
        Some(batch)
    }

    #[test]
    fn a_batch_comes_back_from_its_parts() {
        let mut batch = Batch::default();
        for n in 0..40_u8 {
            batch.put(Table::ALL[usize::from(n % 5)], vec![n; usize::from(n)], vec![n; 10_000]);
            batch.remove(Table::Log, vec![n]);
        }
        batch.put(Table::Blocks, b"large".to_vec(), vec![7; 3 * PART_BYTES]);
        let parts = encode(&batch);
        assert_eq!(parts.len(), 5);
        let came = read(&parts).unwrap();
        assert_eq!((came.removes, came.puts), (batch.removes, batch.puts));
        assert_eq!(encode(&Batch::default()), [b""]);
    }

    #[test]
    fn bytes_that_are_no_part_are_refused() {
        let mut batch = Batch::default();
        batch.put(Table::Meta, b"k".to_vec(), b"v".to_vec());
        let part = encode(&batch).remove(0);
        for length in 1..part.len() {
            assert!(read(&[part[..length].to_vec()]).is_none(), "cut to {length}");
        }
        assert!(read(&[b"x\0\0\0\0".to_vec()]).is_none());
    }
}
