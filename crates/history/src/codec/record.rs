//! What one flush adds to the log of one hour, in a history that one process writes.
//!
//! ```text
//! version  minutes  per minute: minute of the hour, rows, (id delta, count)×rows   crc32
//! u8       varint               varint              varint  varint    varint        u32 LE
//! ```
//!
//! Hour, instance and sequence number are the key of the record and not part of it.

use crate::bytes::{put_checksum, put_varint, versioned, wide};
use crate::error::{Result, corrupt};
use crate::row_id::RowId;

/// The format that is written.
pub(crate) const VERSION: u8 = 1;

/// The rows of one minute, sorted by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MinuteRows {
    /// From 0 to 59.
    pub(crate) of_hour: u8,
    pub(crate) rows: Vec<(RowId, u64)>,
}

/// Writes the minutes of one hour.
pub(crate) fn encode(minutes: &[MinuteRows]) -> Vec<u8> {
    let rows: usize = minutes.iter().map(|minute| minute.rows.len()).sum();
    let mut bytes = Vec::with_capacity(16 + 3 * rows);
    bytes.push(VERSION);
    put_varint(&mut bytes, wide(minutes.len()));
    for minute in minutes {
        bytes.push(minute.of_hour);
        put_varint(&mut bytes, wide(minute.rows.len()));
        let mut last = 0;
        for (id, count) in &minute.rows {
            id.put(&mut bytes, &mut last);
            put_varint(&mut bytes, *count);
        }
    }
    put_checksum(&mut bytes);
    bytes
}

/// Visits the minute of the hour, the row and the count of every increment.
pub(crate) fn decode(bytes: &[u8], visit: &mut impl FnMut(u8, RowId, u64)) -> Result<()> {
    let mut reader = versioned(bytes, VERSION, "a record of no known version")?;
    for _ in 0..reader.varint()? {
        let of_hour = reader.byte()?;
        if of_hour >= 60 {
            return Err(corrupt("a record has a minute outside of its hour"));
        }
        let mut last = 0_u32;
        for _ in 0..reader.varint()? {
            visit(of_hour, RowId::read(&mut reader, &mut last)?, reader.varint()?);
        }
    }
    if reader.is_empty() { Ok(()) } else { Err(corrupt("a record has bytes at its end")) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn read_all(bytes: &[u8]) -> Result<Vec<MinuteRows>> {
        let mut minutes: Vec<MinuteRows> = Vec::new();
        decode(bytes, &mut |of_hour, id, count| {
            assert!(of_hour < 60);
            if minutes.last().is_none_or(|minute| minute.of_hour != of_hour) {
                minutes.push(MinuteRows { of_hour, rows: Vec::new() });
            }
            minutes.last_mut().unwrap().rows.push((id, count));
        })?;
        Ok(minutes)
    }

    pub(crate) fn sample() -> Vec<MinuteRows> {
        vec![
            MinuteRows { of_hour: 58, rows: vec![(RowId(0), 12), (RowId(7), 1), (RowId(4_000), 300)] },
            MinuteRows { of_hour: 59, rows: vec![(RowId(0), u64::MAX), (RowId(u32::MAX), 1)] },
        ]
    }

    #[test]
    fn a_record_comes_back() {
        assert_eq!(read_all(&encode(&sample())).unwrap(), sample());
        assert_eq!(read_all(&encode(&[])).unwrap(), []);
    }
}
