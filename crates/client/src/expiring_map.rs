//! A map whose entries end by themselves, and which never has more than so many.
//!
//! Denials are kept in one, and what hosts said in another.
//!
//! Invariants: an entry is not found from its end on; when there is no room, the entry that would end
//! first goes. `now` is an argument.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use tokio::time::Instant;

/// Entries by key, each until its end.
#[derive(Debug)]
pub(crate) struct ExpiringMap<K, V> {
    capacity: usize,
    entries: HashMap<K, ExpiringEntry<V>>,
    /// The keys by their end; the number tells apart what ends at the same instant.
    ends: BTreeMap<(Instant, u64), K>,
    inserted: u64,
}

#[derive(Debug)]
struct ExpiringEntry<V> {
    end: (Instant, u64),
    value: V,
}

impl<K: Hash + Eq + Clone, V> ExpiringMap<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, entries: HashMap::new(), ends: BTreeMap::new(), inserted: 0 }
    }

    /// The entry of a key that has not ended, and its end.
    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q, now: Instant) -> Option<(Instant, &V)>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.get(key)?;
        (entry.end.0 > now).then_some((entry.end.0, &entry.value))
    }

    /// Puts an entry in, in place of the one that its key may have.
    pub(crate) fn insert(&mut self, key: K, value: V, until: Instant, now: Instant) {
        self.remove(&key);
        self.drop_ended(now);
        if until <= now || self.capacity == 0 {
            return;
        }
        if self.entries.len() >= self.capacity
            && let Some((_, first)) = self.ends.pop_first()
        {
            self.entries.remove(&first);
        }
        self.inserted += 1;
        let end = (until, self.inserted);
        self.ends.insert(end, key.clone());
        self.entries.insert(key, ExpiringEntry { end, value });
    }

    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.remove(key)?;
        self.ends.remove(&entry.end);
        Some(entry.value)
    }

    /// Keeps only the entries whose key is wanted.
    pub(crate) fn retain(&mut self, mut is_wanted: impl FnMut(&K) -> bool) {
        self.entries.retain(|key, _| is_wanted(key));
        let entries = &self.entries;
        self.ends.retain(|_, key| entries.contains_key(key));
    }

    fn drop_ended(&mut self, now: Instant) {
        while let Some(first) = self.ends.first_entry()
            && first.key().0 <= now
        {
            self.entries.remove(&first.remove());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain list of all that was ever put in.
        #[test]
        fn it_holds_what_has_not_ended_and_no_more_than_its_capacity(
            steps in prop::collection::vec((0_u8..6, 0_u64..20, 0_u64..4), 1..80),
        ) {
            let start = Instant::now();
            let mut map = ExpiringMap::new(3);
            let mut list: Vec<(u8, Instant, usize)> = Vec::new();
            let mut now = start;
            for (number, (key, lasts_s, passes_s)) in steps.into_iter().enumerate() {
                now += Duration::from_secs(passes_s);
                let until = now + Duration::from_secs(lasts_s);
                map.insert(key, number, until, now);
                list.retain(|(own, end, _)| *own != key && *end > now);
                if until > now {
                    if list.len() == 3 {
                        let first = list.iter().map(|(_, end, number)| (*end, *number)).min().unwrap();
                        list.retain(|(_, end, number)| (*end, *number) != first);
                    }
                    list.push((key, until, number));
                }
                prop_assert_eq!(map.entries.len(), list.len());
                prop_assert_eq!(map.ends.len(), list.len());
                for (key, end, number) in &list {
                    prop_assert_eq!(map.get(key, now), Some((*end, number)));
                    prop_assert_eq!(map.get(key, *end), None);
                }
            }
            map.retain(|key| key % 2 == 0);
            let even = list.iter().filter(|(key, ..)| key % 2 == 0).count();
            prop_assert_eq!((map.entries.len(), map.ends.len()), (even, even));
        }
    }
}
