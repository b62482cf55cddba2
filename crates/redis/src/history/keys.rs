//! The keys of a history in Redis.
//!
//! | key | what |
//! |---|---|
//! | `h1:{history}:root` | a string: the manifest, which names the generation in force |
//! | `h1:{history}:m`, `:s`, `:i`, `:l` | hashes: the tables `Meta`, `Series`, `LastFlush` and `Log` |
//! | `h1:{history}:b:<chunk>` | a hash for each tier and chunk: blocks by number |
//! | `h1:{history}:redo` | a hash: the redo log of the last commit, until it is applied |
//! | `h1:{history}:lock` | a string that expires: the leader's lease |
//!
//! Invariant: the hash tag is the same for all, so that a cluster keeps them in one
//! slot and a script may use several. A chunk has a key of its own, so that none grows
//! beyond some megabytes and the slot can be moved.

use tollgate_history::tables::TableId;

use super::redo::letter;

/// Bytes of a block's key that name its chunk: the tier and the start. The number of
/// the block follows.
pub(super) const CHUNK_BYTES: usize = 5;

/// The keys of one history.
#[derive(Debug)]
pub(super) struct HistoryKeys {
    /// The prefix of all of them.
    pub(super) base: String,
    pub(super) manifest: String,
    pub(super) redo: String,
    pub(super) lease: String,
}

/// Where a row is: a field of a hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HashField {
    pub(super) hash: String,
    pub(super) field: Vec<u8>,
}

impl HistoryKeys {
    pub(super) fn new(prefix: &str) -> Self {
        let base = format!("{prefix}h1:{{history}}:");
        let name = |name: &str| format!("{base}{name}");
        Self { manifest: name("root"), redo: name("redo"), lease: name("lock"), base }
    }

    /// The hash of a table; blocks have one for each chunk.
    pub(super) fn table(&self, table: TableId) -> String {
        format!("{}{}", self.base, char::from(letter(table)))
    }

    /// The hash of a chunk of blocks.
    pub(super) fn chunk(&self, chunk: &[u8]) -> String {
        let mut name = self.table(TableId::Blocks);
        name.push(':');
        chunk.iter().for_each(|byte| name.push_str(&format!("{byte:02x}")));
        name
    }

    /// Where the row with that key is.
    pub(super) fn field(&self, table: TableId, key: &[u8]) -> HashField {
        if table != TableId::Blocks {
            return HashField { hash: self.table(table), field: key.to_vec() };
        }
        let (chunk, number) = split_block(key);
        HashField { hash: self.chunk(chunk), field: number.to_vec() }
    }

    /// Every key that there may be, to measure them.
    pub(super) fn all<'a>(&'a self, chunks: &'a [Vec<u8>]) -> impl Iterator<Item = String> + 'a {
        let tables = TableId::ALL.into_iter().filter(|table| *table != TableId::Blocks);
        let fixed = [self.manifest.clone(), self.redo.clone()].into_iter();
        fixed.chain(tables.map(|table| self.table(table))).chain(chunks.iter().map(|chunk| self.chunk(chunk)))
    }
}

/// The chunk of a block's key, and the number of the block.
pub(super) fn split_block(key: &[u8]) -> (&[u8], &[u8]) {
    key.split_at_checked(CHUNK_BYTES).unwrap_or((key, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::slot;

    #[test]
    fn all_keys_are_in_one_slot_whatever_the_prefix() {
        for prefix in ["", "prod:", "{a}", "x{", "}{"] {
            let keys = HistoryKeys::new(prefix);
            let block = keys.field(TableId::Blocks, &[1, 0, 0, 0, 60, 0, 0, 0, 7]);
            let chunks = [vec![4, 1, 2, 3, 4]];
            let all = keys.all(&chunks).chain([keys.lease.clone(), block.hash]);
            assert!(all.map(|name| slot(&name)).all(|slot_of| slot_of == slot(&keys.manifest)), "{prefix}");
        }
    }

    #[test]
    fn blocks_of_a_chunk_share_a_hash() {
        let keys = HistoryKeys::new("p:");
        let field = keys.field(TableId::Blocks, &[1, 0, 0, 0, 60, 0, 0, 0, 7]);
        assert_eq!(field, HashField { hash: "p:h1:{history}:b:010000003c".into(), field: vec![0, 0, 0, 7] });
        assert_eq!(keys.field(TableId::Log, b"x").hash, "p:h1:{history}:l");
    }
}
