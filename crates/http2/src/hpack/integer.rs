//! Numbers of HPACK (RFC 7541, 5.1): some bits of a byte, and more bytes if that is not enough.

use super::HpackError;

/// Seven bits each; no number here needs more than 32 bits.
const MORE_BYTES_MAX: u32 = 4;

/// Takes a number off `block`, whose first byte has `prefix_bits` for it.
#[inline]
pub(super) fn take(block: &mut &[u8], prefix_bits: u32) -> Result<usize, HpackError> {
    let (first, rest) = block.split_first().ok_or(HpackError)?;
    *block = rest;
    let full = (1_usize << prefix_bits) - 1;
    let number = usize::from(*first) & full;
    if number < full { Ok(number) } else { take_more(block, full) }
}

fn take_more(block: &mut &[u8], mut number: usize) -> Result<usize, HpackError> {
    for place in 0..MORE_BYTES_MAX {
        let (byte, rest) = block.split_first().ok_or(HpackError)?;
        *block = rest;
        number += usize::from(byte & 0x7f) << (7 * place);
        if *byte < 0x80 {
            return Ok(number);
        }
    }
    Err(HpackError)
}

/// Writes a number into the low `prefix_bits` of a byte that begins with `first`.
pub(super) fn put(out: &mut Vec<u8>, first: u8, prefix_bits: u32, number: usize) {
    let full = (1_usize << prefix_bits) - 1;
    let low = |number: usize| u8::try_from(number & 0xff).unwrap_or(u8::MAX);
    if number < full {
        return out.push(first | low(number));
    }
    out.push(first | low(full));
    let mut rest = number - full;
    while rest >= 0x80 {
        out.push(low(rest % 0x80) | 0x80);
        rest /= 0x80;
    }
    out.push(low(rest));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, C.1.
    #[test]
    fn the_examples_of_the_rfc_are_read_and_written() {
        let rows: [(u32, usize, &[u8]); 3] = [(5, 10, &[10]), (5, 1_337, &[31, 154, 10]), (8, 42, &[42])];
        for (bits, number, bytes) in rows {
            let (mut out, mut block) = (Vec::new(), bytes);
            put(&mut out, 0, bits, number);
            assert_eq!(out, bytes);
            assert_eq!((take(&mut block, bits), block.len()), (Ok(number), 0));
        }
    }

    #[test]
    fn numbers_that_end_early_or_never_are_refused() {
        for bytes in [&[][..], &[0x1f], &[0x1f, 0x80], &[0x1f, 0x80, 0x80, 0x80, 0x80, 0]] {
            assert_eq!(take(&mut &bytes[..], 5), Err(HpackError), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_put_is_what_is_taken() {
        for bits in [4, 5, 6, 7] {
            for number in (0..300).chain([16_383, 16_384, 65_535, 1 << 20]) {
                let mut out = Vec::new();
                put(&mut out, 0, bits, number);
                assert_eq!(take(&mut out.as_slice(), bits), Ok(number));
            }
        }
    }
}
