//! The labels of the last flushes, to be given again.
//!
//! A flush has mostly the names of the flush before. Giving the same allocations
//! saves making them, and lets the store find a label by its address.
//!
//! Invariant: only labels that have got a series are kept, and they are bounded.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::flush::Tally;
use crate::label::{By, Label};

/// Labels kept, beyond which all are made anew: twice as many as have a series by default.
const LABELS_MAX: usize = 40_000;

#[derive(Debug, Default)]
pub(super) struct Names {
    table: HashTable<Label>,
    hasher: foldhash::fast::RandomState,
}

impl Names {
    pub(super) fn route(&self, name: &str) -> Label {
        self.find(By::Route, "", name).cloned().unwrap_or_else(|| Label::Route(name.into()))
    }

    pub(super) fn rule(&self, name: &str) -> Label {
        self.find(By::Rule, "", name).cloned().unwrap_or_else(|| Label::Rule(name.into()))
    }

    pub(super) fn key(&self, rule: &str, name: &str) -> Label {
        self.find(By::Key, rule, name)
            .cloned()
            .unwrap_or_else(|| Label::Key { rule: self.rule_text(rule), name: name.into() })
    }

    /// The keys of a rule share its text.
    fn rule_text(&self, rule: &str) -> Arc<str> {
        match self.find(By::Rule, "", rule) {
            Some(Label::Rule(text)) => text.clone(),
            _ => rule.into(),
        }
    }

    /// Keeps the labels of a flush, once it is known which have a series.
    pub(super) fn keep(&mut self, tally: &Tally) {
        for label in tally.minutes.values().flat_map(|counts| counts.keys()) {
            let Some(by) = label.by() else { continue };
            if self.find(by, label.rule(), label.name()).is_some() {
                continue;
            }
            if self.table.len() >= LABELS_MAX {
                self.table.clear();
            }
            let hasher = &self.hasher;
            let rehash = |kept: &Label| hash(hasher, kept.by(), kept.rule(), kept.name());
            self.table.insert_unique(rehash(label), label.clone(), rehash);
        }
    }

    fn find(&self, by: By, rule: &str, name: &str) -> Option<&Label> {
        let is_same = |kept: &Label| kept.by() == Some(by) && kept.name() == name && kept.rule() == rule;
        self.table.find(hash(&self.hasher, Some(by), rule, name), is_same)
    }
}

fn hash(hasher: &foldhash::fast::RandomState, by: Option<By>, rule: &str, name: &str) -> u64 {
    hasher.hash_one((by, rule, name))
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
        let mut names = Names::default();
        let labels = [names.route("a"), names.rule("a"), names.key("a", "a")];
        let mut tally = Tally::default();
        for label in &labels {
            tally.add(1, label.clone(), Outcome::Allowed, 1);
        }
        names.keep(&tally);
        let again = [names.route("a"), names.rule("a"), names.key("a", "a")];
        assert_eq!(again, labels);
        assert_eq!(again.each_ref().map(text), labels.each_ref().map(text));
        assert_ne!(text(&names.route("b")), text(&names.route("b")));
        let Label::Key { rule, .. } = names.key("a", "new") else { panic!("a key") };
        assert_eq!(rule.as_ptr(), text(&labels[1]));
    }

    #[test]
    fn it_is_bounded() {
        let mut names = Names::default();
        for start in 0..3 {
            let mut tally = Tally::default();
            for n in 0..LABELS_MAX - 9 {
                tally.add(1, Label::Route(format!("{start}/{n}").into()), Outcome::Allowed, 1);
            }
            names.keep(&tally);
            assert!(names.table.len() <= LABELS_MAX);
        }
    }
}
