//! How counts become bytes.
//!
//! [`record`] is what one flush adds to the log of an hour, [`log_entry`] what it
//! adds to a log that several processes share; [`block`] is what both are compacted
//! into. The formats are described in `spec/history/`.
//!
//! Invariant: decoding is total. Whatever the bytes, it ends with values or an
//! error, and allocates no more than a few times their length.

pub(crate) mod block;
pub(crate) mod log_entry;
pub(crate) mod record;
pub(crate) mod row;
#[cfg(test)]
mod tests;
