//! Variable-length numbers, texts, versions and checksums.
//!
//! Labels, row ids and everything in `codec` are made of these. A varint is LEB128: seven bits a
//! byte, the lowest first, and the high bit says that more follow.

use crate::error::{Error, Result, corrupt};

/// The longest varint: 64 bits by seven.
const VARINT_BYTES_MAX: u32 = 10;

/// Appends a varint.
pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    bytes.push(low_byte(value));
}

/// How many bytes a varint takes.
pub(crate) fn varint_length(value: u64) -> usize {
    index(u64::from((u64::BITS - (value | 1).leading_zeros()).div_ceil(7)))
}

#[expect(clippy::as_conversions, reason = "the low byte is what is meant")]
pub(crate) const fn low_byte(value: u64) -> u8 {
    (value & 0xff) as u8
}

/// Appends a length and that many bytes.
pub(crate) fn put_bytes(bytes: &mut Vec<u8>, piece: &[u8]) {
    put_varint(bytes, wide(piece.len()));
    bytes.extend_from_slice(piece);
}

/// A length as `u64`.
#[expect(clippy::as_conversions, reason = "usize has at most 64 bits")]
pub(crate) const fn wide(length: usize) -> u64 {
    length as u64
}

/// A number as an index; one that does not fit is past every end.
pub(crate) fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Appends the checksum of everything so far.
pub(crate) fn put_checksum(bytes: &mut Vec<u8>) {
    let sum = crc32fast::hash(bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
}

/// The bytes before the checksum, if it is theirs.
pub(crate) fn checked(bytes: &[u8]) -> Result<&[u8]> {
    let Some((body, sum)) = bytes.split_last_chunk::<4>() else {
        return Err(corrupt("too short for a checksum"));
    };
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return Err(corrupt("a checksum does not match"));
    }
    Ok(body)
}

/// Appends the checksum of a row's key and value.
pub(crate) fn put_row_checksum(key: &[u8], value: &mut Vec<u8>) {
    value.extend_from_slice(&row_checksum(key, value).to_le_bytes());
}

/// A row's value before its checksum, if that is right.
pub(crate) fn checked_row<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8]> {
    match value.split_last_chunk::<4>() {
        Some((body, sum)) if row_checksum(key, body) == u32::from_le_bytes(*sum) => Ok(body),
        _ => Err(corrupt("the checksum of a row does not match")),
    }
}

fn row_checksum(key: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

/// No version will ever be as large; printable text that somebody else wrote is.
const VERSION_END: u8 = 0x20;

/// Checks the version byte. Another version is not damage.
pub(crate) fn check_version(bytes: &[u8], known: u8, unknown: &'static str) -> Result<()> {
    match bytes.first() {
        Some(&found) if found == known => Ok(()),
        Some(&found) if found > known && found < VERSION_END => Err(Error::TooNew { found, known }),
        Some(&found) if found > 0 && found < known => Err(Error::TooOld { found, known }),
        Some(_) | None => Err(corrupt(unknown)),
    }
}

/// What is between version and checksum, if both are right.
pub(crate) fn versioned<'a>(bytes: &'a [u8], known: u8, unknown: &'static str) -> Result<ByteReader<'a>> {
    check_version(bytes, known, unknown)?;
    let mut reader = ByteReader::new(checked(bytes)?);
    reader.byte()?;
    Ok(reader)
}

/// Reads bytes from the front; every call checks that there are enough.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByteReader<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.bytes.split_first().ok_or(corrupt("bytes end too early"))?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for place in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if place == VARINT_BYTES_MAX - 1 && bits > 1 {
                return Err(corrupt("a number is too large"));
            }
            value |= bits << (7 * place);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(corrupt("a number is too long"))
    }

    pub(crate) fn varint_u32(&mut self) -> Result<u32> {
        u32::try_from(self.varint()?).map_err(|_| corrupt("a number is too large"))
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(corrupt("bytes end too early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// A length and that many bytes.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = index(self.varint()?);
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| corrupt("a text is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(bytes.len(), varint_length(value));
            let mut reader = ByteReader::new(&bytes);
            assert_eq!(reader.varint().unwrap(), value);
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn numbers_that_nobody_wrote_are_refused() {
        let too_long = [0x80; 11];
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(ByteReader::new(&too_long).varint().is_err());
        assert!(ByteReader::new(&too_large).varint().is_err());
        assert!(ByteReader::new(&[0x80]).varint().is_err());
    }
}
