//! A history that several processes write to.
//!
//! Each posts its flushes into the log, with numbers for the labels that it knows
//! and the text of the others. Whoever leads gives the others numbers and folds
//! the posts into blocks every few minutes; everybody who is asked does the same
//! in memory, for the posts that are not folded yet.
//!
//! Invariants:
//! - A post counts as long as it is in the log, and goes with the commit that
//!   folds it. That commit also notes its number, so that it is not taken again.
//! - Nothing in memory outlives its edition: when somebody has committed, it is
//!   all read again.
//! - A post that cannot be read is thrown away and counted, unless it is of a
//!   newer version: then it is left to whoever can.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::chunks::Chunks;
use super::fold::add_hour;
use super::keys::{seen_key, table_range};
use super::{History, by_hour, push_rows};
use crate::Map;
use crate::codec::post::{self, Post};
use crate::codec::record::Minute;
use crate::engine::{Batch, Engine, Table};
use crate::error::{Error, Result};
use crate::flush::{Appended, Flush, FlushName, Instance};
use crate::label::{Label, RowId, Sid};

/// How often posts are folded, in minutes. Less often keeps more posts, which
/// everybody who is asked reads; more often writes the open hour more often.
const FOLD_EVERY_MIN: u32 = 5;

/// How often it is tried to read one edition while others make new ones, which
/// happens every few minutes.
const TRIES: usize = 4;

/// Instances whose last flush is remembered. One is forgotten only when so many
/// others have flushed since; a flush is tried again within seconds.
const INSTANCES_MAX: usize = 10_000;

/// The posts that are in the head.
#[derive(Debug, Default)]
pub(super) struct Posts {
    keys: BTreeSet<Vec<u8>>,
    /// The last flush of each instance among them, and its newest minute.
    last: BTreeMap<Instance, (u64, u32)>,
    /// The labels that have got a number here, which is not stored yet.
    batch: Batch,
    /// The first number that is not stored yet.
    first_new: u32,
    /// When posts were last folded by this process.
    folded_minute: Option<u32>,
}

impl Posts {
    /// Nothing is read yet, and the catalogue has numbers up to there.
    pub(super) fn begin_after(&mut self, next: Sid) {
        *self = Self { first_new: next.0, folded_minute: self.folded_minute, ..Self::default() };
    }

    fn note(&mut self, name: FlushName, minute: u32) {
        let last = self.last.entry(name.instance).or_default();
        *last = (last.0.max(name.seq), last.1.max(minute));
    }
}

impl<E: Engine> History<E> {
    /// Answers a question about what everybody has written so far.
    ///
    /// ```
    /// use tollgate_history::engine::Memory;
    /// use tollgate_history::query::Span;
    /// use tollgate_history::{Bounds, History};
    /// let mut history = History::open(Memory::default(), Bounds::default())?;
    /// let summary = history.ask(|history| history.summary(Span { from_s: 0, to_s: 60 }))?;
    /// assert_eq!(summary.total, 0);
    /// # Ok::<(), tollgate_history::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the engine cannot be read, or the question cannot be answered.
    pub fn ask<T>(&mut self, question: impl Fn(&Self) -> Result<T>) -> Result<T> {
        for _ in 1..TRIES {
            self.refresh()?;
            match question(self) {
                Err(Error::Moved) => {}
                answer => return answer,
            }
        }
        self.refresh()?;
        question(self)
    }

    pub(super) fn refresh_shared(&mut self) -> Result<()> {
        for _ in 1..TRIES {
            match self.turn().and_then(|()| self.read_posts()) {
                Err(Error::Moved) => {}
                done => return done,
            }
        }
        self.turn()?;
        self.read_posts()
    }

    /// Turns to the newest edition, without its posts.
    fn turn(&mut self) -> Result<()> {
        let has_moved = self.engine.shared().map_or(Ok(false), |shared| shared.renew())?;
        if has_moved || self.is_stale { self.reload() } else { Ok(()) }
    }

    /// Adds the posts that are new to the head.
    fn read_posts(&mut self) -> Result<()> {
        let mut new: Vec<(Vec<u8>, Result<Post>)> = Vec::new();
        let known = &self.posts.keys;
        if let Some(shared) = self.engine.shared() {
            shared.posts(&|key| !known.contains(key), &mut |key, value| {
                new.push((key.to_vec(), post::decode(value)));
                ControlFlow::Continue(())
            })?;
        }
        for (key, post) in new {
            match (FlushName::of_key(&key), post) {
                (Some(name), Ok(post)) => self.add_post(name, &post),
                (Some(_), Err(Error::TooNew { .. })) => continue,
                (_, _) => self.damaged += 1,
            }
            self.posts.keys.insert(key);
        }
        Ok(())
    }

    fn add_post(&mut self, name: FlushName, post: &Post) {
        let batch = &mut self.posts.batch;
        let mut minutes: BTreeMap<u32, Vec<(RowId, u64)>> = BTreeMap::new();
        for count in &post.counts {
            let rows = minutes.entry(count.minute).or_default();
            let sid = count.id.sid();
            let label = match sid.place() {
                Some(place) => post.labels.get(usize::try_from(place).unwrap_or(usize::MAX)).cloned(),
                None => self.catalogue.label(sid).cloned(),
            };
            let of_catalogue = match (sid, label) {
                (Sid::REQUESTS | Sid::RULINGS, _) => Some(sid),
                (_, Some(label)) => {
                    let known = self.catalogue.known(&label, count.minute, batch);
                    known.or_else(|| self.catalogue.number(&label, count.minute, batch))
                }
                // Forgotten since it was posted: it counts among the others.
                (_, None) => None,
            };
            let Some(sid) = of_catalogue else { continue };
            if count.id.outcome().is_some() || count.id == RowId::UP {
                rows.push((count.id.of(sid), count.count));
            }
        }
        let newest = minutes.last_key_value().map_or(0, |(minute, _)| *minute);
        for (minute, rows) in minutes {
            let of_hour = u8::try_from(minute % 60).unwrap_or(0);
            self.head.add_minute(minute / 60, Minute { of_hour, rows });
        }
        self.state.newest_minute = self.state.newest_minute.max(newest);
        self.posts.note(name, newest);
    }

    /// Writes a flush into the log of all.
    pub(super) fn post(&mut self, flush: &Flush) -> Result<Appended> {
        // Only to know more numbers: without any, all labels go in full.
        match self.turn() {
            Ok(()) | Err(Error::Moved) => {}
            Err(error) => return Err(error),
        }
        let bytes = self.encode_post(flush);
        match self.engine.shared() {
            Some(shared) => shared.post(flush.name, &bytes),
            None => Err(Error::Stale),
        }
    }

    fn encode_post(&self, flush: &Flush) -> Vec<u8> {
        let mut labels: Vec<&Label> = Vec::new();
        let mut places: Map<&Label, Sid> = Map::default();
        for label in flush.tally.minutes.values().flat_map(|counts| counts.keys()) {
            let stored = self.stored(label);
            places.entry(label).or_insert_with(|| {
                stored.unwrap_or_else(|| {
                    labels.push(label);
                    Sid::waiting(u32::try_from(labels.len() - 1).unwrap_or(0))
                })
            });
        }
        let hours = by_hour(flush, |_, counts, rows| {
            for (label, counts) in counts {
                if let Some(sid) = places.get(label) {
                    push_rows(rows, *sid, counts);
                }
            }
        });
        post::encode(&labels, hours.iter().map(|(hour, minutes)| (*hour, minutes.as_slice())))
    }

    /// The number of a label, if everybody knows it.
    fn stored(&self, label: &Label) -> Option<Sid> {
        match label {
            Label::Requests => Some(Sid::REQUESTS),
            Label::Decisions => Some(Sid::RULINGS),
            Label::Route(_) | Label::Rule(_) | Label::Key { .. } => {
                let known = self.catalogue.get(label).filter(|_| !self.is_stale);
                known.filter(|sid| sid.0 < self.posts.first_new)
            }
        }
    }

    /// Folds the posts and rolls up, if this process leads and it is time.
    pub(super) fn maintain_shared(&mut self, now_minute: u32) -> Result<()> {
        let leads = self.engine.shared().map_or(Ok(false), |shared| shared.lead())?;
        if !leads {
            return Ok(());
        }
        match self.refresh_shared().and_then(|()| self.fold_posts(now_minute)).and_then(|()| self.roll_up()) {
            // Somebody else leads by now, and does it.
            Err(Error::Moved) => Ok(()),
            done => done,
        }
    }

    fn fold_posts(&mut self, now_minute: u32) -> Result<()> {
        let is_early = |folded: u32| folded.abs_diff(now_minute) < FOLD_EVERY_MIN;
        if self.posts.keys.is_empty() || self.posts.folded_minute.is_some_and(is_early) {
            return Ok(());
        }
        let mut chunks = Chunks::default();
        for (hour, rows) in self.head.first(usize::MAX, u32::MAX) {
            add_hour(&mut chunks, self.state.rolled.tier_at(u64::from(hour) * 3_600), hour, rows);
        }
        let mut batch = self.posts.batch.clone();
        let damaged = chunks.write(&self.engine, &self.catalogue, &mut batch)?;
        for key in &self.posts.keys {
            batch.remove(Table::Log, key.clone());
        }
        for (instance, (seq, minute)) in &self.posts.last {
            let mut value = seq.to_be_bytes().to_vec();
            value.extend_from_slice(&minute.to_be_bytes());
            batch.put(Table::Seen, seen_key(*instance), value);
        }
        self.forget_instances(&mut batch)?;
        self.commit(batch)?;
        self.damaged += damaged;
        self.head = super::Head::default();
        self.posts.begin_after(self.catalogue.next());
        self.posts.folded_minute = Some(now_minute);
        Ok(())
    }

    /// Removes those that were silent longest, if there are too many.
    fn forget_instances(&self, batch: &mut Batch) -> Result<()> {
        let mut silent: Vec<(u32, Vec<u8>)> = Vec::new();
        let (from, to) = table_range();
        self.engine.scan(Table::Seen, &from..&to, &mut |key, value| {
            let minute =
                value.get(8..12).and_then(|minute| minute.try_into().ok()).map_or(0, u32::from_be_bytes);
            let flushed =
                <[u8; 16]>::try_from(key).is_ok_and(|id| self.posts.last.contains_key(&Instance(id)));
            if !flushed {
                silent.push((minute, key.to_vec()));
            }
            ControlFlow::Continue(())
        })?;
        let most = INSTANCES_MAX.saturating_sub(self.posts.last.len());
        silent.sort_unstable();
        let forgotten = silent.len().saturating_sub(most);
        for (_, key) in silent.into_iter().take(forgotten) {
            batch.remove(Table::Seen, key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
