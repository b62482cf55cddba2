//! How counts become bytes: flush records and blocks.
//!
//! [`record`] is what one flush adds to the log of an hour, [`post`] what it adds
//! to a log that several processes share; [`block`] is what finished periods are
//! folded into. The formats are described in `spec/history/`.
//!
//! Invariant: decoding is total. Whatever the bytes, it ends with values or
//! with an error, and allocates no more than a few times their length.

pub(crate) mod block;
pub(crate) mod bytes;
#[cfg(test)]
mod damage;
pub(crate) mod post;
pub(crate) mod record;
pub(crate) mod row;
