//! Copies of the last states that denied, which are read without the shard's lock.
//!
//! A key that is over its limit and asked for again and again is what a limiter meets when it matters.
//! Such a denial changes nothing, so that it need not write either: a lock is two writes to a line of
//! memory that every core wants. [`DeniedCells`] has room for two keys of a shard. [`super::MemoryStore`]
//! looks here first if the key is one that was copied last, decides over the copy, and takes the decision if it
//! is a denial that changes nothing; anything else goes to the table.
//!
//! Each copy is a seqlock of four words, and both of a shard share a line of memory: a reader looks at the sequence number before
//! and after, and takes nothing that was written meanwhile. Writers hold the lock of the shard, so that
//! there is one at a time.
//!
//! Invariants: a copy is the state that its slot has, and its slot is marked as in use; whatever
//! changes either drops the copy first. So a key that is denied from here stays out of the
//! hand's way, and no denial outlives its state.
//!
//! `tests/models.rs` plays through the orders in which a reader and a writer may meet.
//!
//! Deliberately not here: denials that are counted, which write; logs, which do not fit; and limits, which
//! may differ from one check to the next.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

// Whoever includes this file says whose they are: `tests/models.rs` has those of loom.
use super::atomics::{AtomicU64, fence};

/// What is known of one key.
#[derive(Debug)]
struct Copy {
    /// Odd while it is written.
    sequence: AtomicU64,
    /// 0 if there is none.
    hash: AtomicU64,
    words: [AtomicU64; 2],
}

/// The copies of a shard.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct DeniedCells {
    copies: [Copy; 2],
}

impl DeniedCells {
    pub(super) fn new() -> Self {
        let copy = || Copy {
            sequence: AtomicU64::new(0),
            hash: AtomicU64::new(0),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
        };
        Self { copies: [copy(), copy()] }
    }

    /// The state of a key, if there is a copy of it.
    #[inline]
    pub(super) fn get(&self, hash: u64) -> Option<[u64; 2]> {
        let copy = self.copy(hash);
        let before = copy.sequence.load(Acquire);
        let (found, words) = (copy.hash.load(Relaxed), copy.words());
        fence(Acquire);
        let is_whole = before.is_multiple_of(2) && copy.sequence.load(Relaxed) == before;
        (is_whole && found == hash).then_some(words)
    }

    /// Keeps a copy. Only the holder of the lock may.
    pub(super) fn put(&self, hash: u64, words: [u64; 2]) {
        let copy = self.copy(hash);
        if copy.hash.load(Relaxed) != hash || copy.words() != words {
            copy.write(hash, words);
        }
    }

    /// Drops the copy of a key; whether there was one. Only the holder of the lock may.
    #[inline]
    pub(super) fn forget(&self, hash: u64) -> bool {
        let copy = self.copy(hash);
        let is_here = copy.hash.load(Relaxed) == hash;
        if is_here {
            copy.write(0, [0, 0]);
        }
        is_here
    }

    /// The hashes of a shard have their high bits in common, and its table goes by those below.
    #[inline]
    fn copy(&self, hash: u64) -> &Copy {
        let [even, odd] = &self.copies;
        if hash.is_multiple_of(2) { even } else { odd }
    }
}

impl Copy {
    fn words(&self) -> [u64; 2] {
        let [first, second] = &self.words;
        [first.load(Relaxed), second.load(Relaxed)]
    }

    fn write(&self, hash: u64, words: [u64; 2]) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Relaxed);
        // What follows is seen by nobody before the odd number is.
        fence(Release);
        self.hash.store(hash, Relaxed);
        for (word, value) in self.words.iter().zip(words) {
            word.store(value, Relaxed);
        }
        self.sequence.store(sequence.wrapping_add(2), Release);
    }
}
