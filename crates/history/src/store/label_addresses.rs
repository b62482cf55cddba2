//! Finds labels of the last flushes by their address.
//!
//! A recorder gives the same allocations for the same labels again and again.
//! Hashing an address takes a fraction of hashing the text, and ten thousand labels
//! come every 15 seconds.
//!
//! Invariants: a label in here is kept alive, so no other gets its address; the
//! series index clears all of this when it forgets a label.

use std::sync::Arc;

use crate::Map;
use crate::label::Label;

/// Labels in the cache, which is cleared when it is full: twice what a recorder tracks.
const LABELS_MAX: usize = 40_000;

/// Where the texts of a label are. No text is at 0, which stands for those that a kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct LabelAddress {
    name: usize,
    rule: usize,
    domain: usize,
}

impl LabelAddress {
    fn of(label: &Label) -> Option<Self> {
        let at = |text: &Arc<str>| text.as_ptr().addr();
        match label {
            Label::Requests | Label::Decisions => None,
            Label::Route(name) => Some(Self { name: at(name), rule: 0, domain: 0 }),
            Label::Rule { domain, name } => Some(Self { name: at(name), rule: 0, domain: at(domain) }),
            Label::Key { domain, rule, name } => {
                Some(Self { name: at(name), rule: at(rule), domain: at(domain) })
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct LabelAddresses {
    places: Map<LabelAddress, u32>,
    kept: Vec<Label>,
}

impl LabelAddresses {
    pub(super) fn get(&self, label: &Label) -> Option<u32> {
        self.places.get(&LabelAddress::of(label)?).copied()
    }

    pub(super) fn insert(&mut self, label: &Label, place: u32) {
        if self.kept.len() >= LABELS_MAX {
            self.clear();
        }
        if let Some(address) = LabelAddress::of(label) {
            self.places.insert(address, place);
            self.kept.push(label.clone());
        }
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_one_text_are_told_apart_by_their_kind() {
        let text: Arc<str> = "a".into();
        let other: Arc<str> = "a".into();
        let labels = [
            Label::Route(text.clone()),
            Label::Rule { domain: text.clone(), name: text.clone() },
            Label::Rule { domain: other.clone(), name: text.clone() },
            Label::Key { domain: text.clone(), rule: text.clone(), name: text.clone() },
            Label::Key { domain: text.clone(), rule: other.clone(), name: text.clone() },
            Label::Key { domain: other, rule: text.clone(), name: text },
        ];
        let mut cache = LabelAddresses::default();
        for (place, label) in (0..).zip(&labels) {
            cache.insert(label, place);
        }
        for (place, label) in (0..).zip(&labels) {
            assert_eq!(cache.get(label), Some(place));
        }
        assert_eq!(cache.get(&Label::Route("a".into())), None);
        cache.clear();
        assert_eq!(cache.get(&labels[0]), None);
    }

    #[test]
    fn it_is_bounded() {
        let mut cache = LabelAddresses::default();
        for _ in 0..LABELS_MAX + 5 {
            cache.insert(&Label::Route("".into()), 1);
        }
        assert!(cache.kept.len() <= LABELS_MAX && cache.places.len() <= LABELS_MAX);
    }
}
