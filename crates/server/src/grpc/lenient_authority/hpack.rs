//! As much of HPACK (RFC 7541) as it takes to find a header and to read its value.
//!
//! Deliberately not here: the dynamic table. A caller that refers to an entry
//! of it has sent that entry literally before.

/// The index of `:authority` in the static table.
const AUTHORITY: usize = 1;
const AUTHORITY_NAME: &[u8] = b":authority";
/// Lengths and indices are far below what this many bytes can tell.
const INTEGER_BYTES_MAX: usize = 4;

/// The symbols of the Huffman code by the length of their codes in bits; codes
/// are given out in this order. Those that are longer stand in no name of a host.
const SYMBOLS: [(u32, &[u8]); 10] = [
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
];
/// A code that is longer than this is not one of [`SYMBOLS`].
const CODE_BITS_MAX: u32 = 15;

/// A header value that a block has literally, and not by an index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeaderLiteral {
    /// Where its length begins.
    pub(super) begin: usize,
    /// Where what follows it begins.
    pub(super) end: usize,
    pub(super) value: Vec<u8>,
}

/// The value of `:authority`, if `block` spells it out.
pub(super) fn authority(block: &[u8]) -> Option<HeaderLiteral> {
    let mut reader = BlockReader { block, at: 0 };
    loop {
        let first = *block.get(reader.at)?;
        let index = match first {
            // A whole header of a table, or a new size of the dynamic one.
            0x80.. => {
                reader.integer(7)?;
                continue;
            }
            0x20..0x40 => {
                reader.integer(5)?;
                continue;
            }
            0x40..0x80 => reader.integer(6)?,
            0..0x20 => reader.integer(4)?,
        };
        let is_authority = match index {
            0 => reader.text()?.value()?.as_slice() == AUTHORITY_NAME,
            index => index == AUTHORITY,
        };
        let begin = reader.at;
        let text = reader.text()?;
        if is_authority {
            return Some(HeaderLiteral { begin, end: reader.at, value: text.value()? });
        }
    }
}

/// A text as it stands in a block of headers, without Huffman's code.
pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    const FULL: usize = 0x7f;
    let short = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
    if text.len() < FULL {
        out.push(short(text.len()));
    } else {
        out.push(short(FULL));
        let mut rest = text.len() - FULL;
        while rest >= 0x80 {
            out.push(short(rest % 0x80 + 0x80));
            rest /= 0x80;
        }
        out.push(short(rest));
    }
    out.extend_from_slice(text);
}

struct BlockReader<'a> {
    block: &'a [u8],
    at: usize,
}

/// A text, perhaps in Huffman's code.
struct Text<'a> {
    is_coded: bool,
    bytes: &'a [u8],
}

impl<'a> BlockReader<'a> {
    /// An integer whose first byte has so many bits for it.
    fn integer(&mut self, prefix_bits: u32) -> Option<usize> {
        let full = (1_usize << prefix_bits) - 1;
        let mut number = usize::from(self.byte()?) & full;
        if number < full {
            return Some(number);
        }
        for place in 0..INTEGER_BYTES_MAX {
            let byte = usize::from(self.byte()?);
            number += (byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn text(&mut self) -> Option<Text<'a>> {
        let is_coded = *self.block.get(self.at)? >= 0x80;
        let length = self.integer(7)?;
        let bytes = self.block.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(Text { is_coded, bytes })
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.block.get(self.at)?;
        self.at += 1;
        Some(byte)
    }
}

impl Text<'_> {
    /// What it says; none if that cannot be told here.
    fn value(&self) -> Option<Vec<u8>> {
        if self.is_coded { decoded(self.bytes) } else { Some(self.bytes.to_vec()) }
    }
}

/// What Huffman's code says. The code is canonical: counted through in the
/// order of the lengths, each code is the one before it plus one.
fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(bytes.len() * 2);
    let (mut code, mut length) = (0_usize, 0);
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |place| usize::from((byte >> place) & 1))) {
        (code, length) = ((code << 1) | bit, length + 1);
        if let Some(symbol) = symbol(code, length) {
            value.push(symbol);
            (code, length) = (0, 0);
        } else if length > CODE_BITS_MAX {
            return None;
        }
    }
    // What is left fills the last byte, and is all ones.
    (length < 8 && code == (1 << length) - 1).then_some(value)
}

fn symbol(code: usize, length: u32) -> Option<u8> {
    let (mut first, mut first_length) = (0_usize, 0);
    for (of_length, symbols) in SYMBOLS {
        first <<= of_length - first_length;
        first_length = of_length;
        if of_length == length {
            return symbols.get(code.checked_sub(first)?).copied();
        }
        first += symbols.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requests of RFC 7541, C.3.1 and C.4.1: plain and in Huffman's code.
    const PLAIN: &[u8] = b"\x82\x86\x84\x41\x0fwww.example.com";
    const CODED: &[u8] = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";

    #[test]
    fn an_authority_is_found_plain_and_coded() {
        for block in [PLAIN, CODED] {
            let found = authority(block).unwrap();
            assert_eq!(found.value, b"www.example.com");
            assert_eq!((found.begin, found.end), (4, block.len()));
        }
    }

    #[test]
    fn an_authority_by_its_own_name_and_without_indexing_is_found_too() {
        let named = b"\x82\x00\x0a:authority\x01x\x86";
        assert_eq!(authority(named), Some(HeaderLiteral { begin: 13, end: 15, value: b"x".to_vec() }));
        for never in [b"\x01\x01x", b"\x11\x01x"] {
            assert_eq!(authority(never).unwrap().value, b"x");
        }
    }

    #[test]
    fn a_block_without_one_or_cut_short_has_none() {
        // C.3.2: the authority is in the dynamic table by now.
        assert_eq!(authority(b"\x82\x86\x84\xbe\x58\x08no-cache"), None);
        assert_eq!(authority(b""), None);
        for end in 0..CODED.len() {
            assert_eq!(authority(&CODED[..end]), None, "{end}");
        }
        assert_eq!(authority(b"\x41\xff\xff\xff\xff\xff\xff"), None);
    }

    #[test]
    fn other_headers_before_it_are_passed_over() {
        let block = [b"\x3f\xe1\x1f\x44\x03/a/".as_slice(), PLAIN].concat();
        assert_eq!(authority(&block).unwrap().value, b"www.example.com");
    }

    #[test]
    fn what_is_put_is_what_is_found() {
        for length in [0, 1, 126, 127, 128, 254, 255, 300, 20_000] {
            let value = vec![b'x'; length];
            let mut block = vec![0x41];
            put_text(&mut block, &value);
            let found = authority(&block).unwrap();
            assert_eq!((found.value.len(), found.end), (length, block.len()));
        }
    }

    #[test]
    fn every_symbol_has_a_code_of_its_own() {
        let mut seen = std::collections::HashSet::new();
        for (length, symbols) in SYMBOLS {
            let codes = (0..1_usize << length).filter_map(|code| symbol(code, length));
            let found: Vec<u8> = codes.collect();
            assert_eq!(found, symbols, "{length} bits");
            assert!(found.iter().all(|symbol| seen.insert(*symbol)));
        }
        assert_eq!(decoded(b"\xff\xff\xff\xff"), None, "longer than any of them");
    }
}
