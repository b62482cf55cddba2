//! Which label has which number, and which labels to forget.
//!
//! The store asks it for numbers when a flush comes, queries ask it for labels.
//!
//! Invariants: never more labels than the bound. A number is never used twice, so
//! that rows of a forgotten label mean nobody; they go when their block is next
//! rolled up. Totals do not change when a label is forgotten.

use std::ops::ControlFlow;

use super::keys::table_range;
use super::recent::Recent;
use crate::Map;
use crate::codec::bytes::{Reader, index, put_varint};
use crate::engine::{Batch, Engine, Table};
use crate::error::Result;
use crate::label::{By, Label, Sid};
use crate::least::Least;

/// How coarsely it is written when a label was last seen, in minutes: once a day
/// is enough to know whom to forget after a restart, and finer would write every
/// label with every flush.
const SEEN_STEP_MIN: u32 = 24 * 60;

#[derive(Debug, Clone, Copy)]
struct Entry {
    sid: Sid,
    /// The minute in which it was last seen, counted from the epoch.
    seen_minute: u32,
}

/// Which label has which number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalogue {
    /// Where the entry of a label is.
    places: Map<Label, u32>,
    entries: Vec<Entry>,
    /// Places that are free again.
    free: Vec<u32>,
    recent: Recent,
    labels: Map<Sid, Label>,
    /// The one seen least recently first.
    order: Least<u32, Sid>,
    next: u32,
    most: usize,
}

impl Catalogue {
    pub(super) fn load(engine: &impl Engine, most: usize) -> Result<Self> {
        let mut catalogue = Self { most, next: Sid::FIRST.0, ..Self::default() };
        let mut failed = None;
        let (from, to) = table_range();
        engine.scan(Table::Series, &from..&to, &mut |key, value| match catalogue.read(key, value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
        failed.map_or(Ok(catalogue), Err)
    }

    fn read(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut reader = Reader::new(value);
        let sid = Sid(reader.varint_u32()?);
        self.next = self.next.max(sid.0.saturating_add(1));
        // The row of an empty label only keeps the highest number.
        if !key.is_empty() {
            let seen_minute = reader.varint_u32()?;
            self.insert(Label::decode(key)?, Entry { sid, seen_minute });
        }
        Ok(())
    }

    fn insert(&mut self, label: Label, entry: Entry) {
        self.order.insert(entry.seen_minute, entry.sid);
        self.labels.insert(entry.sid, label.clone());
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(kept) = entry_at(&mut self.entries, place) {
            *kept = entry;
        }
        self.places.insert(label, place);
    }

    /// The number of a label that was counted in that minute; none if it has none.
    pub(super) fn known(&mut self, label: &Label, minute: u32, batch: &mut Batch) -> Option<Sid> {
        let place = self.recent.get(label).or_else(|| {
            let place = *self.places.get(label)?;
            self.recent.insert(label, place);
            Some(place)
        })?;
        let entry = entry_at(&mut self.entries, place)?;
        if minute > entry.seen_minute {
            let is_new_step = minute / SEEN_STEP_MIN > entry.seen_minute / SEEN_STEP_MIN;
            entry.seen_minute = minute;
            if is_new_step {
                put(batch, label, *entry);
            }
        }
        Some(entry.sid)
    }

    /// Gives a number to a label that has none; none if no numbers are left.
    pub(super) fn number(&mut self, label: &Label, minute: u32, batch: &mut Batch) -> Option<Sid> {
        if self.next >= Sid::END || self.most == 0 {
            return None;
        }
        while self.places.len() >= self.most {
            self.forget_one(batch)?;
        }
        let entry = Entry { sid: Sid(self.next), seen_minute: minute };
        self.next += 1;
        put(batch, label, entry);
        self.insert(label.clone(), entry);
        Some(entry.sid)
    }

    fn forget_one(&mut self, batch: &mut Batch) -> Option<()> {
        let Self { places, entries, labels, order, .. } = self;
        let entry = |sid: &Sid| entries.get(index(u64::from(*places.get(labels.get(sid)?)?)));
        let (_, sid) = order.take(|sid| entry(sid).map(|entry| entry.seen_minute), |_| true)?;
        let label = labels.remove(&sid)?;
        self.free.extend(places.remove(&label));
        self.recent.clear();
        let key = label.encode();
        // A label that came with this very batch is not there to be removed.
        batch.puts.retain(|(table, put, _)| *table != Table::Series || *put != key);
        batch.remove(Table::Series, key);
        let mut value = Vec::new();
        put_varint(&mut value, u64::from(self.next));
        batch.put(Table::Series, Vec::new(), value);
        Some(())
    }

    /// The label of a number; none if it was forgotten.
    pub(crate) fn label(&self, sid: Sid) -> Option<&Label> {
        match sid {
            Sid::REQUESTS => Some(&Label::Requests),
            Sid::RULINGS => Some(&Label::Decisions),
            named => self.labels.get(&named),
        }
    }

    /// The number that the next new label gets.
    pub(super) const fn next(&self) -> Sid {
        Sid(self.next)
    }

    /// The numbers of a kind whose names satisfy `is_meant`.
    pub(crate) fn find(&self, by: By, is_meant: impl Fn(&str) -> bool) -> Vec<Sid> {
        let of_kind = self.labels.iter().filter(|(_, label)| label.by() == Some(by));
        let mut sids: Vec<Sid> =
            of_kind.filter(|(_, label)| is_meant(label.name())).map(|(sid, _)| *sid).collect();
        sids.sort_unstable();
        sids
    }

    /// The number of exactly this label.
    pub(crate) fn get(&self, label: &Label) -> Option<Sid> {
        self.entries.get(index(u64::from(*self.places.get(label)?))).map(|entry| entry.sid)
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = &Label> {
        self.labels.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}

fn entry_at(entries: &mut [Entry], place: u32) -> Option<&mut Entry> {
    entries.get_mut(index(u64::from(place)))
}

fn put(batch: &mut Batch, label: &Label, entry: Entry) {
    let mut value = Vec::new();
    put_varint(&mut value, u64::from(entry.sid.0));
    put_varint(&mut value, u64::from(entry.seen_minute));
    batch.put(Table::Series, label.encode(), value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Memory;

    fn route(name: &str) -> Label {
        Label::Route(name.into())
    }

    #[test]
    fn the_label_seen_least_recently_is_forgotten_and_its_number_never_used_again() {
        let mut engine = Memory::default();
        let mut catalogue = Catalogue::load(&engine, 2).unwrap();
        let mut numbers = Vec::new();
        for (name, minute) in [("a", 0), ("b", 60), ("a", 120), ("c", 180), ("d", 180)] {
            let mut batch = Batch::default();
            let known = catalogue.known(&route(name), minute, &mut batch);
            let sid = known.or_else(|| catalogue.number(&route(name), minute, &mut batch));
            numbers.push(sid.unwrap().0);
            engine.commit(&batch).unwrap();
            assert!(catalogue.len() <= 2);
        }
        assert_eq!(numbers, [2, 3, 2, 4, 5]);
        let again = Catalogue::load(&engine, 2).unwrap();
        assert_eq!((again.len(), again.next), (2, 6));
        assert_eq!(again.get(&route("b")), None);
        assert_eq!(again.get(&route("d")), Some(Sid(5)));
    }

    #[test]
    fn more_labels_than_the_bound_in_one_batch_leave_the_bound() {
        let mut engine = Memory::default();
        let mut catalogue = Catalogue::load(&engine, 3).unwrap();
        let mut batch = Batch::default();
        for n in 0..10 {
            catalogue.number(&route(&n.to_string()), 0, &mut batch);
        }
        engine.commit(&batch).unwrap();
        let again = Catalogue::load(&engine, 3).unwrap();
        assert_eq!((catalogue.len(), again.len(), again.next), (3, 3, 12));
    }
}
