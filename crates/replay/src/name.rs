//! Names with their hashes, made where a log is read and used where it is decided.
//!
//! [`NameHasher`] is one for a whole replay: batches hash the names of keys and routes once for all
//! requests that have them, and the tables of `ledger.rs` find them by these hashes. [`NameIndex`]
//! finds out which requests have the same.
//!
//! Invariant: the seed is a process's own, so that no log can make names meet in a table.

use std::hash::BuildHasher as _;
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Hashes the names of one replay.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameHasher(RandomState);

/// A name, and its hash by the replay's [`NameHasher`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HashedName<'a> {
    pub(crate) text: &'a str,
    pub(crate) hash: u64,
}

impl NameHasher {
    /// A name with its hash.
    pub(crate) fn name<'a>(&self, text: &'a str) -> HashedName<'a> {
        HashedName { text, hash: self.hash(text.as_bytes()) }
    }

    fn hash(&self, bytes: &[u8]) -> u64 {
        self.0.hash_one(bytes)
    }
}

/// What was found out about texts that came before: a few clients and pages are most of what a log has.
#[derive(Debug, Default)]
pub(crate) struct NameIndex {
    hasher: NameHasher,
    table: HashTable<KnownText>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct KnownText {
    hash: u64,
    bytes: Range<usize>,
    place: usize,
}

impl NameIndex {
    pub(crate) fn new(hasher: NameHasher) -> Self {
        Self { hasher, ..Self::default() }
    }

    /// The place of a text, found or made by `add`.
    pub(crate) fn find(&mut self, text: &[u8], add: impl FnOnce() -> usize) -> usize {
        let Self { hasher, table, bytes } = self;
        let hash = hasher.hash(text);
        let is_it = |known: &KnownText| known.hash == hash && bytes.get(known.bytes.clone()) == Some(text);
        if let Some(known) = table.find(hash, is_it) {
            return known.place;
        }
        let start = bytes.len();
        bytes.extend_from_slice(text);
        let known = KnownText { hash, bytes: start..bytes.len(), place: add() };
        table.insert_unique(hash, known, |known| known.hash).get().place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_added_once_and_found_again() {
        let (mut index, mut added) = (NameIndex::default(), Vec::new());
        for text in ["a", "b", "", "a", "ab", "b", "", "ba"] {
            let place = index.find(text.as_bytes(), || {
                added.push(text);
                added.len() - 1
            });
            assert_eq!(added[place], text);
        }
        assert_eq!(added, ["a", "b", "", "ab", "ba"]);
    }
}
