//! What was decided, by rule, key and route.
//!
//! Invariants: a key belongs to its rule and is never summed over rules. At most [`KEYS_MAX`] keys and
//! [`ROUTES_MAX`] routes are told apart; whatever comes beyond counts in its rule, and the report says
//! so.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher as _;

use tollgate_core::{RuleId, Verdict};

/// About 100 bytes each: 100 MB at most.
const KEYS_MAX: usize = 1 << 20;
/// Names beyond this are together in one row.
const ROUTES_MAX: usize = 1 << 17;

/// How often something was asked for, denied and delayed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) denied: u64,
    pub(crate) delayed: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, verdict: Verdict) {
        self.requests += 1;
        match verdict {
            Verdict::Allow => {}
            Verdict::Delay { .. } => self.delayed += 1,
            Verdict::Deny { .. } => self.denied += 1,
        }
    }
}

/// A key of a rule, or a route, with its tally.
#[derive(Debug)]
pub(crate) struct NamedTally {
    /// Which rule; all routes have the same.
    pub(crate) rule: usize,
    pub(crate) name: Box<str>,
    pub(crate) tally: Tally,
}

/// Tallies by name, up to a number of them.
#[derive(Debug)]
pub(crate) struct TallyTable {
    table: HashTable<NamedTally>,
    hasher: RandomState,
    max: usize,
    pub(crate) is_full: bool,
}

impl TallyTable {
    fn new(max: usize) -> Self {
        Self { table: HashTable::new(), hasher: RandomState::default(), max, is_full: false }
    }

    /// The tally of a name; none if there are too many names.
    pub(crate) fn entry(&mut self, rule: usize, name: &str) -> Option<&mut Tally> {
        let hash = self.hasher.hash_one((rule, name));
        if self.table.len() >= self.max {
            self.is_full = true;
            let found = self.table.find_mut(hash, |known| known.rule == rule && *known.name == *name);
            return found.map(|known| &mut known.tally);
        }
        let hasher = &self.hasher;
        let rehash = |known: &NamedTally| hasher.hash_one((known.rule, &*known.name));
        let entry = self.table.entry(hash, |known| known.rule == rule && *known.name == *name, rehash);
        let new = || NamedTally { rule, name: name.into(), tally: Tally::default() };
        Some(&mut entry.or_insert_with(new).into_mut().tally)
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &NamedTally> {
        self.table.iter()
    }
}

/// What a rule set decided.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) rules: Vec<Tally>,
    pub(crate) keys: TallyTable,
}

impl Ledger {
    pub(crate) fn new(rules: usize) -> Self {
        Self { rules: vec![Tally::default(); rules], keys: TallyTable::new(KEYS_MAX) }
    }

    /// Counts one decision.
    pub(crate) fn count(&mut self, rule: RuleId, key: &str, verdict: Verdict) {
        if let Some(tally) = self.rules.get_mut(rule.index()) {
            tally.count(verdict);
        }
        if let Some(tally) = self.keys.entry(rule.index(), key) {
            tally.count(verdict);
        }
    }
}

/// A table for routes.
pub(crate) fn routes() -> TallyTable {
    TallyTable::new(ROUTES_MAX)
}

/// A table for keys.
pub(crate) fn keys() -> TallyTable {
    TallyTable::new(KEYS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_bound_are_left_out_and_known_ones_go_on() {
        let mut table = TallyTable::new(2);
        for name in ["a", "b", "c", "a"] {
            if let Some(tally) = table.entry(0, name) {
                tally.count(Verdict::Allow);
            }
        }
        let mut known: Vec<_> = table.iter().map(|known| (&*known.name, known.tally.requests)).collect();
        known.sort_unstable();
        assert_eq!((known, table.is_full), (vec![("a", 2), ("b", 1)], true));
    }

    #[test]
    fn one_name_under_two_rules_is_two_keys() {
        let mut table = TallyTable::new(10);
        table.entry(0, "a").unwrap().count(Verdict::Allow);
        table.entry(1, "a").unwrap().count(Verdict::Deny { retry_after: None });
        assert_eq!(table.iter().count(), 2);
        assert_eq!(table.entry(0, "a").unwrap().denied, 0);
    }
}
