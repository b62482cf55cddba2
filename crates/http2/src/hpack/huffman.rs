//! The Huffman code of HPACK (RFC 7541, 5.2 and Appendix B), read only.
//!
//! The code is canonical: counted through in the order of the lengths, each code is the one before it
//! plus one. So the symbols by length are all there is to know; the tables are made of them when this is
//! compiled. Texts of headers are nearly all in codes of up to 8 bits, which take one look.

use super::HpackError;

/// Symbols by the length of their codes in bits, in the order of their codes. The last code of all,
/// thirty ones, ends a text and may never be sent.
const SYMBOLS: [(u32, &[u8]); 21] = [
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\0$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
    (19, &[92, 195, 208]),
    (20, &[128, 130, 131, 162, 184, 194, 224, 226]),
    (21, &[153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230]),
    (
        22,
        &[
            129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185, 186, 187,
            189, 190, 196, 198, 228, 232, 233,
        ],
    ),
    (
        23,
        &[
            1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158, 165, 166, 168, 174,
            175, 180, 182, 183, 188, 191, 197, 231, 239,
        ],
    ),
    (24, &[9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237]),
    (25, &[199, 207, 234, 235]),
    (26, &[192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255]),
    (27, &[203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254]),
    (
        28,
        &[
            2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31,
            127, 220, 249,
        ],
    ),
    (30, &[10, 13, 22]),
];

/// Codes of at most this many bits are looked up by the next byte.
const SHORT_BITS: u32 = 8;

/// What the next byte begins with, if that is a short code.
#[derive(Clone, Copy)]
struct ShortCode {
    symbol: u8,
    /// 0 if the code is longer.
    bits: u8,
}

const SHORT: [ShortCode; 256] = short_codes();

/// For each length, the first code that is longer than it, as the first of 32 bits.
const BEYOND: [u64; SYMBOLS.len()] = beyond();

#[expect(
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "it runs when this is compiled, and what is out of bounds does not compile"
)]
const fn short_codes() -> [ShortCode; 256] {
    let mut table = [ShortCode { symbol: 0, bits: 0 }; 256];
    let (mut place, mut length) = (0, 0);
    while SYMBOLS[length].0 <= SHORT_BITS {
        let (bits, symbols) = SYMBOLS[length];
        let mut symbol = 0;
        while symbol < symbols.len() {
            let end = place + (1 << (SHORT_BITS - bits));
            while place < end {
                table[place] = ShortCode { symbol: symbols[symbol], bits: bits as u8 };
                place += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    table
}

#[expect(
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "it runs when this is compiled, and what is out of bounds does not compile"
)]
const fn beyond() -> [u64; SYMBOLS.len()] {
    let mut table = [0; SYMBOLS.len()];
    let (mut next, mut length) = (0, 0);
    while length < SYMBOLS.len() {
        let (bits, symbols) = SYMBOLS[length];
        next += (symbols.len() as u64) << (32 - bits);
        table[length] = next;
        length += 1;
    }
    table
}

/// Appends what `coded` says.
pub(super) fn decode(coded: &[u8], text: &mut Vec<u8>) -> Result<(), HpackError> {
    // The next bits are the first of `bits`, of which `count` have been read.
    let (mut bits, mut count, mut rest) = (0_u64, 0_u32, coded.iter());
    loop {
        while count <= 56
            && let Some(byte) = rest.next()
        {
            bits |= u64::from(*byte) << (56 - count);
            count += 8;
        }
        let [next, ..] = bits.to_be_bytes();
        let short = SHORT.get(usize::from(next)).copied().unwrap_or(ShortCode { symbol: 0, bits: 0 });
        let (symbol, length) = match u32::from(short.bits) {
            0 => long_code(bits >> 32),
            length => (Some(short.symbol), length),
        };
        if length > count {
            return end(bits, count);
        }
        text.push(symbol.ok_or(HpackError)?);
        bits <<= length;
        count -= length;
    }
}

/// The symbol of a code of more than 8 bits that `next` begins with, and the length of that code.
#[cold]
fn long_code(next: u64) -> (Option<u8>, u32) {
    let mut first = 0;
    for ((bits, symbols), beyond) in SYMBOLS.iter().zip(BEYOND) {
        if next < beyond {
            let place = usize::try_from((next - first) >> (32 - bits)).unwrap_or(usize::MAX);
            return (symbols.get(place).copied(), *bits);
        }
        first = beyond;
    }
    (None, 30)
}

/// What is left fills the last byte, and is all ones.
const fn end(bits: u64, count: u32) -> Result<(), HpackError> {
    match count {
        0 => Ok(()),
        1..8 if bits >> (64 - count) == (1 << count) - 1 => Ok(()),
        _ => Err(HpackError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut text = Vec::new();
        decode(coded, &mut text).map(|()| text)
    }

    #[test]
    fn the_code_is_complete_and_has_every_byte_once() {
        let room: u64 =
            SYMBOLS.iter().map(|(bits, symbols)| u64::try_from(symbols.len()).unwrap() << (30 - bits)).sum();
        assert_eq!(room, (1 << 30) - 1, "all codes but that of the end");
        let mut all: Vec<u8> = SYMBOLS.iter().flat_map(|(_, symbols)| symbols.to_vec()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..=255).collect::<Vec<u8>>());
    }

    /// RFC 7541, C.4 and C.6.
    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let rows: [(&[u8], &str); 5] = [
            (&[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff], "www.example.com"),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x64, 0x02], "302"),
            (
                &[
                    0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b, 0x81,
                    0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
                ],
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
            (b"", ""),
        ];
        for (coded, text) in rows {
            assert_eq!(decoded(coded).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn padding_that_is_none_and_the_end_within_a_text_are_refused() {
        // '0' is 00000: then three ones, or three zeroes, or a whole byte of ones too much.
        assert_eq!(decoded(&[0b0000_0111]).unwrap(), b"0");
        for coded in [&[0][..], &[0b0000_0111, 0xff], &[0xff; 4], &[0xff; 3], &[0xff, 0xff, 0xff, 0xff, 0xff]]
        {
            assert_eq!(decoded(coded), Err(HpackError), "{coded:?}");
        }
    }
}
