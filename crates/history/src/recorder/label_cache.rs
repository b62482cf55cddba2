//! The labels of the last flushes, to be reused.
//!
//! A flush has mostly the names of the flush before. Reusing their allocations saves
//! making them, and lets the store find a label by its address.
//!
//! Invariant: only labels that got a series are kept, and they are bounded.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::flush::TrafficCounts;
use crate::label::{Label, SeriesKind};

/// Labels in the cache, which is cleared when it is full: twice what a recorder tracks.
const LABELS_MAX: usize = 40_000;

#[derive(Debug, Default)]
pub(super) struct LabelCache {
    table: HashTable<Label>,
    hasher: foldhash::fast::RandomState,
}

impl LabelCache {
    pub(super) fn route(&self, name: &str) -> Label {
        self.find(SeriesKind::Route, "", name).cloned().unwrap_or_else(|| Label::Route(name.into()))
    }

    pub(super) fn rule(&self, name: &str) -> Label {
        self.find(SeriesKind::Rule, "", name).cloned().unwrap_or_else(|| Label::Rule(name.into()))
    }

    pub(super) fn key(&self, rule: &str, name: &str) -> Label {
        self.find(SeriesKind::Key, rule, name)
            .cloned()
            .unwrap_or_else(|| Label::Key { rule: self.rule_text(rule), name: name.into() })
    }

    /// The keys of a rule share its text.
    fn rule_text(&self, rule: &str) -> Arc<str> {
        match self.find(SeriesKind::Rule, "", rule) {
            Some(Label::Rule(text)) => text.clone(),
            _ => rule.into(),
        }
    }

    /// Keeps the labels of a flush, once it is known which have a series.
    pub(super) fn keep(&mut self, counts: &TrafficCounts) {
        for label in counts.minutes.values().flat_map(|counts| counts.keys()) {
            let Some(kind) = label.kind() else { continue };
            if self.find(kind, label.rule(), label.name()).is_some() {
                continue;
            }
            if self.table.len() >= LABELS_MAX {
                self.table.clear();
            }
            let hasher = &self.hasher;
            let rehash = |kept: &Label| hash(hasher, kept.kind(), kept.rule(), kept.name());
            self.table.insert_unique(rehash(label), label.clone(), rehash);
        }
    }

    fn find(&self, kind: SeriesKind, rule: &str, name: &str) -> Option<&Label> {
        let is_same = |kept: &Label| kept.kind() == Some(kind) && kept.name() == name && kept.rule() == rule;
        self.table.find(hash(&self.hasher, Some(kind), rule, name), is_same)
    }
}

fn hash(hasher: &foldhash::fast::RandomState, kind: Option<SeriesKind>, rule: &str, name: &str) -> u64 {
    hasher.hash_one((kind, rule, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::Outcome;

    fn text(label: &Label) -> *const u8 {
        label.name().as_ptr()
    }

    #[test]
    fn what_was_flushed_is_given_again_and_nothing_else() {
        let mut cache = LabelCache::default();
        let labels = [cache.route("a"), cache.rule("a"), cache.key("a", "a")];
        let mut counts = TrafficCounts::default();
        for label in &labels {
            counts.add(1, label.clone(), Outcome::Allowed, 1);
        }
        cache.keep(&counts);
        let again = [cache.route("a"), cache.rule("a"), cache.key("a", "a")];
        assert_eq!(again, labels);
        assert_eq!(again.each_ref().map(text), labels.each_ref().map(text));
        assert_ne!(text(&cache.route("b")), text(&cache.route("b")));
        let Label::Key { rule, .. } = cache.key("a", "new") else { panic!("a key") };
        assert_eq!(rule.as_ptr(), text(&labels[1]));
    }

    #[test]
    fn it_is_bounded() {
        let mut cache = LabelCache::default();
        for start in 0..3 {
            let mut counts = TrafficCounts::default();
            for n in 0..LABELS_MAX - 9 {
                counts.add(1, Label::Route(format!("{start}/{n}").into()), Outcome::Allowed, 1);
            }
            cache.keep(&counts);
            assert!(cache.table.len() <= LABELS_MAX);
        }
    }
}
