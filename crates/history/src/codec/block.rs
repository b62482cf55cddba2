//! The points of up to 64 series in one chunk of time.
//!
//! ```text
//! version  points  rows  header length   header               payload       crc32
//! u8       varint  varint  varint        per row, by id:      rows, joined  u32 LE
//!                                        id delta, length×2+dense, total if dense
//! ```
//!
//! A curve reads one row without the others, and a top list reads only the totals
//! in the header; a sparse row is short enough to be summed.

use super::row::{self, RowEncoder, RowEncoding};
use crate::bytes::{ByteReader, index, put_bytes, put_checksum, put_varint, versioned, wide};
use crate::error::{Result, corrupt};
use crate::row_id::RowId;

/// The format that is written.
pub(crate) const VERSION: u8 = 1;

/// More points than any tier puts into a chunk; what a decoder accepts.
pub(crate) const POINTS_MAX: usize = 512;

/// Writes a block of these rows, which are in the order of their ids. Empty rows
/// are left out; none if all are empty.
pub(crate) fn encode<'a>(points: usize, rows: impl Iterator<Item = (RowId, &'a [u64])>) -> Option<Vec<u8>> {
    let mut encoder = RowEncoder::default();
    let (mut header, mut payload) = (Vec::new(), Vec::new());
    let mut count = 0_u64;
    let mut last = 0;
    for (id, values) in rows {
        let total = values.iter().fold(0_u64, |sum, value| sum.saturating_add(*value));
        if total == 0 {
            continue;
        }
        let start = payload.len();
        let encoding = encoder.put(&mut payload, values);
        id.put(&mut header, &mut last);
        row::put_head(&mut header, encoding, payload.len() - start);
        if encoding == RowEncoding::Dense {
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
pub(crate) struct SeriesBlock<'a> {
    points: usize,
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> SeriesBlock<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = versioned(bytes, VERSION, "a block of no known version")?;
        let points = index(reader.varint()?);
        if points > POINTS_MAX {
            return Err(corrupt("a block has too many points"));
        }
        // The number of rows is only for people who look at the bytes.
        reader.varint()?;
        let header = reader.bytes()?;
        Ok(Self { points, header, payload: reader.rest() })
    }

    /// The rows in the order of their ids.
    pub(crate) fn rows(&self) -> BlockRows<'a> {
        BlockRows {
            points: self.points,
            header: ByteReader::new(self.header),
            payload: self.payload,
            last: 0,
        }
    }

    /// Visits the rows among `wanted`, which is sorted, with their place in it.
    pub(crate) fn find(
        &self,
        wanted: &[RowId],
        visit: &mut impl FnMut(usize, BlockRow<'a>) -> Result<()>,
    ) -> Result<()> {
        let mut wanted = wanted.iter().enumerate().peekable();
        for row in self.rows() {
            let row = row?;
            while wanted.next_if(|(_, id)| **id < row.id).is_some() {}
            match wanted.peek() {
                Some((place, id)) if **id == row.id => visit(*place, row)?,
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }
}

/// One curve of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRow<'a> {
    pub(crate) id: RowId,
    points: usize,
    encoding: RowEncoding,
    total: Option<u64>,
    bytes: &'a [u8],
}

impl BlockRow<'_> {
    /// Visits the non-zero points.
    pub(crate) fn each(&self, visit: &mut impl FnMut(usize, u64) -> Result<()>) -> Result<()> {
        row::decode(self.encoding, self.bytes, self.points, visit)
    }

    /// The sum of its points.
    pub(crate) fn total(&self) -> Result<u64> {
        if let Some(total) = self.total {
            return Ok(total);
        }
        let mut total = 0_u64;
        self.each(&mut |_, value| {
            total = total.saturating_add(value);
            Ok(())
        })?;
        Ok(total)
    }
}

/// The rows of a block, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct BlockRows<'a> {
    points: usize,
    header: ByteReader<'a>,
    payload: &'a [u8],
    last: u32,
}

impl<'a> BlockRows<'a> {
    fn read(&mut self) -> Result<BlockRow<'a>> {
        let id = RowId::read(&mut self.header, &mut self.last)?;
        let (encoding, length) = row::read_head(&mut self.header)?;
        let total = if encoding == RowEncoding::Dense { Some(self.header.varint()?) } else { None };
        let (bytes, rest) =
            self.payload.split_at_checked(length).ok_or(corrupt("a row is longer than its block"))?;
        self.payload = rest;
        Ok(BlockRow { id, points: self.points, encoding, total, bytes })
    }
}

impl<'a> Iterator for BlockRows<'a> {
    type Item = Result<BlockRow<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.header.is_empty() {
            return None;
        }
        let row = self.read();
        if row.is_err() {
            self.header = ByteReader::new(&[]);
        }
        Some(row)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::error::Error;

    /// Opens a block and reads all of it.
    pub(crate) fn read_all(bytes: &[u8]) -> Result<Vec<(u32, Vec<u64>)>> {
        let block = SeriesBlock::open(bytes)?;
        let mut all = Vec::new();
        for row in block.rows() {
            let row = row?;
            let mut values = vec![0; block.points];
            row.each(&mut |at, value| {
                values[at] = value;
                Ok(())
            })?;
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

    pub(crate) fn encode_all(rows: &[(u32, Vec<u64>)]) -> Vec<u8> {
        encode(60, rows.iter().map(|(id, values)| (RowId(*id), values.as_slice()))).unwrap()
    }

    #[test]
    fn a_block_gives_back_its_rows_and_leaves_out_empty_ones() {
        let mut rows = sample();
        rows.insert(1, (9, vec![0; 60]));
        let bytes = encode_all(&rows);
        rows.remove(1);
        assert_eq!(read_all(&bytes).unwrap(), rows);
        let totals = SeriesBlock::open(&bytes).unwrap().rows().map(|row| row.unwrap().total().unwrap());
        assert!(totals.eq(rows.iter().map(|(_, values)| values.iter().sum::<u64>())));
        assert_eq!(encode(60, [(RowId(3), [0_u64; 60].as_slice())].into_iter()), None);
    }

    #[test]
    fn rows_are_found_by_their_number() {
        let bytes = encode_all(&sample());
        let block = SeriesBlock::open(&bytes).unwrap();
        let mut found = Vec::new();
        let wanted = [0, 11, 12, 511, 600].map(RowId);
        block
            .find(&wanted, &mut |place, row| {
                found.push((place, row.total()?));
                Ok(())
            })
            .unwrap();
        assert_eq!(found, [(1, 70_001), (3, 60)]);
    }

    #[test]
    fn a_newer_format_is_named_and_not_called_damage() {
        let mut bytes = encode_all(&sample());
        bytes[0] = VERSION + 1;
        assert!(matches!(SeriesBlock::open(&bytes), Err(Error::TooNew { found: 2, known: 1 })));
    }
}
