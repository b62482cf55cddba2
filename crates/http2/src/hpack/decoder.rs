//! Reads blocks of header fields.
//!
//! Invariants: every block of a connection is read to its end, in their order, even those of requests
//! that are refused; else both ends would not agree on the table any more. A field is copied only into
//! the table.

use super::dynamic_table::DynamicTable;
use super::{HpackError, huffman, integer, static_table};
use crate::field::{FieldKind, HeaderField};

/// The most that the table may hold. It is what RFC 7541 gives everybody, and we never say otherwise.
pub(crate) const TABLE_BYTES: usize = 4_096;

/// Where the static table has `:path`.
const PATH_INDEX: usize = 4;

/// A known path in Huffman's code, as it came last. Envoy and nghttp2 spell paths out in every call, since
/// those of browsers hardly come twice.
#[derive(Debug)]
struct CodedPath {
    coded: Box<[u8]>,
    path: Box<[u8]>,
    kind: FieldKind,
}

/// What one end of a connection has to remember to read the blocks of the other.
#[derive(Debug)]
pub(crate) struct HpackDecoder {
    table: DynamicTable,
    known_paths: &'static [&'static str],
    last_path: Option<Box<CodedPath>>,
    /// Where texts in Huffman's code are read into.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl HpackDecoder {
    pub(crate) const fn new(known_paths: &'static [&'static str]) -> Self {
        let table = DynamicTable::new(TABLE_BYTES);
        Self { table, known_paths, last_path: None, name: Vec::new(), value: Vec::new() }
    }

    /// Shows each field of a block to `visit`.
    pub(crate) fn decode(
        &mut self,
        mut block: &[u8],
        mut visit: impl FnMut(HeaderField<'_>),
    ) -> Result<(), HpackError> {
        let mut may_resize = true;
        while let Some(first) = block.first() {
            match first {
                0x80.. => self.indexed(&mut block, &mut visit)?,
                0x40..0x80 => self.literal(&mut block, 6, &mut visit)?,
                0x20..0x40 => {
                    let bytes = integer::take(&mut block, 5)?;
                    if !may_resize || bytes > TABLE_BYTES {
                        return Err(HpackError);
                    }
                    self.table.resize(bytes);
                    continue;
                }
                0..0x20 => self.literal(&mut block, 4, &mut visit)?,
            }
            may_resize = false;
        }
        Ok(())
    }

    fn indexed(&self, block: &mut &[u8], visit: &mut impl FnMut(HeaderField<'_>)) -> Result<(), HpackError> {
        let index = integer::take(block, 7)?;
        match static_table::field(index) {
            Some((name, value)) => {
                let (name, value) = (name.as_bytes(), value.as_bytes());
                visit(HeaderField { name, value, kind: FieldKind::of(name, value, self.known_paths) });
            }
            None => visit(self.table.field(dynamic(index)?).ok_or(HpackError)?),
        }
        Ok(())
    }

    /// A field whose value is spelt out; with 6 bits for the index it goes into the table.
    fn literal(
        &mut self,
        block: &mut &[u8],
        index_bits: u32,
        visit: &mut impl FnMut(HeaderField<'_>),
    ) -> Result<(), HpackError> {
        let index = integer::take(block, index_bits)?;
        let before = *block;
        if (index, index_bits) == (PATH_INDEX, 4)
            && let Some(last) = &self.last_path
            && let Some(rest) = block.strip_prefix(&*last.coded)
        {
            *block = rest;
            visit(HeaderField { name: b":path", value: &last.path, kind: last.kind });
            return Ok(());
        }
        let name = match (index, static_table::field(index)) {
            (0, _) => text(block, &mut self.name)?,
            (_, Some((name, _))) => name.as_bytes(),
            (_, None) => self.table.field(dynamic(index)?).ok_or(HpackError)?.name,
        };
        let value = text(block, &mut self.value)?;
        let kind = FieldKind::of(name, value, self.known_paths);
        visit(HeaderField { name, value, kind });
        if let (FieldKind::KnownPath(_), PATH_INDEX, 4) = (kind, index, index_bits) {
            let coded = before.get(..before.len() - block.len()).unwrap_or_default().into();
            self.last_path = Some(Box::new(CodedPath { coded, path: value.into(), kind }));
        }
        if index_bits == 6 {
            let (name_bytes, entry) = (name.len(), [name, value].concat().into_boxed_slice());
            self.table.insert(entry, name_bytes, kind);
        }
        Ok(())
    }

    /// Gives back what a long text has taken.
    pub(crate) fn forget_texts(&mut self) {
        (self.name, self.value) = (Vec::new(), Vec::new());
    }
}

/// The place in the dynamic table of an index that is not in the static one.
fn dynamic(index: usize) -> Result<usize, HpackError> {
    index.checked_sub(static_table::FIELDS.len() + 1).ok_or(HpackError)
}

/// Takes a text off `block`, into `decoded` if it is in Huffman's code.
#[inline]
fn text<'b: 't, 't>(block: &mut &'b [u8], decoded: &'t mut Vec<u8>) -> Result<&'t [u8], HpackError> {
    let is_coded = block.first().is_some_and(|first| *first >= 0x80);
    let length = integer::take(block, 7)?;
    let (bytes, rest) = block.split_at_checked(length).ok_or(HpackError)?;
    *block = rest;
    if !is_coded {
        return Ok(bytes);
    }
    decoded.clear();
    huffman::decode(bytes, decoded)?;
    Ok(decoded)
}

#[cfg(test)]
mod tests;
