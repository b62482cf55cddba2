//! Which lines have somebody waiting, for whoever answers callers.
//!
//! [`crate::DeferredLines`] keeps it up to date; a request that comes while its line waits lines up
//! behind it.
//!
//! Invariant: asking costs one load while nobody waits at all.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Which lines have somebody waiting. A line is known by its hash, so that long names take no room.
#[derive(Debug, Default)]
pub struct LineIndex {
    count: AtomicUsize,
    lines: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

impl LineIndex {
    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether somebody waits in this line.
    pub fn has(&self, line: &str) -> bool {
        !self.is_empty() && self.lines.lock().contains(&self.hasher.hash_one(line))
    }

    /// Somebody waits in this line, or nobody any more.
    pub(crate) fn set(&self, line: &str, is_waiting: bool) {
        let (hash, mut lines) = (self.hasher.hash_one(line), self.lines.lock());
        match is_waiting {
            true => drop(lines.insert(hash)),
            false => drop(lines.remove(&hash)),
        }
        self.count.store(lines.len(), Ordering::Release);
    }

    /// Nobody waits here any more.
    pub(crate) fn clear(&self) {
        self.lines.lock().clear();
        self.count.store(0, Ordering::Release);
    }
}
