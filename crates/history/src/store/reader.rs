//! Reads the stored points of a time range, tier by tier.
//!
//! Below the queries, which are methods of [`HistoryReader`] in the other modules:
//! [`HistoryReader::points`] reads a few rows, [`HistoryReader::row_totals`] (in
//! `row_totals`) the sums of many. What is in blocks comes from the tables, the open hours from memory, and so
//! does what its owner has counted and not appended yet.
//!
//! Invariant: reading changes nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;

use super::{
    OpenHour, OpenHours, SeriesIndex, Watermarks, block_key, first_chunk, last_flush, push_rows,
    read_last_flush, rows_by_hour,
};
use crate::Map;
use crate::bytes::{index, wide};
use crate::codec::block::SeriesBlock;
use crate::error::Result;
use crate::flush::{Flush, InstanceId};
use crate::label::{Label, SeriesKind};
use crate::row_id::{RowId, SeriesId};
use crate::tables::{TableId, Tables};
use crate::tier::Tier;
use crate::time_text::TimeRange;

/// Answers queries about a history, as of one moment.
pub struct HistoryReader<'a> {
    pub(crate) tables: &'a dyn Tables,
    pub(crate) series: &'a SeriesIndex,
    pub(crate) open_hours: &'a OpenHours,
    pub(crate) watermarks: Watermarks,
    pub(crate) damaged: u64,
    unwritten: Unwritten,
}

/// What is counted and not in the tables, and its labels that have no number.
#[derive(Default)]
struct Unwritten {
    labels: Vec<Label>,
    ids: Map<Label, SeriesId>,
    hours: OpenHours,
}

/// One stored point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredPoint {
    /// Which of the rows that were asked for.
    pub(crate) place: usize,
    /// Its first second.
    pub(crate) second: u64,
    pub(crate) tier: Tier,
    pub(crate) count: u64,
}

impl fmt::Debug for HistoryReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryReader").field("watermarks", &self.watermarks).finish_non_exhaustive()
    }
}

impl<'a> HistoryReader<'a> {
    pub(crate) fn new(
        tables: &'a dyn Tables,
        series: &'a SeriesIndex,
        open_hours: &'a OpenHours,
        watermarks: Watermarks,
        damaged: u64,
    ) -> Self {
        Self { tables, series, open_hours, watermarks, damaged, unwritten: Unwritten::default() }
    }

    /// Counts a flush, too, that is not in the tables.
    pub fn add_unwritten(&mut self, flush: &Flush) {
        for label in flush.counts.minutes.values().flat_map(|counts| counts.keys()) {
            if label.kind().is_some() && self.series_id(label).is_none() {
                let place = u32::try_from(self.unwritten.labels.len()).unwrap_or(u32::MAX);
                self.unwritten.labels.push(label.clone());
                self.unwritten.ids.insert(label.clone(), SeriesId::unnumbered(place));
            }
        }
        let hours = rows_by_hour(flush, |_, counts, rows| {
            for (label, counts) in counts {
                if let Some(id) = self.series_id(label) {
                    push_rows(rows, id, counts);
                }
            }
        });
        for (hour, minutes) in hours {
            for minute in minutes {
                self.watermarks.see_minute(hour * 60 + u32::from(minute.of_hour));
                self.unwritten.hours.add_minute(hour, minute);
            }
        }
    }

    /// The number of a label.
    pub(crate) fn series_id(&self, label: &Label) -> Option<SeriesId> {
        match label {
            Label::Requests => Some(SeriesId::REQUESTS),
            Label::Decisions => Some(SeriesId::DECISIONS),
            Label::Route(_) | Label::Rule { .. } | Label::Key { .. } => {
                self.series.get(label).or_else(|| self.unwritten.ids.get(label).copied())
            }
        }
    }

    /// The label of a number; none if it was forgotten.
    pub(crate) fn label(&self, id: SeriesId) -> Option<&Label> {
        match id.unnumbered_place() {
            Some(place) => self.unwritten.labels.get(index(u64::from(place))),
            None => self.series.label(id),
        }
    }

    /// All series of a kind.
    pub(crate) fn named(&self, kind: SeriesKind) -> impl Iterator<Item = (SeriesId, &Label)> {
        let unwritten = self.unwritten.ids.iter().map(|(label, id)| (*id, label));
        self.series.named().chain(unwritten).filter(move |(_, label)| label.kind() == Some(kind))
    }

    /// Named series, and hours that are not in blocks.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let all = TimeRange { from_s: 0, to_s: u64::MAX };
        let hours: BTreeSet<u64> = self.hours_within(all).map(|(start_s, _)| start_s).collect();
        (self.series.len() + self.unwritten.labels.len(), hours.len())
    }

    /// Seconds from one stored point to the next, where they are coarsest in a range.
    pub(crate) fn coarsest_step_s(&self, range: TimeRange) -> Result<u64> {
        let mut step_s = Tier::Minutes.step_s();
        self.points(&[RowId::UP], range, &mut |point| {
            step_s = step_s.max(point.tier.step_s());
            Ok(())
        })?;
        Ok(step_s)
    }

    /// A range that begins with the epoch begins with the first count.
    pub(crate) fn since_first_count(&self, range: TimeRange) -> Result<TimeRange> {
        if range.from_s > 0 {
            return Ok(range);
        }
        let mut first_s = None;
        self.points(&[RowId::UP], range, &mut |point| {
            first_s = Some(first_s.map_or(point.second, |first_s: u64| first_s.min(point.second)));
            Ok(())
        })?;
        Ok(TimeRange { from_s: first_s.unwrap_or(0), ..range })
    }

    /// Seconds from one stored point to the next, at that time.
    pub(crate) fn stored_step_s(&self, second: u64) -> u64 {
        self.watermarks.tier_at(second).step_s()
    }

    /// The sequence number of an instance's last flush that is not in a shared log.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    pub fn last_flush(&self, instance: InstanceId) -> Result<Option<u64>> {
        last_flush(self.tables, instance)
    }

    /// Every instance that has ever flushed, and the sequence number of its last flush.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    pub fn instances(&self) -> Result<Vec<(InstanceId, u64)>> {
        let mut all = Vec::new();
        self.tables.scan_all(TableId::LastFlush, &mut |key, value| {
            if let (Ok(instance), Some(seq)) = (key.try_into(), read_last_flush(key, value)) {
                all.push((InstanceId(instance), seq));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }

    /// Visits every point of these rows, which are sorted.
    pub(crate) fn points(
        &self,
        rows: &[RowId],
        range: TimeRange,
        visit: &mut impl FnMut(StoredPoint) -> Result<()>,
    ) -> Result<()> {
        let numbered = rows.partition_point(|id| id.series().unnumbered_place().is_none());
        let numbered = rows.get(..numbered).unwrap_or(rows);
        for tier in Tier::ALL {
            self.points_of_tier(tier, numbered, range, visit)?;
        }
        for (start_s, hour) in self.hours_within(range) {
            for (place, id) in rows.iter().enumerate() {
                let Some(row) = hour.get(*id) else { continue };
                for (of_hour, count) in row.each() {
                    let second = start_s + u64::from(of_hour) * 60;
                    if count > 0 && range.touches(second, 60) {
                        visit(StoredPoint { place, second, tier: Tier::Minutes, count })?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn hours_within(&self, range: TimeRange) -> impl Iterator<Item = (u64, &OpenHour)> {
        let unwritten = self.unwritten.hours.within(range.from_s, range.to_s);
        self.open_hours.within(range.from_s, range.to_s).chain(unwritten)
    }

    fn points_of_tier(
        &self,
        tier: Tier,
        rows: &[RowId],
        range: TimeRange,
        visit: &mut impl FnMut(StoredPoint) -> Result<()>,
    ) -> Result<()> {
        // Rows are sorted, so those of one block are next to each other.
        let groups: Vec<&[RowId]> = rows.chunk_by(|one, other| one.block() == other.block()).collect();
        let mut keys = Vec::new();
        let mut about = Vec::new();
        let end_s = range.to_s.next_multiple_of(60);
        let Some(oldest_s) = first_chunk(self.tables, tier, end_s)? else { return Ok(()) };
        let mut start_s = tier.chunk_of(range.from_s).max(oldest_s);
        while start_s < range.to_s && start_s <= self.watermarks.newest_s() {
            let mut first = 0;
            for group in &groups {
                let block = group.first().map_or(0, |id| id.block());
                keys.push(block_key(tier, start_s, block));
                about.push((start_s, first, *group));
                first += group.len();
            }
            start_s += tier.chunk_s();
        }
        self.tables.get_many(TableId::Blocks, &keys, &mut |at, bytes| {
            let Some((start_s, first, group)) = about.get(at) else { return Ok(()) };
            SeriesBlock::open(bytes)?.find(group, &mut |place, row| {
                row.each(&mut |at, count| {
                    let second = start_s + wide(at) * tier.step_s();
                    if !range.touches(second, tier.step_s()) {
                        return Ok(());
                    }
                    visit(StoredPoint { place: first + place, second, tier, count })
                })
            })
        })
    }
}
