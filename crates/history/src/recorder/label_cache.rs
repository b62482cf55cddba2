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
        self.find(SeriesKind::Route, ["", "", name]).cloned().unwrap_or_else(|| Label::Route(name.into()))
    }

    pub(super) fn rule(&self, domain: &str, name: &str) -> Label {
        self.find(SeriesKind::Rule, [domain, "", name])
            .cloned()
            .unwrap_or_else(|| Label::Rule { domain: domain.into(), name: name.into() })
    }

    pub(super) fn key(&self, domain: &str, rule: &str, name: &str) -> Label {
        self.find(SeriesKind::Key, [domain, rule, name]).cloned().unwrap_or_else(|| {
            let (domain, rule) = self.rule_texts(domain, rule);
            Label::Key { domain, rule, name: name.into() }
        })
    }

    /// The keys of a rule share its texts.
    fn rule_texts(&self, domain: &str, rule: &str) -> (Arc<str>, Arc<str>) {
        match self.find(SeriesKind::Rule, [domain, "", rule]) {
            Some(Label::Rule { domain, name }) => (domain.clone(), name.clone()),
            _ => (domain.into(), rule.into()),
        }
    }

    /// Keeps the labels of a flush, once it is known which have a series.
    pub(super) fn keep(&mut self, counts: &TrafficCounts) {
        for label in counts.minutes.values().flat_map(|counts| counts.keys()) {
            let Some(kind) = label.kind() else { continue };
            if self.find(kind, texts(label)).is_some() {
                continue;
            }
            if self.table.len() >= LABELS_MAX {
                self.table.clear();
            }
            let hasher = &self.hasher;
            let rehash = |kept: &Label| hasher.hash_one((kept.kind(), texts(kept)));
            self.table.insert_unique(rehash(label), label.clone(), rehash);
        }
    }

    fn find(&self, kind: SeriesKind, wanted: [&str; 3]) -> Option<&Label> {
        let is_same = |kept: &Label| kept.kind() == Some(kind) && texts(kept) == wanted;
        self.table.find(self.hasher.hash_one((Some(kind), wanted)), is_same)
    }
}

fn texts(label: &Label) -> [&str; 3] {
    [label.domain(), label.rule(), label.name()]
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
        let labels = [cache.route("a"), cache.rule("d", "a"), cache.key("d", "a", "a")];
        let mut counts = TrafficCounts::default();
        for label in &labels {
            counts.add(1, label.clone(), Outcome::Allowed, 1);
        }
        cache.keep(&counts);
        let again = [cache.route("a"), cache.rule("d", "a"), cache.key("d", "a", "a")];
        assert_eq!(again, labels);
        assert_eq!(again.each_ref().map(text), labels.each_ref().map(text));
        assert_ne!(text(&cache.route("b")), text(&cache.route("b")));
        let Label::Key { rule, .. } = cache.key("d", "a", "new") else { panic!("a key") };
        assert_eq!(rule.as_ptr(), text(&labels[1]));
        assert_eq!(cache.key("e", "a", "a").domain(), "e");
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
