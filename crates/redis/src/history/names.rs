//! The keys of a history in Redis.
//!
//! | key | what |
//! |---|---|
//! | `h1:{history}:root` | a string: which edition is in force |
//! | `h1:{history}:m`, `:s`, `:i`, `:l` | hashes: the tables meta, series, seen and log |
//! | `h1:{history}:b:<chunk>` | a hash for each tier and chunk: blocks by shard |
//! | `h1:{history}:redo` | a hash: the changes of the last commit, while they are made |
//! | `h1:{history}:lock` | a string that expires: who leads |
//!
//! Invariant: what stands in braces is the same for all, so that a cluster keeps
//! them in one slot and a script may see several. A chunk is a key of its own, so
//! that none grows beyond some megabytes and the slot can be moved.

use tollgate_history::engine::Table;

use super::redo::letter;

/// How many bytes of a block's key name its chunk: the tier and the start. What
/// follows is the shard.
pub(super) const CHUNK_BYTES: usize = 5;

/// The keys of one history.
#[derive(Debug)]
pub(super) struct Names {
    /// What all of them begin with.
    pub(super) base: String,
    pub(super) root: String,
    pub(super) redo: String,
    pub(super) lock: String,
}

/// Where a row is: a hash, and a field of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) hash: String,
    pub(super) field: Vec<u8>,
}

impl Names {
    pub(super) fn new(prefix: &str) -> Self {
        let base = format!("{prefix}h1:{{history}}:");
        let name = |name: &str| format!("{base}{name}");
        Self { root: name("root"), redo: name("redo"), lock: name("lock"), base }
    }

    /// The hash of a table; blocks have one for each chunk.
    pub(super) fn table(&self, table: Table) -> String {
        format!("{}{}", self.base, char::from(letter(table)))
    }

    /// The hash of a chunk of blocks.
    pub(super) fn chunk(&self, chunk: &[u8]) -> String {
        let mut name = self.table(Table::Blocks);
        name.push(':');
        chunk.iter().for_each(|byte| name.push_str(&format!("{byte:02x}")));
        name
    }

    /// Where the row with that key is.
    pub(super) fn place(&self, table: Table, key: &[u8]) -> Place {
        if table != Table::Blocks {
            return Place { hash: self.table(table), field: key.to_vec() };
        }
        let (chunk, shard) = split_block(key);
        Place { hash: self.chunk(chunk), field: shard.to_vec() }
    }

    /// Every key that there may be, to look how large they are.
    pub(super) fn all<'a>(&'a self, chunks: &'a [Vec<u8>]) -> impl Iterator<Item = String> + 'a {
        let tables = Table::ALL.into_iter().filter(|table| *table != Table::Blocks);
        let fixed = [self.root.clone(), self.redo.clone()].into_iter();
        fixed.chain(tables.map(|table| self.table(table))).chain(chunks.iter().map(|chunk| self.chunk(chunk)))
    }
}

/// The chunk of a block's key, and what is behind it.
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
            let names = Names::new(prefix);
            let block = names.place(Table::Blocks, &[1, 0, 0, 0, 60, 0, 0, 0, 7]);
            let chunks = [vec![4, 1, 2, 3, 4]];
            let all = names.all(&chunks).chain([names.lock.clone(), block.hash]);
            assert!(all.map(|name| slot(&name)).all(|slot_of| slot_of == slot(&names.root)), "{prefix}");
        }
    }

    #[test]
    fn blocks_of_a_chunk_share_a_hash() {
        let names = Names::new("p:");
        let place = names.place(Table::Blocks, &[1, 0, 0, 0, 60, 0, 0, 0, 7]);
        assert_eq!(place, Place { hash: "p:h1:{history}:b:010000003c".into(), field: vec![0, 0, 0, 7] });
        assert_eq!(names.place(Table::Log, b"x").hash, "p:h1:{history}:l");
    }
}
