//! A chunk of up to 64 series: what finished periods are folded into.
//!
//! ```text
//! version  points  rows  header length   header               payload       crc32
//! u8       varint  varint  varint        per row, by id:      rows, joined  u32 LE
//!                                        id delta, length×2+dense, total if dense
//! ```
//!
//! A curve reads one row without the others, and a top list needs the totals of
//! the header alone; a sparse row is short enough to be summed.

use super::bytes::{Reader, index, put_bytes, put_checksum, put_row_id, put_varint, versioned, wide};
use super::row::{self, Encoder, Shape};
use crate::error::{Result, corrupt};
use crate::label::RowId;

/// The format that is written.
pub(crate) const VERSION: u8 = 1;

/// More points than any tier puts into a chunk; what a decoder accepts.
pub(crate) const POINTS_MAX: usize = 512;

/// Writes a block of these rows, which come in the order of their ids. Rows
/// without a point are left out; none at all make no block.
pub(crate) fn encode<'a>(points: usize, rows: impl Iterator<Item = (RowId, &'a [u64])>) -> Option<Vec<u8>> {
    let mut encoder = Encoder::default();
    let (mut header, mut payload) = (Vec::new(), Vec::new());
    let mut count = 0_u64;
    let mut last = 0;
    for (id, values) in rows {
        let total = values.iter().fold(0_u64, |sum, value| sum.saturating_add(*value));
        if total == 0 {
            continue;
        }
        let start = payload.len();
        let shape = encoder.put(&mut payload, values);
        put_row_id(&mut header, id, &mut last);
        row::put_head(&mut header, shape, payload.len() - start);
        if shape == Shape::Dense {
            put_varint(&mut header, total);
        }
        count += 1;
    }
    if count == 0 {
        return None;
    }
    let mut block = vec![VERSION];
    put_varint(&mut block, wide(points));
    put_varint(&mut block, count);
    put_bytes(&mut block, &header);
    block.extend_from_slice(&payload);
    put_checksum(&mut block);
    Some(block)
}

/// A block whose checksum is right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    points: usize,
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Block<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = versioned(bytes, VERSION, "a block of no known version")?;
        let points = index(reader.varint()?);
        if points > POINTS_MAX {
            return Err(corrupt("a block has too many points"));
        }
        // The number of rows is for people who look at the bytes.
        reader.varint()?;
        let header = reader.bytes()?;
        Ok(Self { points, header, payload: reader.rest() })
    }

    /// The rows in the order of their ids.
    pub(crate) fn rows(&self) -> Rows<'a> {
        Rows { points: self.points, header: Reader::new(self.header), payload: self.payload, last: 0 }
    }

    /// The rows among `wanted`, which is sorted.
    pub(crate) fn find(&self, wanted: &[RowId], visit: &mut impl FnMut(usize, Row<'a>)) -> Result<()> {
        let mut wanted = wanted.iter().enumerate().peekable();
        for row in self.rows() {
            let row = row?;
            while wanted.next_if(|(_, id)| **id < row.id).is_some() {}
            match wanted.peek() {
                Some((place, id)) if **id == row.id => visit(*place, row),
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }
}

/// One curve of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) id: RowId,
    points: usize,
    shape: Shape,
    total: Option<u64>,
    bytes: &'a [u8],
}

impl Row<'_> {
    /// Every point that is not zero.
    pub(crate) fn each(&self, visit: &mut impl FnMut(usize, u64)) -> Result<()> {
        row::decode(self.shape, self.bytes, self.points, visit)
    }

    /// The sum of its points.
    pub(crate) fn total(&self) -> Result<u64> {
        if let Some(total) = self.total {
            return Ok(total);
        }
        let mut total = 0_u64;
        self.each(&mut |_, value| total = total.saturating_add(value))?;
        Ok(total)
    }
}

/// The rows of a block, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Rows<'a> {
    points: usize,
    header: Reader<'a>,
    payload: &'a [u8],
    last: u32,
}

impl<'a> Rows<'a> {
    fn read(&mut self) -> Result<Row<'a>> {
        let id = self.header.row_id(&mut self.last)?;
        let (shape, length) = row::read_head(&mut self.header)?;
        let total = if shape == Shape::Dense { Some(self.header.varint()?) } else { None };
        let (bytes, rest) =
            self.payload.split_at_checked(length).ok_or(corrupt("a row is longer than its block"))?;
        self.payload = rest;
        Ok(Row { id, points: self.points, shape, total, bytes })
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<Row<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.header.is_empty() {
            return None;
        }
        let row = self.read();
        if row.is_err() {
            self.header = Reader::new(&[]);
        }
        Some(row)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::codec::damage::{is_always_found, is_harmless_with_a_forged_checksum};
    use crate::error::Error;

    /// Opens a block and reads all of it.
    pub(crate) fn read_all(bytes: &[u8]) -> Result<Vec<(u32, Vec<u64>)>> {
        let block = Block::open(bytes)?;
        let mut all = Vec::new();
        for row in block.rows() {
            let row = row?;
            let mut values = vec![0; block.points];
            row.each(&mut |at, value| values[at] = value)?;
            assert_eq!(row.total().unwrap_or(0), values.iter().fold(0_u64, |a, b| a.saturating_add(*b)));
            all.push((row.id.0, values));
        }
        Ok(all)
    }

    pub(crate) fn sample() -> Vec<(u32, Vec<u64>)> {
        let dense = (0..60).map(|minute| 900 + minute * minute % 41).collect();
        let mut sparse = vec![0; 60];
        sparse[3] = 1;
        sparse[59] = 70_000;
        vec![(8, dense), (11, sparse), (511, vec![1; 60])]
    }

    fn encode_all(rows: &[(u32, Vec<u64>)]) -> Vec<u8> {
        encode(60, rows.iter().map(|(id, values)| (RowId(*id), values.as_slice()))).unwrap()
    }

    #[test]
    fn a_block_gives_back_its_rows_and_leaves_out_empty_ones() {
        let mut rows = sample();
        rows.insert(1, (9, vec![0; 60]));
        let bytes = encode_all(&rows);
        rows.remove(1);
        assert_eq!(read_all(&bytes).unwrap(), rows);
        assert_eq!(encode(60, [(RowId(3), [0_u64; 60].as_slice())].into_iter()), None);
    }

    #[test]
    fn rows_are_found_by_their_number() {
        let bytes = encode_all(&sample());
        let block = Block::open(&bytes).unwrap();
        let mut found = Vec::new();
        let wanted = [0, 11, 12, 511, 600].map(RowId);
        block.find(&wanted, &mut |place, row| found.push((place, row.total().unwrap()))).unwrap();
        assert_eq!(found, [(1, 70_001), (3, 60)]);
    }

    #[test]
    fn a_newer_format_is_named_and_not_called_damage() {
        let mut bytes = encode_all(&sample());
        bytes[0] = VERSION + 1;
        assert!(matches!(Block::open(&bytes), Err(Error::TooNew { found: 2, known: 1 })));
    }

    #[test]
    fn damage_is_found_and_does_no_harm() {
        let bytes = encode_all(&sample());
        is_always_found(&bytes, read_all);
        is_harmless_with_a_forged_checksum(&bytes, |changed| {
            if let Ok(block) = Block::open(changed) {
                for row in block.rows().flatten() {
                    drop(row.each(&mut |at, _| assert!(at < block.points)));
                }
            }
        });
    }
}
