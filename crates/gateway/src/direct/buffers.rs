//! Buffers that the connections of a thread share, so that one that waits has none.

use std::cell::RefCell;

/// How many are kept.
const BUFFERS_MAX: usize = 64;
/// Larger ones are not.
const BYTES_MAX: usize = 16 << 10;
/// What a new one has room for: a usual head and a small body.
const BYTES_USUAL: usize = 2 << 10;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer.
pub(super) fn take() -> Vec<u8> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(BYTES_USUAL))
}

/// Lets others have it.
pub(super) fn give(mut buffer: Vec<u8>) {
    if (1..=BYTES_MAX).contains(&buffer.capacity()) {
        buffer.clear();
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < BUFFERS_MAX {
                spare.push(buffer);
            }
        });
    }
}
