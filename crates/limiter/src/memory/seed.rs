//! The secret that keys are hashed with.
//!
//! Random for each store, so that nobody outside can make two keys meet; known
//! to the store, so that a snapshot can be read by the next process.

use std::fmt;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

/// The secret that keys are hashed with.
#[derive(Clone)]
pub(super) struct Seed {
    words: [u64; 2],
    shared: SharedSeed,
}

impl Seed {
    pub(super) fn random() -> Self {
        let word = || getrandom::u64().expect("every system that we run on gives random numbers");
        Self::of([word(), word()])
    }

    pub(super) fn of(words: [u64; 2]) -> Self {
        Self { words, shared: SharedSeed::from_u64(words[1]) }
    }

    pub(super) const fn words(&self) -> [u64; 2] {
        self.words
    }

    #[inline]
    pub(super) fn hasher(&self) -> FoldHasher<'_> {
        self.hasher_of(self.words[0])
    }

    /// A hasher that goes on from a hash of this seed.
    #[inline]
    pub(super) fn hasher_of(&self, hash: u64) -> FoldHasher<'_> {
        FoldHasher::with_seed(hash, &self.shared)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(***)")
    }
}
