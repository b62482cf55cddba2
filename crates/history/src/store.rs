//! The history: what was counted, kept in ever coarser points.
//!
//! A flush is appended to a log; `maintain` compacts the log into blocks, and rolls
//! blocks up into coarser ones. There are two kinds, because writing is different:
//!
//! | module | what it holds |
//! |---|---|
//! | `local` | [`LocalHistory`]: one process writes, into a log by hour |
//! | `shared` | [`SharedHistory`]: several processes append, and a leader compacts |
//! | `series_index`, `label_addresses` | labels and their numbers |
//! | `open_hours` | what is not in blocks yet, in memory |
//! | `watermarks` | how far the history has come |
//! | `block_builder`, `compaction` | from the log to blocks, from fine blocks to coarse ones |
//! | `keys` | the keys of every table |
//!
//! Both are read by a [`HistoryReader`], with stored points of a time range (`reader`, `row_totals`).
//!
//! Invariants:
//! - Each step is one atomic batch: after a crash it has happened or not, and what
//!   it replaces is gone exactly if it has.
//! - A flush that is appended twice counts once.
//! - Every step conserves the sum of every series that has a label.
//! - What is in memory equals what is in the tables, or is stale and not used until
//!   it has been refreshed.
//!
//! Deliberately not here: the clock, threads, locks.

mod block_builder;
mod compaction;
mod keys;
mod label_addresses;
mod local;
mod open_hours;
mod reader;
mod row_totals;
mod series_index;
mod shared;
mod watermarks;

use std::collections::BTreeMap;

use tollgate_core::Time;

use crate::bytes::{checked_row, put_row_checksum};
use crate::codec::record::MinuteRows;
use crate::counts::Counts;
use crate::error::{Error, Result};
use crate::flush::{AppendResult, Flush, FlushId, InstanceId, MinuteCounts};
use crate::label::Label;
use crate::row_id::{RowId, SeriesId};
use crate::tables::{TableId, Tables, WriteBatch};
pub(crate) use compaction::first_chunk;
use keys::last_flush_key;
pub(crate) use keys::{block_key, block_range, read_block_key};
pub use local::LocalHistory;
pub(crate) use open_hours::{OpenHour, OpenHours};
pub use reader::HistoryReader;
pub(crate) use series_index::SeriesIndex;
pub use shared::SharedHistory;
pub(crate) use watermarks::Watermarks;

/// How often something is tried again while other processes commit, which they do
/// every few minutes.
const STALE_TRIES: usize = 4;

/// Bounds of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Named series. Beyond, the one seen least recently is forgotten, and its counts
    /// are among the others.
    pub series: usize,
    /// Nothing is rolled up before so many hours were counted since. A clock that is
    /// ahead for a shorter time makes nothing old.
    pub hours_since: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { series: 50_000, hours_since: 24 }
    }
}

/// Takes flushes, keeps them, and is read.
///
/// ```
/// use tollgate_core::Time;
/// use tollgate_history::query::TimeRange;
/// use tollgate_history::tables::MemoryTables;
/// use tollgate_history::{
///     AppendResult, Bounds, Caps, History, InstanceId, LocalHistory, Outcome, Recorder, RequestCount,
/// };
/// let recorder = Recorder::new(InstanceId::random(), Caps::default());
/// let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default())?;
/// let now = Time::from_secs(1_800_000_000);
/// recorder.request(&RequestCount { route: Some("/cart"), outcome: Outcome::Allowed, count: 1 }, now);
/// let flush = recorder.flush(now);
/// assert_eq!(history.append(&flush)?, AppendResult::Written);
/// assert_eq!(history.append(&flush)?, AppendResult::Repeated);
/// history.maintain(now)?;
/// let day = TimeRange::parse(None, None, Some("24h"), 1_800_000_060)?;
/// assert_eq!(history.reader()?.summary(day)?.total, 1);
/// # Ok::<(), tollgate_history::Error>(())
/// ```
pub trait History: Send + Sync {
    /// Writes a flush, unless it is written already. The flushes of an instance come
    /// in the order of their sequence numbers.
    ///
    /// # Errors
    ///
    /// If the tables fail. Append the same flush again: it counts once.
    fn append(&mut self, flush: &Flush) -> Result<AppendResult>;

    /// Compacts what is over and rolls up what is old enough. Call it now and then;
    /// it does nothing if there is nothing to do.
    ///
    /// # Errors
    ///
    /// If the tables fail. What was done stays done; call it again.
    fn maintain(&mut self, now: Time) -> Result<()>;

    /// Erases series: no answer has them from now on, their counts are among the others,
    /// and their names are in none of the bytes that are kept. Returns how many there were.
    ///
    /// # Errors
    ///
    /// If the tables fail. It is then unknown whether they are erased; call it again.
    fn forget(&mut self, is_meant: &dyn Fn(&Label) -> bool) -> Result<usize>;

    /// Reads what has changed in the tables, if memory is stale. Writes nothing.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or hold what this version cannot read.
    fn refresh(&mut self) -> Result<()>;

    /// Answers queries about everything up to the last append or refresh.
    ///
    /// # Errors
    ///
    /// If memory is stale: refresh first.
    fn reader(&self) -> Result<HistoryReader<'_>>;

    /// Whether a flush is in the tables, as far as was known at the last refresh.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    fn is_written(&self, id: FlushId) -> Result<bool>;

    /// The clock that minutes are held against: `own`, or that of the server which
    /// several processes share.
    ///
    /// # Errors
    ///
    /// If that server cannot be asked.
    fn clock(&self, own: Time) -> Result<Time> {
        Ok(own)
    }

    /// Answers a query about everything that anybody has written.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or the query fails.
    fn read<R>(&mut self, query: impl Fn(&HistoryReader<'_>) -> Result<R>) -> Result<R>
    where
        Self: Sized,
    {
        retry_stale(|| {
            self.refresh()?;
            query(&self.reader()?)
        })
    }
}

/// Tries again while the result is that something is stale, a few times.
///
/// # Errors
///
/// The error of the last attempt.
pub fn retry_stale<R>(mut attempt: impl FnMut() -> Result<R>) -> Result<R> {
    for _ in 1..STALE_TRIES {
        match attempt() {
            Err(Error::Stale) => {}
            done => return done,
        }
    }
    attempt()
}

/// The tables and what of them is in memory: what both kinds of history are made of.
#[derive(Debug)]
struct HistoryCore<T> {
    tables: T,
    series: SeriesIndex,
    open_hours: OpenHours,
    watermarks: Watermarks,
    bounds: Bounds,
    /// Log entries and blocks that could not be read since this was opened; their
    /// counts are lost.
    damaged: u64,
    /// Rows of labels that cannot be read; their counts are among the others.
    unreadable_labels: u64,
    /// Memory may differ from the tables.
    is_stale: bool,
}

impl<T: Tables> HistoryCore<T> {
    /// Nothing is loaded yet.
    fn new(tables: T, bounds: Bounds) -> Self {
        Self {
            tables,
            series: SeriesIndex::default(),
            open_hours: OpenHours::default(),
            watermarks: Watermarks::default(),
            bounds,
            damaged: 0,
            unreadable_labels: 0,
            is_stale: true,
        }
    }

    /// Loads everything but the open hours, which differ between the kinds.
    fn load(&mut self) -> Result<()> {
        self.is_stale = true;
        self.watermarks = Watermarks::load(&self.tables)?;
        (self.series, self.unreadable_labels) = SeriesIndex::load(&self.tables, self.bounds.series)?;
        Ok(())
    }

    /// Forgets labels, in memory and in the batch; how many.
    fn forget_labels(&mut self, is_meant: &dyn Fn(&Label) -> bool, batch: &mut WriteBatch) -> usize {
        let meant: Vec<SeriesId> =
            self.series.named().filter(|(_, label)| is_meant(label)).map(|(id, _)| id).collect();
        for id in &meant {
            self.series.forget(*id, batch);
        }
        meant.len()
    }

    fn commit(&mut self, mut batch: WriteBatch) -> Result<()> {
        self.watermarks.put(&mut batch);
        let done = self.tables.commit(&batch);
        self.is_stale |= done.is_err();
        done
    }

    fn reader(&self) -> Result<HistoryReader<'_>> {
        if self.is_stale {
            return Err(Error::Stale);
        }
        let damaged = self.damaged + self.unreadable_labels + self.tables.damaged();
        Ok(HistoryReader::new(&self.tables, &self.series, &self.open_hours, self.watermarks, damaged))
    }
}

/// The sequence number of an instance's last flush, of those that are not in a shared log.
pub(crate) fn last_flush(tables: &(impl Tables + ?Sized), instance: InstanceId) -> Result<Option<u64>> {
    let key = last_flush_key(instance);
    Ok(tables.get(TableId::LastFlush, &key)?.and_then(|bytes| read_last_flush(&key, &bytes)))
}

/// The sequence number in a row of the table; a shared history keeps more behind it. None
/// if it is damaged: at worst a flush that is sent again counts twice.
pub(crate) fn read_last_flush(key: &[u8], value: &[u8]) -> Option<u64> {
    checked_row(key, value).ok()?.first_chunk::<8>().map(|seq| u64::from_be_bytes(*seq))
}

/// A row of that table.
fn put_last_flush(batch: &mut WriteBatch, id: FlushId, newest_minute: Option<u32>) {
    let key = last_flush_key(id.instance);
    let mut value = id.seq.to_be_bytes().to_vec();
    value.extend(newest_minute.iter().flat_map(|minute| minute.to_be_bytes()));
    put_row_checksum(&key, &mut value);
    batch.put(TableId::LastFlush, key, value);
}

/// The minutes of a flush, by hour.
type FlushHours = BTreeMap<u32, Vec<MinuteRows>>;

/// The rows of a flush, as `add` makes them of each minute.
pub(crate) fn rows_by_hour(
    flush: &Flush,
    mut add: impl FnMut(u32, &MinuteCounts, &mut Vec<(RowId, u64)>),
) -> FlushHours {
    let mut hours = FlushHours::new();
    for (minute, counts) in &flush.counts.minutes {
        let mut rows = Vec::with_capacity(counts.len() + 1);
        rows.push((RowId::UP, 1));
        add(*minute, counts, &mut rows);
        rows.sort_unstable_by_key(|(id, _)| *id);
        let of_hour = u8::try_from(minute % 60).unwrap_or(0);
        hours.entry(minute / 60).or_default().push(MinuteRows { of_hour, rows });
    }
    hours
}

pub(crate) fn push_rows(rows: &mut Vec<(RowId, u64)>, series: SeriesId, counts: &Counts) {
    let counted = counts.iter().filter(|(_, count)| *count > 0);
    rows.extend(counted.map(|(outcome, count)| (series.row(outcome), count)));
}

#[cfg(test)]
mod tests;
