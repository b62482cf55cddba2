//! Buffers that the connections of a thread share, so that one that waits has none.
//!
//! Only one connection of a thread is polled at a time, so that all of them read into the same bytes
//! ([`with_input`]), which the processor has at hand. Whatever has to be kept until the next poll goes to a
//! buffer of its own ([`take`]).

use std::cell::RefCell;

/// Bytes of one read, from clients and upstreams.
const READ: usize = 64 << 10;

/// How many are kept: a request that waits for its upstream has three.
const BUFFERS_MAX: usize = 256;
/// Larger ones are not.
const BYTES_MAX: usize = 16 << 10;
/// What a new one has room for: a usual head and a small body.
const BYTES_USUAL: usize = 2 << 10;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Where to read, for whoever is polled.
pub(super) fn with_input<T>(read: impl FnOnce(&mut [u8]) -> T) -> T {
    INPUT.with_borrow_mut(|input| read(input))
}

/// A buffer with these bytes.
pub(super) fn take_with(bytes: &[u8]) -> Vec<u8> {
    let mut buffer = take();
    buffer.extend_from_slice(bytes);
    buffer
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
