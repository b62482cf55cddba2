//! One flush in a log that several processes share.
//!
//! ```text
//! version  labels  per label: length, label   hours  per hour: hour, length, record   crc32
//! u8       varint             varint  bytes   varint           varint  varint  bytes  u32 LE
//! ```
//!
//! The writer knows the numbers of some labels and cannot give numbers to the
//! others: those are listed in full, and their rows have unnumbered series ids.
//! Instance and sequence number are the key of the entry and not part of it.

use super::record::{self, MinuteRows};
use crate::bytes::{put_bytes, put_checksum, put_varint, versioned, wide};
use crate::error::{Result, corrupt};
use crate::label::Label;
use crate::row_id::RowId;

/// The format that is written.
pub(crate) const VERSION: u8 = 2;

/// Writes a flush: its labels without numbers, and its minutes by hour.
pub(crate) fn encode<'a>(
    labels: &[&Label],
    hours: impl ExactSizeIterator<Item = (u32, &'a [MinuteRows])>,
) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    put_varint(&mut bytes, wide(labels.len()));
    for label in labels {
        put_bytes(&mut bytes, &label.encode());
    }
    put_varint(&mut bytes, wide(hours.len()));
    for (hour, minutes) in hours {
        put_varint(&mut bytes, u64::from(hour));
        put_bytes(&mut bytes, &record::encode(minutes));
    }
    put_checksum(&mut bytes);
    bytes
}

/// One count of an entry: the minute since the epoch, and the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryCount {
    pub(crate) minute: u32,
    pub(crate) id: RowId,
    pub(crate) count: u64,
}

/// A flush as it was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LogEntry {
    /// The labels without numbers.
    pub(crate) labels: Vec<Label>,
    pub(crate) counts: Vec<EntryCount>,
}

/// Reads an entry whole: one that is damaged anywhere is not counted at all.
pub(crate) fn decode(bytes: &[u8]) -> Result<LogEntry> {
    let mut reader = versioned(bytes, VERSION, "a log entry of no known version")?;
    let mut entry = LogEntry::default();
    for _ in 0..reader.varint()? {
        let label = Label::decode(reader.bytes()?)?;
        if label.kind().is_none() {
            return Err(corrupt("a log entry names a total as if it were a series"));
        }
        entry.labels.push(label);
    }
    for _ in 0..reader.varint()? {
        let first = reader.varint_u32()?.checked_mul(60).ok_or(corrupt("an hour is too large"))?;
        record::decode(reader.bytes()?, &mut |of_hour, id, count| {
            entry.counts.push(EntryCount { minute: first.saturating_add(u32::from(of_hour)), id, count });
        })?;
    }
    let is_known = |count: &EntryCount| match count.id.series().unnumbered_place() {
        Some(place) => wide(entry.labels.len()) > u64::from(place),
        None => true,
    };
    if !entry.counts.iter().all(is_known) {
        return Err(corrupt("a log entry counts a label that it does not list"));
    }
    if reader.is_empty() { Ok(entry) } else { Err(corrupt("a log entry has bytes at its end")) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::row_id::SeriesId;
    use tollgate_core::Outcome;

    pub(crate) fn sample() -> Vec<u8> {
        let labels = [&Label::Route("/new".into()), &Label::Rule { domain: "d".into(), name: "r".into() }];
        let rows = vec![
            (RowId::UP, 1),
            (SeriesId(9).row(Outcome::Denied), 300),
            (SeriesId::unnumbered(1).row(Outcome::Allowed), 7),
        ];
        let hours = [
            (459_999, vec![MinuteRows { of_hour: 59, rows: rows.clone() }]),
            (460_000, vec![MinuteRows { of_hour: 0, rows }]),
        ];
        encode(&labels, hours.iter().map(|(hour, minutes)| (*hour, minutes.as_slice())))
    }

    #[test]
    fn an_entry_comes_back() {
        let entry = decode(&sample()).unwrap();
        assert_eq!(
            entry.labels,
            [Label::Route("/new".into()), Label::Rule { domain: "d".into(), name: "r".into() }]
        );
        let id = SeriesId::unnumbered(1).row(Outcome::Allowed);
        assert_eq!(entry.counts.len(), 6);
        assert_eq!(entry.counts[2], EntryCount { minute: 459_999 * 60 + 59, id, count: 7 });
        assert_eq!((id.series().unnumbered_place(), SeriesId(9).unnumbered_place()), (Some(1), None));
        assert_eq!(decode(&encode(&[], [].into_iter())).unwrap(), LogEntry::default());
    }

    #[test]
    fn a_label_that_is_not_listed_is_damage() {
        let minute =
            [MinuteRows { of_hour: 0, rows: vec![(SeriesId::unnumbered(0).row(Outcome::Allowed), 1)] }];
        assert!(decode(&encode(&[], [(1, minute.as_slice())].into_iter())).is_err());
    }
}
