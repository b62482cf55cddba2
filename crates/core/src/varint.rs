//! Whole numbers of as many bytes as they need, as the logs keep and write them.
//!
//! Seven bits a byte, low bits first, the high bit on all but the last. Lua's twin is in `window_log.lua`.

/// Seven bits a byte, low bits first, the high bit on all but the last.
pub(crate) fn write_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(u8::try_from(n & 0x7f).unwrap_or(0) | 0x80);
        n >>= 7;
    }
    out.push(u8::try_from(n).unwrap_or(0));
}

pub(crate) fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

/// How long a number is as [`write_number`] writes it.
pub(crate) fn number_bytes(n: u64) -> usize {
    usize::try_from(n.checked_ilog2().map_or(1, |bits| bits / 7 + 1)).unwrap_or_default()
}
