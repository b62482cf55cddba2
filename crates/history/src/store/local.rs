//! A history that one process writes: in memory, or in a folder.
//!
//! A flush becomes a record in the log of each hour it covers. An hour is compacted
//! once it is over.

use std::ops::ControlFlow;

use tollgate_core::Time;

use super::keys::{log_key, log_range};
use super::{
    Bounds, FlushHours, History, HistoryCore, HistoryReader, OpenHours, last_flush, push_rows,
    put_last_flush, rows_by_hour,
};
use crate::codec::record;
use crate::error::Result;
use crate::flush::{AppendResult, Flush, FlushId};
use crate::label::Label;
use crate::row_id::SeriesId;
use crate::tables::{TableId, Tables, WriteBatch};
use crate::tier::minute_of;

/// Hours that are compacted at once: a day, so that a late day rewrites a coarse
/// block once and not 24 times.
const HOURS_AT_ONCE: usize = 24;

/// Open hours, whatever the clock says. More are compacted though they are not over,
/// which costs a rewrite and loses nothing.
const OPEN_HOURS_MAX: usize = 72;

/// How long an hour that is over stays open for its last flush, in minutes.
const GRACE_MIN: u32 = 1;

/// A history that one process writes.
#[derive(Debug)]
pub struct LocalHistory<T> {
    pub(super) core: HistoryCore<T>,
}

impl<T: Tables> LocalHistory<T> {
    /// Loads what the tables hold; writes nothing.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or hold what this version cannot read.
    pub fn open(tables: T, bounds: Bounds) -> Result<Self> {
        let mut history = Self { core: HistoryCore::new(tables, bounds) };
        history.refresh()?;
        Ok(history)
    }

    /// The tables.
    pub fn into_tables(self) -> T {
        self.core.tables
    }

    /// The rows of a flush, with numbers for labels that are new.
    fn number_rows(&mut self, flush: &Flush, batch: &mut WriteBatch) -> FlushHours {
        let series = &mut self.core.series;
        rows_by_hour(flush, |minute, counts, rows| {
            let mut new = Vec::new();
            for (label, counts) in counts {
                let id = match label {
                    Label::Requests => Some(SeriesId::REQUESTS),
                    Label::Decisions => Some(SeriesId::DECISIONS),
                    Label::Route(_) | Label::Rule { .. } | Label::Key { .. } => {
                        series.see(label, minute, batch)
                    }
                };
                match id {
                    Some(id) => push_rows(rows, id, counts),
                    None => new.push((label, counts)),
                }
            }
            // In order, so that the same flushes always make the same tables.
            new.sort_unstable_by_key(|(label, _)| *label);
            for (label, counts) in new {
                if let Some(id) = series.add(label, minute, batch) {
                    push_rows(rows, id, counts);
                }
            }
        })
    }

    /// Compacts the first hours that are over; false if there are none.
    fn compact_hours(&mut self, now_minute: u32) -> Result<bool> {
        let over = now_minute.saturating_sub(GRACE_MIN) / 60;
        let end = if self.core.open_hours.len() > OPEN_HOURS_MAX { u32::MAX } else { over };
        let mut batch = WriteBatch::default();
        let (hours, damaged) = self.core.compact(HOURS_AT_ONCE, end, &mut batch)?;
        if hours.is_empty() {
            return Ok(false);
        }
        for hour in &hours {
            let (from, to) = log_range(*hour, hour.saturating_add(1));
            self.core.tables.scan(TableId::Log, &from..&to, &mut |key, _| {
                batch.remove(TableId::Log, key.to_vec());
                Ok(ControlFlow::Continue(()))
            })?;
        }
        self.core.commit(batch)?;
        self.core.damaged += damaged;
        for hour in hours {
            self.core.open_hours.remove(hour);
        }
        Ok(true)
    }
}

impl<T: Tables> History for LocalHistory<T> {
    fn append(&mut self, flush: &Flush) -> Result<AppendResult> {
        self.refresh()?;
        if self.is_written(flush.id)? {
            return Ok(AppendResult::Repeated);
        }
        let mut batch = WriteBatch::default();
        let hours = self.number_rows(flush, &mut batch);
        for (hour, minutes) in &hours {
            batch.put(TableId::Log, log_key(*hour, flush.id), record::encode(minutes));
        }
        put_last_flush(&mut batch, flush.id, None);
        if let Some(newest) = flush.counts.minutes().last() {
            self.core.watermarks.see_minute(newest);
        }
        self.core.commit(batch)?;
        for (hour, minutes) in hours {
            for minute in minutes {
                self.core.open_hours.add_minute(hour, minute);
            }
        }
        Ok(AppendResult::Written)
    }

    fn maintain(&mut self, now: Time) -> Result<()> {
        self.refresh()?;
        self.core.lower_watermarks(now)?;
        while self.compact_hours(minute_of(now))? {}
        self.core.roll_up(now)
    }

    fn forget(&mut self, is_meant: &dyn Fn(&Label) -> bool) -> Result<usize> {
        self.refresh()?;
        let mut batch = WriteBatch::default();
        let count = self.core.forget_labels(is_meant, &mut batch);
        if count > 0 {
            self.core.commit(batch)?;
            self.core.tables.rewrite()?;
        }
        Ok(count)
    }

    fn refresh(&mut self) -> Result<()> {
        if self.core.is_stale {
            self.core.load()?;
            self.core.open_hours = OpenHours::load(&self.core.tables)?;
            self.core.is_stale = false;
        }
        Ok(())
    }

    fn reader(&self) -> Result<HistoryReader<'_>> {
        self.core.reader()
    }

    fn is_written(&self, id: FlushId) -> Result<bool> {
        Ok(last_flush(&self.core.tables, id.instance)?.is_some_and(|last| last >= id.seq))
    }
}
