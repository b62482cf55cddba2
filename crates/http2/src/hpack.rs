//! HPACK (RFC 7541): blocks of header fields, read with a table and written without.
//!
//! `decoder` reads a block field by field, from `static_table`, `dynamic_table` or the block itself,
//! whose numbers are `integer` and whose texts may be in the code of `huffman`. `encoder` writes.
//!
//! Invariants: what is read is the same as what any other reader of HPACK reads, or an error after
//! which the connection ends. The table never holds more than [`decoder::TABLE_BYTES`].

pub(crate) mod decoder;
pub(crate) mod dynamic_table;
pub(crate) mod encoder;
mod huffman;
mod integer;
mod static_table;

/// A block of header fields that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HpackError;
