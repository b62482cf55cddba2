//! Which lines have somebody waiting, for whoever answers callers.
//!
//! [`crate::DeferredLines`] keeps it up to date; a request that comes while its line waits lines up
//! behind it. A request that was just taken in counts until the worker has looked at the queue.
//!
//! Invariant: asking costs one load while nobody waits at all.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// Which lines have somebody waiting. A line is known by its hash, so that long names take no room.
#[derive(Debug, Default)]
pub struct LineIndex {
    count: AtomicUsize,
    lines: Mutex<IndexedLines>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct IndexedLines {
    waiting: HashSet<u64>,
    /// Taken in, by the look of the worker that was the last before.
    pending: HashMap<u64, u64>,
    looks: u64,
}

/// A look of the worker at the queue.
#[derive(Debug, Clone, Copy)]
pub struct IndexLook(u64);

impl LineIndex {
    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether somebody waits in this line.
    pub fn has(&self, line: &str) -> bool {
        let hash = self.hasher.hash_one(line);
        !self.is_empty() && {
            let lines = self.lines.lock();
            lines.waiting.contains(&hash) || lines.pending.contains_key(&hash)
        }
    }

    /// A request of this line was taken in, and the worker does not know yet.
    pub(crate) fn taken_in(&self, line: &str) {
        let mut lines = self.lines.lock();
        let looks = lines.looks;
        lines.pending.insert(self.hasher.hash_one(line), looks);
        self.counted(lines);
    }

    /// The worker is about to look at the queue.
    pub fn look(&self) -> IndexLook {
        let mut lines = self.lines.lock();
        lines.looks += 1;
        IndexLook(lines.looks)
    }

    /// It has seen all that was taken in before that.
    pub fn seen(&self, look: IndexLook) {
        let mut lines = self.lines.lock();
        lines.pending.retain(|_, looks| *looks >= look.0);
        self.counted(lines);
    }

    /// Somebody waits in this line, or nobody any more.
    pub(crate) fn set(&self, line: &str, is_waiting: bool) {
        let (hash, mut lines) = (self.hasher.hash_one(line), self.lines.lock());
        match is_waiting {
            true => drop(lines.waiting.insert(hash)),
            false => drop(lines.waiting.remove(&hash)),
        }
        self.counted(lines);
    }

    /// Nobody waits here any more.
    pub(crate) fn clear(&self) {
        let mut lines = self.lines.lock();
        lines.waiting.clear();
        self.counted(lines);
    }

    fn counted(&self, lines: MutexGuard<'_, IndexedLines>) {
        self.count.store(lines.waiting.len() + lines.pending.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_in_counts_until_the_worker_has_looked() {
        let index = LineIndex::default();
        index.taken_in("a");
        let look = index.look();
        index.taken_in("b");
        assert!(index.has("a") && index.has("b"));
        index.set("a", true);
        index.seen(look);
        assert!(index.has("a") && index.has("b"), "the one waits, the other came after the look");
        index.set("a", false);
        index.seen(index.look());
        assert!(!index.has("a") && !index.has("b") && index.is_empty());
    }
}
