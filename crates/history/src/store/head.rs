//! The hours that are not folded yet, in memory.
//!
//! Made from the log when the history is opened, added to by every flush, and
//! given up hour by hour as they are folded. Queries read it beside the blocks.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::keys::{hour_of_log_key, table_range};
use crate::Map;
use crate::codec::record::{self, Minute};
use crate::engine::{Engine, Table};
use crate::error::Result;
use crate::label::RowId;

/// One curve of one hour: from the first minute that counted to the last.
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

    /// The minutes of the hour and their counts; zeros too.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        (self.first..).zip(self.counts.iter().copied())
    }
}

/// The curves of one hour.
pub(crate) type Hour = Map<RowId, HourRow>;

/// The hours that are not folded yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    hours: BTreeMap<u32, Hour>,
}

impl Head {
    pub(super) fn load(engine: &impl Engine) -> Result<Self> {
        let mut head = Self::default();
        let mut failed = None;
        let (from, to) = table_range();
        engine.scan(Table::Log, &from..&to, &mut |key, value| match head.read(key, value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
        failed.map_or(Ok(head), Err)
    }

    fn read(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let hour = self.hours.entry(hour_of_log_key(key)?).or_default();
        record::decode(value, &mut |of_hour, id, count| hour.entry(id).or_default().add(of_hour, count))
    }

    /// Counts in a minute since the epoch.
    pub(super) fn add(&mut self, minute: u32, id: RowId, count: u64) {
        let of_hour = u8::try_from(minute % 60).unwrap_or(0);
        self.hours.entry(minute / 60).or_default().entry(id).or_default().add(of_hour, count);
    }

    pub(super) fn add_minute(&mut self, hour: u32, minute: &Minute) {
        let hour = self.hours.entry(hour).or_default();
        for (id, count) in &minute.rows {
            hour.entry(*id).or_default().add(minute.of_hour, *count);
        }
    }

    /// The first hours, as many as are wanted.
    pub(super) fn first(&self, most: usize, end: u32) -> impl Iterator<Item = (u32, &Hour)> {
        self.hours.range(..end).take(most).map(|(hour, rows)| (*hour, rows))
    }

    pub(super) fn remove(&mut self, hour: u32) {
        self.hours.remove(&hour);
    }

    /// The hours that overlap a range of seconds.
    pub(crate) fn within(&self, from_s: u64, to_s: u64) -> impl Iterator<Item = (u64, &Hour)> {
        let hour = |second: u64| u32::try_from(second / 3_600).unwrap_or(u32::MAX);
        let range = hour(from_s)..=hour(to_s.saturating_sub(1)).max(hour(from_s));
        self.hours.range(range).map(|(hour, rows)| (u64::from(*hour) * 3_600, rows))
    }

    pub(crate) fn hours(&self) -> usize {
        self.hours.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
