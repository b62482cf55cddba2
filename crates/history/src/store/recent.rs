//! Where in the catalogue the labels of the last flushes are.
//!
//! A process gives its labels in the same allocations again and again. To find one
//! by its address takes a fraction of what its text takes, and ten thousand of them
//! come every 15 seconds.
//!
//! Invariants: a label in here is kept alive, so that no other gets its address; the
//! catalogue forgets all of this when it forgets a label.

use std::sync::Arc;

use crate::Map;
use crate::label::Label;

/// Labels that are remembered; all are forgotten when there are more. Twice what a
/// process may have at once.
const LABELS_MAX: usize = 40_000;

/// Where the texts of a label are, and of which kind it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Address {
    name: usize,
    rule: usize,
}

impl Address {
    fn of(label: &Label) -> Option<Self> {
        let at = |text: &Arc<str>| text.as_ptr().addr();
        match label {
            Label::Requests | Label::Decisions => None,
            Label::Route(name) => Some(Self { name: at(name), rule: 0 }),
            Label::Rule(name) => Some(Self { name: at(name), rule: 1 }),
            Label::Key { rule, name } => Some(Self { name: at(name), rule: at(rule) }),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Recent {
    places: Map<Address, u32>,
    kept: Vec<Label>,
}

impl Recent {
    pub(super) fn get(&self, label: &Label) -> Option<u32> {
        self.places.get(&Address::of(label)?).copied()
    }

    pub(super) fn insert(&mut self, label: &Label, place: u32) {
        if self.kept.len() >= LABELS_MAX {
            self.clear();
        }
        if let Some(address) = Address::of(label) {
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
            Label::Rule(text.clone()),
            Label::Key { rule: text.clone(), name: text.clone() },
            Label::Key { rule: other, name: text },
        ];
        let mut recent = Recent::default();
        for (place, label) in (0..).zip(&labels) {
            recent.insert(label, place);
        }
        for (place, label) in (0..).zip(&labels) {
            assert_eq!(recent.get(label), Some(place));
        }
        assert_eq!(recent.get(&Label::Route("a".into())), None);
        recent.clear();
        assert_eq!(recent.get(&labels[0]), None);
    }

    #[test]
    fn it_is_bounded() {
        let mut recent = Recent::default();
        for _ in 0..LABELS_MAX + 5 {
            recent.insert(&Label::Route("".into()), 1);
        }
        assert!(recent.kept.len() <= LABELS_MAX && recent.places.len() <= LABELS_MAX);
    }
}
