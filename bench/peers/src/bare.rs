//! What no limiter of many keys does without: a key is hashed, and 24 bytes of a table are read and written. No
//! clock, no lock, no decision; what a check takes beyond this is the limiter's own.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use prefetch_index::prefetch_index;
use tollgate_in_process::contestant::{Allowance, Contestant};

/// As many as Tollgate's tables have for a million keys.
const SLOTS: u64 = 1_380_000;
/// Keys that are hashed and fetched ahead together.
const TOGETHER: usize = 64;

pub(crate) struct BareMemory {
    hasher: RandomState,
    slots: Box<[[AtomicU64; 3]]>,
    allowance: Allowance,
}

impl BareMemory {
    fn place(&self, key: &String) -> usize {
        let place = (u128::from(self.hasher.hash_one(key)) * u128::from(SLOTS)) >> u64::BITS;
        usize::try_from(place).expect("a place within the slots")
    }

    /// Reads and writes a slot.
    fn visit(&self, place: usize) {
        let [first, second, third] = &self.slots[place];
        let visits = first.load(Ordering::Relaxed) + 1;
        first.store(visits, Ordering::Relaxed);
        second.store(visits, Ordering::Relaxed);
        third.store(visits, Ordering::Relaxed);
    }
}

impl Contestant for BareMemory {
    const NAME: &'static str = "nothing but a hash and a slot of memory";

    fn new(allowance: Allowance) -> Self {
        let slots = (0..SLOTS).map(|_| Default::default()).collect();
        Self { hasher: RandomState::default(), slots, allowance }
    }

    fn check(&self, key: &String) -> bool {
        self.visit(self.place(key));
        self.allowance.allows()
    }

    fn batch_caller(&self) -> impl FnMut(&[&String]) -> usize {
        |keys| {
            for together in keys.chunks(TOGETHER) {
                let mut places = [0; TOGETHER];
                for (place, key) in places.iter_mut().zip(together) {
                    *place = self.place(key);
                    prefetch_index(&self.slots, *place);
                }
                places.iter().take(together.len()).for_each(|place| self.visit(*place));
            }
            keys.len()
        }
    }
}
