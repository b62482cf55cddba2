//! A history that several processes write.
//!
//! Each appends its flushes to the log, with numbers for the labels that have one
//! and the text of the others. The leader gives the others numbers and compacts the
//! log every few minutes. Until then every reader does the same in memory.
//!
//! Invariants:
//! - A log entry counts as long as it is in the log, and is removed by the commit
//!   that puts it into blocks. That commit also notes its sequence number, so that
//!   it is not taken again.
//! - Memory is of one generation: when somebody has committed, it is all read again.
//! - An entry that cannot be read is removed and counted as damaged, unless it is of
//!   a newer version: then it is left for a process that can read it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use tollgate_core::Time;

use super::{
    Bounds, History, HistoryCore, HistoryReader, OpenHours, last_flush, push_rows, put_last_flush,
    retry_stale, rows_by_hour,
};
use crate::Map;
use crate::bytes::index;
use crate::codec::log_entry::{self, LogEntry};
use crate::codec::record::MinuteRows;
use crate::error::{Error, Result};
use crate::flush::{AppendResult, Flush, FlushId, InstanceId};
use crate::label::Label;
use crate::row_id::{RowId, SeriesId};
use crate::tables::{SharedTables, TableId, WriteBatch};
use crate::tier::minute_of;

/// How often the log is compacted, in minutes. Less often keeps a longer log, which
/// every reader reads; more often writes the open hour more often.
const COMPACT_EVERY_MIN: u32 = 5;

/// Instances whose last flush is remembered. One is forgotten only when so many
/// others have flushed since; a flush is retried within seconds.
const INSTANCES_MAX: usize = 10_000;

/// The log entries that are in the open hours.
#[derive(Debug, Default)]
struct ReadLog {
    keys: BTreeSet<Vec<u8>>,
    /// The last flush of each instance among them, and its newest minute.
    last: BTreeMap<InstanceId, (u64, u32)>,
    /// Labels that were given a number in memory; the next compaction stores it.
    new_labels: WriteBatch,
    /// The first number that is not stored.
    first_new: u32,
}

impl ReadLog {
    fn note(&mut self, id: FlushId, minute: u32) {
        let last = self.last.entry(id.instance).or_default();
        *last = (last.0.max(id.seq), last.1.max(minute));
    }
}

/// A history that several processes write.
#[derive(Debug)]
pub struct SharedHistory<T> {
    pub(super) core: HistoryCore<T>,
    log: ReadLog,
    /// When this process last compacted.
    compacted_minute: Option<u32>,
}

impl<T: SharedTables> SharedHistory<T> {
    /// Loads what the tables hold; writes nothing.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or hold what this version cannot read.
    pub fn open(tables: T, bounds: Bounds) -> Result<Self> {
        let core = HistoryCore::new(tables, bounds);
        let mut history = Self { core, log: ReadLog::default(), compacted_minute: None };
        history.refresh()?;
        Ok(history)
    }

    /// Turns to the newest generation, without its log.
    fn refresh_tables(&mut self) -> Result<()> {
        if self.core.tables.refresh()? || self.core.is_stale {
            self.core.load()?;
            self.forget_log();
            self.core.is_stale = false;
        }
        Ok(())
    }

    /// Nothing of the log is in memory, and every number in the index is stored.
    fn forget_log(&mut self) {
        self.core.open_hours = OpenHours::default();
        self.log = ReadLog { first_new: self.core.series.next().0, ..ReadLog::default() };
    }

    /// Adds the log entries that are new to the open hours.
    fn read_log(&mut self) -> Result<()> {
        let mut new: Vec<(Vec<u8>, Result<LogEntry>)> = Vec::new();
        let known = &self.log.keys;
        self.core.tables.log_entries(&|key| !known.contains(key), &mut |key, value| {
            new.push((key.to_vec(), log_entry::decode(value)));
            Ok(ControlFlow::Continue(()))
        })?;
        for (key, entry) in new {
            match (FlushId::from_key(&key), entry) {
                (Some(id), Ok(entry)) => self.add_entry(id, &entry),
                (Some(_), Err(Error::TooNew { .. })) => continue,
                (_, _) => self.core.damaged += 1,
            }
            self.log.keys.insert(key);
        }
        Ok(())
    }

    fn add_entry(&mut self, id: FlushId, entry: &LogEntry) {
        let mut minutes: BTreeMap<u32, Vec<(RowId, u64)>> = BTreeMap::new();
        for count in &entry.counts {
            let rows = minutes.entry(count.minute).or_default();
            let Some(series) = self.number(count.id.series(), entry, count.minute) else { continue };
            if count.id.outcome().is_some() || count.id == RowId::UP {
                rows.push((count.id.with_series(series), count.count));
            }
        }
        let newest = minutes.last_key_value().map_or(0, |(minute, _)| *minute);
        for (minute, rows) in minutes {
            let of_hour = u8::try_from(minute % 60).unwrap_or(0);
            self.core.open_hours.add_minute(minute / 60, MinuteRows { of_hour, rows });
        }
        self.core.watermarks.see_minute(newest);
        self.log.note(id, newest);
    }

    /// The number of a series of an entry. None if its label was forgotten since: it
    /// counts among the others then.
    fn number(&mut self, id: SeriesId, entry: &LogEntry, minute: u32) -> Option<SeriesId> {
        if matches!(id, SeriesId::REQUESTS | SeriesId::DECISIONS) {
            return Some(id);
        }
        let label = match id.unnumbered_place() {
            Some(place) => entry.labels.get(index(u64::from(place)))?.clone(),
            None => self.core.series.label(id)?.clone(),
        };
        let batch = &mut self.log.new_labels;
        let known = self.core.series.see(&label, minute, batch);
        known.or_else(|| self.core.series.add(&label, minute, batch))
    }

    fn encode(&self, flush: &Flush) -> Vec<u8> {
        let mut labels: Vec<&Label> = Vec::new();
        let mut ids: Map<&Label, SeriesId> = Map::default();
        for label in flush.counts.minutes.values().flat_map(|counts| counts.keys()) {
            let stored = self.stored(label);
            ids.entry(label).or_insert_with(|| {
                stored.unwrap_or_else(|| {
                    labels.push(label);
                    SeriesId::unnumbered(u32::try_from(labels.len() - 1).unwrap_or(0))
                })
            });
        }
        let hours = rows_by_hour(flush, |_, counts, rows| {
            for (label, counts) in counts {
                if let Some(id) = ids.get(label) {
                    push_rows(rows, *id, counts);
                }
            }
        });
        log_entry::encode(&labels, hours.iter().map(|(hour, minutes)| (*hour, minutes.as_slice())))
    }

    /// The number of a label, if every process knows it.
    fn stored(&self, label: &Label) -> Option<SeriesId> {
        match label {
            Label::Requests => Some(SeriesId::REQUESTS),
            Label::Decisions => Some(SeriesId::DECISIONS),
            Label::Route(_) | Label::Rule { .. } | Label::Key { .. } => {
                let known = self.core.series.get(label).filter(|_| !self.core.is_stale);
                known.filter(|id| id.0 < self.log.first_new)
            }
        }
    }

    fn maintain_tables(&mut self, now: Time) -> Result<()> {
        let clock = self.core.tables.clock()?;
        self.refresh()?;
        self.core.lower_watermarks(clock)?;
        self.compact_log(minute_of(now))?;
        self.core.roll_up(clock)
    }

    fn compact_log(&mut self, now_minute: u32) -> Result<()> {
        let is_early = |compacted: u32| compacted.abs_diff(now_minute) < COMPACT_EVERY_MIN;
        if self.log.keys.is_empty() || self.compacted_minute.is_some_and(is_early) {
            return Ok(());
        }
        self.commit_log(self.log.new_labels.clone())?;
        self.compacted_minute = Some(now_minute);
        Ok(())
    }

    /// Puts everything that is in the log into blocks, with the changes of a batch.
    fn commit_log(&mut self, mut batch: WriteBatch) -> Result<()> {
        let (_, damaged) = self.core.compact(usize::MAX, u32::MAX, &mut batch)?;
        for key in &self.log.keys {
            batch.remove(TableId::Log, key.clone());
        }
        for (instance, (seq, minute)) in &self.log.last {
            put_last_flush(&mut batch, FlushId { instance: *instance, seq: *seq }, Some(*minute));
        }
        self.forget_instances(&mut batch)?;
        self.core.commit(batch)?;
        self.core.damaged += damaged;
        self.forget_log();
        Ok(())
    }

    /// Removes the instances that have been silent longest, if there are too many.
    fn forget_instances(&self, batch: &mut WriteBatch) -> Result<()> {
        let mut silent: Vec<(u32, Vec<u8>)> = Vec::new();
        self.core.tables.scan_all(TableId::LastFlush, &mut |key, value| {
            let minute =
                value.get(8..12).and_then(|minute| minute.try_into().ok()).map_or(0, u32::from_be_bytes);
            let has_flushed =
                <[u8; 16]>::try_from(key).is_ok_and(|id| self.log.last.contains_key(&InstanceId(id)));
            if !has_flushed {
                silent.push((minute, key.to_vec()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let most = INSTANCES_MAX.saturating_sub(self.log.last.len());
        silent.sort_unstable();
        let forgotten = silent.len().saturating_sub(most);
        for (_, key) in silent.into_iter().take(forgotten) {
            batch.remove(TableId::LastFlush, key);
        }
        Ok(())
    }
}

impl<T: SharedTables> History for SharedHistory<T> {
    fn append(&mut self, flush: &Flush) -> Result<AppendResult> {
        // Only to know more numbers; without them labels are written in full.
        match self.refresh_tables() {
            Ok(()) | Err(Error::Stale) => {}
            Err(error) => return Err(error),
        }
        let bytes = self.encode(flush);
        self.core.tables.append(flush.id, &bytes)
    }

    fn maintain(&mut self, now: Time) -> Result<()> {
        if !self.core.tables.try_lead()? {
            return Ok(());
        }
        match self.maintain_tables(now) {
            // Another process leads by now, and does it.
            Err(Error::Stale) => Ok(()),
            done => done,
        }
    }

    fn forget(&mut self, is_meant: &dyn Fn(&Label) -> bool) -> Result<usize> {
        retry_stale(|| {
            self.refresh()?;
            let mut batch = self.log.new_labels.clone();
            let count = self.core.forget_labels(is_meant, &mut batch);
            if count > 0 {
                // The log has labels in full, so it is compacted whoever leads.
                self.core.is_stale = true;
                self.commit_log(batch)?;
                self.core.is_stale = false;
                self.core.tables.rewrite()?;
            }
            Ok(count)
        })
    }

    fn clock(&self, _: Time) -> Result<Time> {
        self.core.tables.clock()
    }

    fn refresh(&mut self) -> Result<()> {
        retry_stale(|| {
            self.refresh_tables()?;
            self.read_log()
        })
    }

    fn reader(&self) -> Result<HistoryReader<'_>> {
        self.core.reader()
    }

    fn is_written(&self, id: FlushId) -> Result<bool> {
        let is_in_log = self.log.keys.contains(id.key().as_slice());
        Ok(is_in_log || last_flush(&self.core.tables, id.instance)?.is_some_and(|last| last >= id.seq))
    }
}

#[cfg(test)]
mod tests;
