//! Where the slots of a shard are, for whoever wants the line of a key and has not got the lock.
//!
//! The line of a key that is in no cache takes longer to come than all else that a check does, so that it is asked
//! for as soon as the hash is known: before the clock is read, and before the lock is taken, which holds up every
//! read behind it. Slots may be moved meanwhile. Then the processor fetches a line that nobody wants, and that is all:
//! a prefetch of any address at all reads nothing for the program, and cannot fail.
//!
//! Invariant: nothing but a prefetch comes of a hint, so that it may be stale, or half of one and half of another.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use prefetch_index::prefetch_index;

use super::table::Table;

/// Addresses are told as distances from this, because a prefetch is of a place in a slice, within it or not.
static ANCHOR: [u8; 1] = [0];

/// Where the slots of a shard were when its table last changed.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct SlotsHint {
    /// Of the first slot, from [`ANCHOR`] on.
    distance: AtomicUsize,
    /// How many slots there are; none for a table that has more than can be told.
    length: AtomicU32,
}

impl SlotsHint {
    /// Notes where the slots of a table are now; whether they were elsewhere. Written only then, so that all cores may
    /// keep it.
    pub(super) fn note(&self, table: &Table) -> bool {
        let (address, length) = table.slots_place();
        let distance = address.wrapping_sub(ANCHOR.as_ptr().addr());
        let is_moved = self.distance.load(Ordering::Relaxed) != distance
            || self.length.load(Ordering::Relaxed) != length;
        if is_moved {
            self.distance.store(distance, Ordering::Relaxed);
            self.length.store(length, Ordering::Relaxed);
        }
        is_moved
    }

    /// Has the processor fetch the line where a key wants to be, and that of two slots further on, which mostly is
    /// the next one: few keys were pushed on further, and each line more slows down all others.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64, skip_bits: u32) {
        let length = u64::from(self.length.load(Ordering::Relaxed));
        let home = Table::home_among(length, hash, skip_bits);
        let at = self.distance.load(Ordering::Relaxed).wrapping_add(home.wrapping_mul(Table::SLOT_BYTES));
        prefetch_index(ANCHOR.as_slice(), at);
        prefetch_index(ANCHOR.as_slice(), at.wrapping_add(2 * Table::SLOT_BYTES));
    }
}
