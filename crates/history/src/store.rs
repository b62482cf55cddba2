//! The history: what was counted, kept in ever coarser steps.
//!
//! [`History::append`] writes a flush into the log of its hour; once an hour is
//! over [`History::maintain`] folds its log into blocks, and once a day is old
//! enough rolls blocks up into coarser ones. Queries read blocks, and the hours
//! that are not folded yet from memory.
//!
//! Invariants:
//! - Each of these steps is one atomic batch: after a crash it has happened or
//!   not, and what it replaces is gone exactly if it has.
//! - A flush that is appended twice counts once.
//! - Every step conserves the sum of every series, as long as it is known.
//! - What is in memory equals what is in the engine. If a commit fails, it is
//!   read again before anything else is written.
//!
//! Deliberately not here: the clock, threads, and locks; a caller that shares a
//! history puts it behind one.

mod catalogue;
mod chunks;
mod fold;
mod head;
mod keys;
mod recent;
mod shared;
mod state;

use std::collections::BTreeMap;

use tollgate_core::Time;

use crate::codec::record::{self, Minute};
use crate::counts::Counts;
use crate::engine::{Batch, Engine, Table};
use crate::error::{Error, Result};
use crate::flush::{Appended, Flush, Instance, MinuteCounts};
use crate::label::{Label, RowId, Sid};
use crate::tier::minute_of;
pub(crate) use catalogue::Catalogue;
pub(crate) use head::Head;
pub(crate) use keys::{block_key, block_range, read_block_key};
use keys::{log_key, seen_key, table_range};
use shared::Posts;
pub(crate) use state::State;

/// Bounds of a history.
///
/// ```
/// use tollgate_history::Bounds;
/// assert_eq!(Bounds::default().series, 50_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Named series; beyond, the one that was seen least recently is forgotten,
    /// and its counts are among the others.
    pub series: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { series: 50_000 }
    }
}

/// The history of one data folder or other engine.
///
/// ```
/// use tollgate_core::Time;
/// use tollgate_history::engine::Memory;
/// use tollgate_history::{Appended, RequestCount, Bounds, Caps, History, Instance, Outcome, Recorder};
/// let recorder = Recorder::new(Instance::random(), Caps::default());
/// let mut history = History::open(Memory::default(), Bounds::default())?;
/// let now = Time::from_secs(1_800_000_000);
/// recorder.request(&RequestCount { route: Some("/cart"), outcome: Outcome::Allowed, count: 1 }, now);
/// let flush = recorder.flush(now);
/// assert_eq!(history.append(&flush)?, Appended::Written);
/// assert_eq!(history.append(&flush)?, Appended::Repeated);
/// history.maintain(now)?;
/// # Ok::<(), tollgate_history::Error>(())
/// ```
#[derive(Debug)]
pub struct History<E> {
    pub(crate) engine: E,
    pub(crate) catalogue: Catalogue,
    pub(crate) head: Head,
    pub(crate) state: State,
    bounds: Bounds,
    /// What is in the head, if several processes share the engine.
    posts: Posts,
    /// How many flushes and blocks could not be read, and are lost.
    pub(crate) damaged: u64,
    /// A commit has failed, so memory may differ from the engine.
    is_stale: bool,
}

impl<E: Engine> History<E> {
    /// Reads what the engine has; writes nothing.
    ///
    /// # Errors
    ///
    /// If the engine cannot be read, or has what this version cannot read.
    pub fn open(engine: E, bounds: Bounds) -> Result<Self> {
        let mut history = Self {
            engine,
            catalogue: Catalogue::default(),
            head: Head::default(),
            state: State::default(),
            bounds,
            posts: Posts::default(),
            damaged: 0,
            is_stale: true,
        };
        history.refresh()?;
        Ok(history)
    }

    fn reload(&mut self) -> Result<()> {
        self.is_stale = true;
        self.state = State::load(&self.engine)?;
        self.catalogue = Catalogue::load(&self.engine, self.bounds.series)?;
        if self.engine.shared().is_some() {
            self.head = Head::default();
            self.posts.begin_after(self.catalogue.next());
        } else {
            self.head = Head::load(&self.engine)?;
        }
        self.is_stale = false;
        Ok(())
    }

    fn commit(&mut self, mut batch: Batch) -> Result<()> {
        self.state.put(&mut batch);
        let done = self.engine.commit(&batch);
        if done.is_err() {
            self.is_stale = true;
            // If this fails too, the next call tries again, and nothing is answered until then.
            drop(self.freshen());
        }
        done
    }

    fn freshen(&mut self) -> Result<()> {
        if self.is_stale { self.reload() } else { Ok(()) }
    }

    /// Reads what others have written since the last time, where others can.
    ///
    /// # Errors
    ///
    /// If the engine cannot be read, or has what this version cannot read.
    pub fn refresh(&mut self) -> Result<()> {
        if self.engine.shared().is_some() { self.refresh_shared() } else { self.freshen() }
    }

    /// Memory equals the engine, so that questions can be answered.
    pub(crate) fn fresh(&self) -> Result<()> {
        if self.is_stale { Err(Error::Stale) } else { Ok(()) }
    }

    /// Writes a flush, unless it is written already. An instance's flushes come
    /// in the order of their numbers.
    ///
    /// # Errors
    ///
    /// If the engine fails. Append the same flush again: it counts once.
    pub fn append(&mut self, flush: &Flush) -> Result<Appended> {
        if self.engine.shared().is_some() {
            return self.post(flush);
        }
        self.freshen()?;
        let seen = self.last_flush(flush.name.instance)?;
        if seen.is_some_and(|seen| seen >= flush.name.seq) {
            return Ok(Appended::Repeated);
        }
        let mut batch = Batch::default();
        let hours = self.rows_by_hour(flush, &mut batch);
        for (hour, minutes) in &hours {
            batch.put(Table::Log, log_key(*hour, flush.name), record::encode(minutes));
        }
        batch.put(Table::Seen, seen_key(flush.name.instance), flush.name.seq.to_be_bytes().to_vec());
        if let Some(newest) = flush.tally.minutes().last() {
            self.state.newest_minute = self.state.newest_minute.max(newest);
        }
        self.commit(batch)?;
        for (hour, minutes) in hours {
            for minute in minutes {
                self.head.add_minute(hour, minute);
            }
        }
        Ok(Appended::Written)
    }

    /// The number of an instance's last flush; of the last that was folded, where
    /// several processes share the engine.
    ///
    /// # Errors
    ///
    /// If the engine cannot be read.
    pub fn last_flush(&self, instance: Instance) -> Result<Option<u64>> {
        let value = self.engine.get(Table::Seen, &seen_key(instance))?;
        Ok(value.and_then(|bytes| read_seen(&bytes)))
    }

    /// Every instance that has ever flushed, and the number of its last flush.
    ///
    /// # Errors
    ///
    /// If the engine cannot be read.
    pub fn instances(&self) -> Result<Vec<(Instance, u64)>> {
        let mut all = Vec::new();
        let (from, to) = table_range();
        self.engine.scan(Table::Seen, &from..&to, &mut |key, value| {
            if let (Ok(instance), Some(seq)) = (key.try_into(), read_seen(value)) {
                all.push((Instance(instance), seq));
            }
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    /// The flush in rows, with numbers for labels that are new.
    fn rows_by_hour(&mut self, flush: &Flush, batch: &mut Batch) -> Hours {
        by_hour(flush, |minute, counts, rows| {
            let mut unknown = Vec::new();
            for (label, counts) in counts {
                let sid = match label {
                    Label::Requests => Some(Sid::REQUESTS),
                    Label::Decisions => Some(Sid::RULINGS),
                    Label::Route(_) | Label::Rule(_) | Label::Key { .. } => {
                        self.catalogue.known(label, minute, batch)
                    }
                };
                match sid {
                    Some(sid) => push_rows(rows, sid, counts),
                    None => unknown.push((label, counts)),
                }
            }
            // In order, so that the same flushes always make the same history.
            unknown.sort_unstable_by_key(|(label, _)| *label);
            for (label, counts) in unknown {
                if let Some(sid) = self.catalogue.number(label, minute, batch) {
                    push_rows(rows, sid, counts);
                }
            }
        })
    }

    /// Folds the hours that are over, and rolls up the days that are old enough.
    /// Call it now and then; it does nothing if there is nothing to do.
    ///
    /// # Errors
    ///
    /// If the engine fails. What was done stays done; call it again.
    pub fn maintain(&mut self, now: Time) -> Result<()> {
        if self.engine.shared().is_some() {
            return self.maintain_shared(minute_of(now));
        }
        self.freshen()?;
        while self.fold(minute_of(now))? {}
        self.roll_up()
    }

    /// The engine, for whoever wants to look after it.
    pub fn into_engine(self) -> E {
        self.engine
    }
}

/// The minutes of a flush, by hour.
type Hours = BTreeMap<u32, Vec<Minute>>;

/// The flush in rows, as `add` makes them of each minute.
fn by_hour(flush: &Flush, mut add: impl FnMut(u32, &MinuteCounts, &mut Vec<(RowId, u64)>)) -> Hours {
    let mut hours = Hours::new();
    for (minute, counts) in &flush.tally.minutes {
        let mut rows = Vec::with_capacity(counts.len() + 1);
        rows.push((RowId::UP, 1));
        add(*minute, counts, &mut rows);
        rows.sort_unstable_by_key(|(id, _)| *id);
        let of_hour = u8::try_from(minute % 60).unwrap_or(0);
        hours.entry(minute / 60).or_default().push(Minute { of_hour, rows });
    }
    hours
}

/// The number of a last flush; engines that are shared keep more behind it.
fn read_seen(value: &[u8]) -> Option<u64> {
    value.first_chunk::<8>().map(|seq| u64::from_be_bytes(*seq))
}

fn push_rows(rows: &mut Vec<(RowId, u64)>, sid: Sid, counts: &Counts) {
    let counted = counts.iter().filter(|(_, count)| *count > 0);
    rows.extend(counted.map(|(outcome, count)| (sid.row(outcome), count)));
}

#[cfg(test)]
mod tests;
