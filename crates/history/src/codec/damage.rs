//! Wrong bytes for tests: what a decoder must refuse, and what must do no harm.

use super::bytes::put_checksum;
use crate::error::Result;

/// Every piece from the beginning, and every change of one bit, must be an error.
pub(crate) fn is_always_found<T>(bytes: &[u8], read: impl Fn(&[u8]) -> Result<T>) {
    assert!(read(bytes).is_ok());
    for length in 0..bytes.len() {
        assert!(read(&bytes[..length]).is_err(), "cut to {length}");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1 << bit;
            assert!(read(&changed).is_err(), "bit {bit} of byte {at}");
        }
    }
}

/// Every change of one byte behind the version, with a checksum that agrees: `read` looks whether
/// what it gets is within bounds.
pub(crate) fn is_harmless_with_a_forged_checksum(bytes: &[u8], read: impl Fn(&[u8])) {
    let body = &bytes[..bytes.len() - 4];
    for at in 1..body.len() {
        for value in [0x00, 0x01, 0x3c, 0x7f, 0x80, 0xff] {
            let mut changed = body.to_vec();
            changed[at] = value;
            put_checksum(&mut changed);
            read(&changed);
        }
    }
}
