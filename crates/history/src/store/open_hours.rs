//! The hours that are not in blocks yet, in memory.
//!
//! Loaded from the log when the history is opened, added to by every flush, and
//! removed hour by hour as they are compacted. Queries read it beside the blocks.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::keys::hour_of_log_key;
use crate::codec::record::{self, MinuteRows};
use crate::error::Result;
use crate::row_id::RowId;
use crate::tables::{TableId, Tables};

/// One curve of one hour, from its first non-zero minute to its last.
#[derive(Debug, Clone, Default)]
pub(crate) struct HourRow {
    first: u8,
    counts: Vec<u64>,
}

impl HourRow {
    fn add(&mut self, of_hour: u8, count: u64) {
        if self.counts.is_empty() {
            self.first = of_hour;
        }
        if of_hour < self.first {
            let missing = usize::from(self.first - of_hour);
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = of_hour;
        }
        let at = usize::from(of_hour - self.first);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        if let Some(kept) = self.counts.get_mut(at) {
            *kept = kept.saturating_add(count);
        }
    }

    /// The first minute of the hour that has a count.
    pub(super) const fn first(&self) -> u8 {
        self.first
    }

    /// The minutes of the hour and their counts; zeros too.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        (self.first..).zip(self.counts.iter().copied())
    }
}

/// The curves of one hour, in the order of their rows.
///
/// A flush has its rows in that order too, and mostly the same ones as the last
/// flush, so adding it is a merge of two sorted lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenHour {
    rows: Vec<(RowId, HourRow)>,
}

impl OpenHour {
    /// Adds the counts of a minute, which are in the order of their rows.
    fn add(&mut self, of_hour: u8, counts: &[(RowId, u64)]) {
        let mut new: Vec<(RowId, HourRow)> = Vec::new();
        let mut rest = self.rows.as_mut_slice();
        for (id, count) in counts {
            rest = rest.split_at_mut(steps_to(rest, *id)).1;
            match rest.first_mut().filter(|(kept, _)| kept == id) {
                Some((_, row)) => row.add(of_hour, *count),
                None => {
                    if new.last().is_none_or(|(last, _)| last != id) {
                        new.push((*id, HourRow::default()));
                    }
                    if let Some((_, row)) = new.last_mut() {
                        row.add(of_hour, *count);
                    }
                }
            }
        }
        if !new.is_empty() {
            self.rows.extend(new);
            // Two sorted runs: the sort merges them.
            self.rows.sort_by_key(|(id, _)| *id);
        }
    }

    pub(crate) fn get(&self, id: RowId) -> Option<&HourRow> {
        let at = self.rows.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.rows.get(at).map(|(_, row)| row)
    }

    /// The rows of one block after the other.
    pub(super) fn by_block(&self) -> impl Iterator<Item = &[(RowId, HourRow)]> {
        self.rows.chunk_by(|(one, _), (other, _)| one.block() == other.block())
    }

    /// All rows, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RowId, &HourRow)> {
        self.rows.iter().map(|(id, row)| (*id, row))
    }
}

/// How many rows come before that one. Mostly none or one, so this is a galloping search.
fn steps_to(rows: &[(RowId, HourRow)], id: RowId) -> usize {
    let mut end = 1;
    while rows.get(end - 1).is_some_and(|(kept, _)| *kept < id) {
        end *= 2;
    }
    let start = end / 2;
    let within = rows.get(start..end.min(rows.len())).unwrap_or(&[]);
    start + within.partition_point(|(kept, _)| *kept < id)
}

/// The hours that are not in blocks yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenHours {
    hours: BTreeMap<u32, OpenHour>,
}

impl OpenHours {
    pub(super) fn load(tables: &impl Tables) -> Result<Self> {
        let mut hours = Self::default();
        tables.scan_all(TableId::Log, &mut |key, value| {
            hours.read(key, value)?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(hours)
    }

    fn read(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let hour = hour_of_log_key(key)?;
        let mut counts: BTreeMap<u8, Vec<(RowId, u64)>> = BTreeMap::new();
        record::decode(value, &mut |of_hour, id, count| {
            counts.entry(of_hour).or_default().push((id, count));
        })?;
        for (of_hour, rows) in counts {
            self.add_minute(hour, MinuteRows { of_hour, rows });
        }
        Ok(())
    }

    /// Adds the counts of a minute.
    pub(crate) fn add_minute(&mut self, hour: u32, mut minute: MinuteRows) {
        // Mostly they are in order already.
        minute.rows.sort_by_key(|(id, _)| *id);
        self.hours.entry(hour).or_default().add(minute.of_hour, &minute.rows);
    }

    /// The first hours before `end`, at most so many.
    pub(super) fn first(&self, most: usize, end: u32) -> impl Iterator<Item = (u32, &OpenHour)> {
        self.hours.range(..end).take(most).map(|(hour, rows)| (*hour, rows))
    }

    pub(super) fn remove(&mut self, hour: u32) {
        self.hours.remove(&hour);
    }

    /// The hours that overlap a range of seconds, with their first second.
    pub(crate) fn within(&self, from_s: u64, to_s: u64) -> impl Iterator<Item = (u64, &OpenHour)> {
        let hour = |second: u64| u32::try_from(second / 3_600).unwrap_or(u32::MAX);
        let range = hour(from_s)..=hour(to_s.saturating_sub(1)).max(hour(from_s));
        self.hours.range(range).map(|(hour, rows)| (u64::from(*hour) * 3_600, rows))
    }

    pub(crate) fn len(&self) -> usize {
        self.hours.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_may_come_in_any_order_and_again() {
        let mut hours = OpenHours::default();
        for rows in [&[8, 3, 3, 900][..], &[1, 3, 4, 8, 901, 1_000], &[900], &[2_000, 0]] {
            let rows = rows.iter().map(|id| (RowId(*id), u64::from(*id) + 1)).collect();
            hours.add_minute(5, MinuteRows { of_hour: 7, rows });
        }
        let hour = &hours.hours[&5];
        let told: Vec<(u32, u64)> =
            hour.iter().map(|(id, row)| (id.0, row.each().map(|(_, n)| n).sum())).collect();
        let expected = [
            (0, 1),
            (1, 2),
            (3, 12),
            (4, 5),
            (8, 18),
            (900, 1_802),
            (901, 902),
            (1_000, 1_001),
            (2_000, 2_001),
        ];
        assert_eq!(told, expected);
        for (id, count) in expected {
            assert_eq!(hour.get(RowId(id)).unwrap().each().collect::<Vec<_>>(), [(7, count)]);
        }
        assert!(hour.get(RowId(5)).is_none());
    }

    #[test]
    fn minutes_may_come_in_any_order() {
        let mut row = HourRow::default();
        for (minute, count) in [(30, 1), (59, 2), (0, 4), (30, 8)] {
            row.add(minute, count);
        }
        let counted: Vec<(u8, u64)> = row.each().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(0, 4), (30, 9), (59, 2)]);
    }
}
