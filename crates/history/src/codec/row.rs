//! One curve of one chunk, in as few bytes as its shape allows.
//!
//! A row is written in two ways and the shorter is kept:
//! - *sparse*, for the many URLs that are hit now and then: the gap since the
//!   last point that is not zero, with one bit that says whether the count is
//!   more than one, and then the count less two;
//! - *dense*, for the busy ones: frames of 32 values, each the smallest value,
//!   a bit width, and what every value is above the smallest, bit-packed.
//!   Frames of zeros at the end are left out.

use super::bytes::{Reader, index, low_byte, put_varint, wide};
use crate::error::{Result, corrupt};

/// Values in one frame: enough to share a header, few enough for one outlier
/// to spoil.
const FRAME: usize = 32;

/// How a row is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Sparse,
    Dense,
}

/// Two buffers that are used again for every row.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    sparse: Vec<u8>,
    dense: Vec<u8>,
}

impl Encoder {
    /// The shorter of the two ways.
    pub(crate) fn encode(&mut self, values: &[u64]) -> (Shape, &[u8]) {
        self.sparse.clear();
        self.dense.clear();
        put_dense(&mut self.dense, values);
        if put_sparse(&mut self.sparse, values, self.dense.len()) {
            (Shape::Sparse, &self.sparse)
        } else {
            (Shape::Dense, &self.dense)
        }
    }
}

/// Writes the row unless that takes more than `most` bytes.
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

fn put_dense(bytes: &mut Vec<u8>, values: &[u64]) {
    let used = values.iter().rposition(|value| *value > 0).map_or(0, |last| last + 1);
    let frames = used.div_ceil(FRAME);
    for frame in values.chunks(FRAME).take(frames) {
        let least = frame.iter().copied().min().unwrap_or(0);
        let most = frame.iter().copied().max().unwrap_or(0);
        let width = u64::BITS - (most - least).leading_zeros();
        put_varint(bytes, least);
        bytes.push(low_byte(u64::from(width)));
        put_bits(bytes, frame, least, width);
    }
}

fn put_bits(bytes: &mut Vec<u8>, frame: &[u64], least: u64, width: u32) {
    let mut held = 0_u128;
    let mut bits = 0;
    for value in frame {
        held |= u128::from(value - least) << bits;
        bits += width;
        while bits >= 8 {
            bytes.push(low_byte_wide(held));
            held >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        bytes.push(low_byte_wide(held));
    }
}

#[expect(clippy::as_conversions, reason = "the low byte is what is meant")]
const fn low_byte_wide(value: u128) -> u8 {
    (value & 0xff) as u8
}

#[expect(clippy::as_conversions, reason = "the low 64 bits are what is meant")]
const fn low_word(value: u128) -> u64 {
    value as u64
}

/// Adds the row's values to `sums`, which is as long as the chunk.
pub(crate) fn decode(
    shape: Shape,
    bytes: &[u8],
    points: usize,
    visit: &mut impl FnMut(usize, u64),
) -> Result<()> {
    match shape {
        Shape::Sparse => each_sparse(bytes, points, visit),
        Shape::Dense => each_dense(bytes, points, visit),
    }
}

fn each_sparse(bytes: &[u8], points: usize, visit: &mut impl FnMut(usize, u64)) -> Result<()> {
    let mut reader = Reader::new(bytes);
    let mut at = 0_usize;
    while !reader.is_empty() {
        let head = reader.varint()?;
        let value = if head & 1 == 0 { 1 } else { reader.varint()?.saturating_add(2) };
        at = at.saturating_add(index(head >> 1));
        if at >= points {
            return Err(corrupt("a row has a point outside of its chunk"));
        }
        visit(at, value);
        at += 1;
    }
    Ok(())
}

fn each_dense(bytes: &[u8], points: usize, visit: &mut impl FnMut(usize, u64)) -> Result<()> {
    let mut reader = Reader::new(bytes);
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
            if value > 0 {
                visit(start + at, value);
            }
        });
        start += count;
    }
    Ok(())
}

fn each_packed(packed: &[u8], width: u32, count: usize, visit: &mut impl FnMut(usize, u64)) {
    let mask = (1_u128 << width) - 1;
    let mut held = 0_u128;
    let mut bits = 0;
    let mut next = packed.iter();
    for at in 0..count {
        while bits < width {
            held |= u128::from(next.next().copied().unwrap_or(0)) << bits;
            bits += 8;
        }
        visit(at, low_word(held & mask));
        held >>= width;
        bits -= width;
    }
}

/// The length of a row and its shape, in one number.
pub(crate) fn put_head(bytes: &mut Vec<u8>, shape: Shape, length: usize) {
    let dense = u64::from(shape == Shape::Dense);
    put_varint(bytes, (wide(length) << 1) | dense);
}

/// What [`put_head`] wrote.
pub(crate) fn read_head(reader: &mut Reader<'_>) -> Result<(Shape, usize)> {
    let head = reader.varint()?;
    let shape = if head & 1 == 1 { Shape::Dense } else { Shape::Sparse };
    Ok((shape, index(head >> 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(values: &[u64]) -> (Shape, usize) {
        let mut encoder = Encoder::default();
        let (shape, bytes) = encoder.encode(values);
        let mut back = vec![0; values.len()];
        decode(shape, bytes, values.len(), &mut |at, value| back[at] = value).unwrap();
        assert_eq!(back, values);
        (shape, bytes.len())
    }

    #[test]
    fn the_shape_follows_the_data() {
        let mut quiet = [0; 60];
        quiet[17] = 1;
        assert_eq!(round_trip(&quiet), (Shape::Sparse, 1));
        let busy: Vec<u64> = (0..60).map(|n| 1_000 + n % 7).collect();
        let (shape, length) = round_trip(&busy);
        assert_eq!(shape, Shape::Dense);
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
            for shape in [Shape::Sparse, Shape::Dense] {
                let mut most = 0;
                drop(decode(shape, &bytes, points, &mut |at, _| most = most.max(at + 1)));
                prop_assert!(most <= points);
            }
        }
    }
}
