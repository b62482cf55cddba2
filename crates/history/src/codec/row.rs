//! One curve of one chunk, in as few bytes as its encoding allows.
//!
//! A row is written in the shorter of two encodings:
//! - *sparse*, for the many routes that are hit now and then: the gap since the
//!   last non-zero point, with one bit that says whether the count is more than
//!   one, and then the count less two;
//! - *dense*, for busy series: frame of reference. Frames of 32 values, each its
//!   minimum, a bit width, and every value's excess over the minimum, bit-packed.
//!   Zero frames at the end are left out.

use crate::bytes::{ByteReader, index, low_byte, put_varint, varint_length, wide};
use crate::error::{Result, corrupt};

/// Values in one frame: enough to share a header, few enough that an outlier
/// spoils little.
const FRAME: usize = 32;

/// How a row is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowEncoding {
    Sparse,
    Dense,
}

/// The minimum of a frame, and the bits for the excess over it.
#[derive(Debug, Clone, Copy)]
struct BitFrame {
    least: u64,
    width: u32,
}

/// Writes rows, and reuses its buffer of frames.
#[derive(Debug, Default)]
pub(crate) struct RowEncoder {
    frames: Vec<BitFrame>,
}

impl RowEncoder {
    /// Appends a row in the shorter encoding.
    pub(crate) fn put(&mut self, bytes: &mut Vec<u8>, values: &[u64]) -> RowEncoding {
        let dense_length = self.frame(values);
        let start = bytes.len();
        if is_sparse(values, dense_length) && put_sparse(bytes, values, start + dense_length) {
            return RowEncoding::Sparse;
        }
        bytes.truncate(start);
        for (frame, BitFrame { least, width }) in values.chunks(FRAME).zip(&self.frames) {
            put_varint(bytes, *least);
            bytes.push(low_byte(u64::from(*width)));
            put_bits(bytes, frame, *least, *width);
        }
        RowEncoding::Dense
    }

    /// Finds the frames; returns how many bytes they take.
    fn frame(&mut self, values: &[u64]) -> usize {
        let used = values.iter().rposition(|value| *value > 0).map_or(0, |last| last + 1);
        self.frames.clear();
        let mut length = 0;
        for frame in values.chunks(FRAME).take(used.div_ceil(FRAME)) {
            let (least, most) = frame
                .iter()
                .fold((u64::MAX, 0), |(least, most), value| (least.min(*value), most.max(*value)));
            let width = u64::BITS - (most - least).leading_zeros();
            length += varint_length(least) + 1 + (frame.len() * index(u64::from(width))).div_ceil(8);
            self.frames.push(BitFrame { least, width });
        }
        length
    }
}

/// Whether the sparse encoding can be short enough: a point takes a byte, and two if it is more than one.
fn is_sparse(values: &[u64], most: usize) -> bool {
    let least: usize = values.iter().map(|value| usize::from(*value > 0) + usize::from(*value > 1)).sum();
    least <= most
}

/// Writes the row; false if `bytes` would get longer than `most`.
fn put_sparse(bytes: &mut Vec<u8>, values: &[u64], most: usize) -> bool {
    let mut gap = 0_u64;
    for value in values {
        match value {
            0 => gap += 1,
            1 => {
                put_varint(bytes, gap << 1);
                gap = 0;
            }
            more => {
                put_varint(bytes, (gap << 1) | 1);
                put_varint(bytes, more - 2);
                gap = 0;
            }
        }
        if bytes.len() > most {
            return false;
        }
    }
    true
}

fn put_bits(bytes: &mut Vec<u8>, frame: &[u64], least: u64, width: u32) {
    let mut held = 0_u128;
    let mut bits = 0;
    for value in frame {
        held |= u128::from(value - least) << bits;
        bits += width;
        if bits >= u64::BITS {
            bytes.extend_from_slice(&low_word(held).to_le_bytes());
            held >>= u64::BITS;
            bits -= u64::BITS;
        }
    }
    let rest = low_word(held).to_le_bytes();
    bytes.extend(rest.iter().take(index(u64::from(bits.div_ceil(8)))));
}

#[expect(clippy::as_conversions, reason = "the low 64 bits are what is meant")]
const fn low_word(value: u128) -> u64 {
    value as u64
}

/// Visits the non-zero points of a row.
pub(crate) fn decode(
    encoding: RowEncoding,
    bytes: &[u8],
    points: usize,
    visit: &mut impl FnMut(usize, u64) -> Result<()>,
) -> Result<()> {
    match encoding {
        RowEncoding::Sparse => each_sparse(bytes, points, visit),
        RowEncoding::Dense => each_dense(bytes, points, visit),
    }
}

fn each_sparse(bytes: &[u8], points: usize, visit: &mut impl FnMut(usize, u64) -> Result<()>) -> Result<()> {
    let mut reader = ByteReader::new(bytes);
    let mut at = 0_usize;
    while !reader.is_empty() {
        let head = reader.varint()?;
        let value = if head & 1 == 0 { 1 } else { reader.varint()?.saturating_add(2) };
        at = at.saturating_add(index(head >> 1));
        if at >= points {
            return Err(corrupt("a row has a point outside of its chunk"));
        }
        visit(at, value)?;
        at += 1;
    }
    Ok(())
}

fn each_dense(bytes: &[u8], points: usize, visit: &mut impl FnMut(usize, u64) -> Result<()>) -> Result<()> {
    let mut reader = ByteReader::new(bytes);
    let mut start = 0;
    while !reader.is_empty() {
        if start >= points {
            return Err(corrupt("a row has more values than its chunk"));
        }
        let count = FRAME.min(points - start);
        let least = reader.varint()?;
        let width = u32::from(reader.byte()?);
        if width > u64::BITS {
            return Err(corrupt("a row has values of more than 64 bits"));
        }
        let packed = reader.take((count * index(u64::from(width))).div_ceil(8))?;
        each_packed(packed, width, count, &mut |at, above| {
            let value = least.saturating_add(above);
            if value > 0 { visit(start + at, value) } else { Ok(()) }
        })?;
        start += count;
    }
    Ok(())
}

fn each_packed(
    packed: &[u8],
    width: u32,
    count: usize,
    visit: &mut impl FnMut(usize, u64) -> Result<()>,
) -> Result<()> {
    let mask = (1_u128 << width) - 1;
    let mut held = 0_u128;
    let mut bits = 0;
    let mut words = packed.chunks(8);
    for at in 0..count {
        if bits < width {
            held |= u128::from(words.next().map_or(0, little_word)) << bits;
            bits += u64::BITS;
        }
        visit(at, low_word(held & mask))?;
        held >>= width;
        bits -= width;
    }
    Ok(())
}

/// Up to eight bytes, the lowest first.
fn little_word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(whole) => u64::from_le_bytes(*whole),
        None => bytes.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte)),
    }
}

/// Writes the length of a row and its encoding, in one varint.
pub(crate) fn put_head(bytes: &mut Vec<u8>, encoding: RowEncoding, length: usize) {
    let dense = u64::from(encoding == RowEncoding::Dense);
    put_varint(bytes, (wide(length) << 1) | dense);
}

/// What [`put_head`] wrote.
pub(crate) fn read_head(reader: &mut ByteReader<'_>) -> Result<(RowEncoding, usize)> {
    let head = reader.varint()?;
    let encoding = if head & 1 == 1 { RowEncoding::Dense } else { RowEncoding::Sparse };
    Ok((encoding, index(head >> 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(values: &[u64]) -> (RowEncoding, usize) {
        let mut bytes = vec![7];
        let encoding = RowEncoder::default().put(&mut bytes, values);
        let mut back = vec![0; values.len()];
        decode(encoding, &bytes[1..], values.len(), &mut |at, value| {
            back[at] = value;
            Ok(())
        })
        .unwrap();
        assert_eq!((bytes[0], back.as_slice()), (7, values));
        (encoding, bytes.len() - 1)
    }

    #[test]
    fn the_encoding_follows_the_data() {
        let mut quiet = [0; 60];
        quiet[17] = 1;
        assert_eq!(round_trip(&quiet), (RowEncoding::Sparse, 1));
        let busy: Vec<u64> = (0..60).map(|n| 1_000 + n % 7).collect();
        let (encoding, length) = round_trip(&busy);
        assert_eq!(encoding, RowEncoding::Dense);
        assert!(length <= 30, "{length} bytes for 60 values of three bits");
        assert_eq!(round_trip(&[0; 60]).1, 0);
        round_trip(&[u64::MAX; 33]);
        round_trip(&[0, u64::MAX, 1, 2]);
    }

    proptest! {
        #[test]
        fn every_row_comes_back(values in proptest::collection::vec(
            prop_oneof![4 => Just(0_u64), 3 => 0_u64..5, 2 => 0_u64..100_000, 1 => any::<u64>()], 0..300)) {
            round_trip(&values);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), points in 0_usize..300) {
            for encoding in [RowEncoding::Sparse, RowEncoding::Dense] {
                let mut most = 0;
                drop(decode(encoding, &bytes, points, &mut |at, _| {
                    most = most.max(at + 1);
                    Ok(())
                }));
                prop_assert!(most <= points);
            }
        }
    }
}
