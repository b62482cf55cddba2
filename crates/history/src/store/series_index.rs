//! Labels and their numbers, and which labels to forget.
//!
//! Appending a flush looks numbers up by label, queries look labels up by number.
//!
//! Invariants: never more labels than the bound. A number is never used twice, so
//! rows of a forgotten label belong to nobody; they are dropped when their block is
//! next rolled up. Totals do not change when a label is forgotten.

use std::ops::ControlFlow;

use super::label_addresses::LabelAddresses;
use crate::Map;
use crate::bytes::{ByteReader, checked_row, index, put_row_checksum, put_varint};
use crate::error::{Error, Result};
use crate::label::Label;
use crate::lazy_heap::LazyHeap;
use crate::row_id::SeriesId;
use crate::tables::{TableId, Tables, WriteBatch};

/// How often the time a label was last seen is written, in minutes. Once a day is
/// enough to know which to forget after a restart; more often would write every
/// label with every flush.
const SEEN_STEP_MIN: u32 = 24 * 60;

/// Numbers that are not used after labels were lost: more than there are labels.
const NUMBERS_SKIPPED: u32 = 1 << 20;

#[derive(Debug, Clone, Copy)]
struct IndexEntry {
    id: SeriesId,
    /// The minute since the epoch in which it was last seen.
    seen_minute: u32,
}

/// Labels and their numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeriesIndex {
    /// The place of a label's entry in `entries`.
    places: Map<Label, u32>,
    entries: Vec<IndexEntry>,
    /// Places in `entries` that are free.
    free: Vec<u32>,
    addresses: LabelAddresses,
    labels: Map<SeriesId, Label>,
    /// The least recently seen first.
    order: LazyHeap<u32, SeriesId>,
    next: u32,
    most: usize,
}

impl SeriesIndex {
    /// The index, and how many labels of it cannot be read.
    pub(super) fn load(tables: &impl Tables, most: usize) -> Result<(Self, u64)> {
        let mut loaded = Self { most, next: SeriesId::FIRST.0, ..Self::default() };
        let mut damaged = 0;
        tables.scan_all(TableId::Series, &mut |key, value| {
            match loaded.read(key, value) {
                Err(Error::Corrupt { .. }) => damaged += 1,
                read => read?,
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if damaged > 0 {
            // One of them may have had a higher number, which must not be used again.
            loaded.next = loaded.next.saturating_add(NUMBERS_SKIPPED).min(SeriesId::END);
        }
        Ok((loaded, damaged))
    }

    fn read(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut reader = ByteReader::new(checked_row(key, value)?);
        let id = SeriesId(reader.varint_u32()?);
        self.next = self.next.max(id.0.saturating_add(1));
        // The empty key only holds the highest number that was given.
        if !key.is_empty() {
            let seen_minute = reader.varint_u32()?;
            self.insert(Label::decode(key)?, IndexEntry { id, seen_minute });
        }
        Ok(())
    }

    fn insert(&mut self, label: Label, entry: IndexEntry) {
        self.order.insert(entry.seen_minute, entry.id);
        self.labels.insert(entry.id, label.clone());
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
    pub(super) fn see(&mut self, label: &Label, minute: u32, batch: &mut WriteBatch) -> Option<SeriesId> {
        let place = self.addresses.get(label).or_else(|| {
            let place = *self.places.get(label)?;
            self.addresses.insert(label, place);
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
        Some(entry.id)
    }

    /// Gives a number to a label that has none; none if no numbers are left.
    pub(super) fn add(&mut self, label: &Label, minute: u32, batch: &mut WriteBatch) -> Option<SeriesId> {
        if self.next >= SeriesId::END || self.most == 0 {
            return None;
        }
        while self.places.len() >= self.most {
            self.forget_one(batch)?;
        }
        let entry = IndexEntry { id: SeriesId(self.next), seen_minute: minute };
        self.next += 1;
        put(batch, label, entry);
        self.insert(label.clone(), entry);
        Some(entry.id)
    }

    fn forget_one(&mut self, batch: &mut WriteBatch) -> Option<()> {
        let Self { places, entries, labels, order, .. } = self;
        let entry = |id: &SeriesId| entries.get(index(u64::from(*places.get(labels.get(id)?)?)));
        let (_, id) = order.take(|id| entry(id).map(|entry| entry.seen_minute), |_| true)?;
        self.forget(id, batch)
    }

    /// Forgets a label, if there is one of that number.
    pub(super) fn forget(&mut self, id: SeriesId, batch: &mut WriteBatch) -> Option<()> {
        let label = self.labels.remove(&id)?;
        self.free.extend(self.places.remove(&label));
        self.addresses.clear();
        let key = label.encode();
        // A label that is added by this very batch is not in the table yet.
        batch.puts.retain(|(table, put, _)| *table != TableId::Series || *put != key);
        batch.remove(TableId::Series, key);
        let mut value = Vec::new();
        put_varint(&mut value, u64::from(self.next));
        put_row_checksum(&[], &mut value);
        batch.put(TableId::Series, Vec::new(), value);
        Some(())
    }

    /// The label of a number; none if it was forgotten.
    pub(crate) fn label(&self, id: SeriesId) -> Option<&Label> {
        match id {
            SeriesId::REQUESTS => Some(&Label::Requests),
            SeriesId::DECISIONS => Some(&Label::Decisions),
            named => self.labels.get(&named),
        }
    }

    /// The number that the next new label gets.
    pub(super) const fn next(&self) -> SeriesId {
        SeriesId(self.next)
    }

    /// The number of a label.
    pub(crate) fn get(&self, label: &Label) -> Option<SeriesId> {
        self.entries.get(index(u64::from(*self.places.get(label)?))).map(|entry| entry.id)
    }

    /// All named series.
    pub(crate) fn named(&self) -> impl Iterator<Item = (SeriesId, &Label)> {
        self.labels.iter().map(|(id, label)| (*id, label))
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}

fn entry_at(entries: &mut [IndexEntry], place: u32) -> Option<&mut IndexEntry> {
    entries.get_mut(index(u64::from(place)))
}

fn put(batch: &mut WriteBatch, label: &Label, entry: IndexEntry) {
    let mut value = Vec::new();
    put_varint(&mut value, u64::from(entry.id.0));
    put_varint(&mut value, u64::from(entry.seen_minute));
    let key = label.encode();
    put_row_checksum(&key, &mut value);
    batch.put(TableId::Series, key, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::MemoryTables;

    fn route(name: &str) -> Label {
        Label::Route(name.into())
    }

    #[test]
    fn the_label_seen_least_recently_is_forgotten_and_its_number_never_used_again() {
        let mut tables = MemoryTables::default();
        let mut index = SeriesIndex::load(&tables, 2).unwrap().0;
        let mut numbers = Vec::new();
        for (name, minute) in [("a", 0), ("b", 60), ("a", 120), ("c", 180), ("d", 180)] {
            let mut batch = WriteBatch::default();
            let known = index.see(&route(name), minute, &mut batch);
            let id = known.or_else(|| index.add(&route(name), minute, &mut batch));
            numbers.push(id.unwrap().0);
            tables.commit(&batch).unwrap();
            assert!(index.len() <= 2);
        }
        assert_eq!(numbers, [2, 3, 2, 4, 5]);
        let (again, _) = SeriesIndex::load(&tables, 2).unwrap();
        assert_eq!((again.len(), again.next), (2, 6));
        assert_eq!(again.get(&route("b")), None);
        assert_eq!(again.get(&route("d")), Some(SeriesId(5)));
    }

    #[test]
    fn more_labels_than_the_bound_in_one_batch_leave_the_bound() {
        let mut tables = MemoryTables::default();
        let mut index = SeriesIndex::load(&tables, 3).unwrap().0;
        let mut batch = WriteBatch::default();
        for n in 0..10 {
            index.add(&route(&n.to_string()), 0, &mut batch);
        }
        tables.commit(&batch).unwrap();
        let (again, _) = SeriesIndex::load(&tables, 3).unwrap();
        assert_eq!((index.len(), again.len(), again.next), (3, 3, 12));
    }
}
