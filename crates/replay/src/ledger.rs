//! What was decided, by rule, key and route.
//!
//! Invariants: a key belongs to its rule and is never summed over rules. At most [`KEYS_MAX`] keys and
//! [`ROUTES_MAX`] routes are told apart; whatever comes beyond counts in its rule, and the report says
//! so.

use hashbrown::HashTable;
use tollgate_core::{RuleId, Verdict};

use crate::name::HashedName;
use crate::report::RouteRow;

/// About 100 bytes each: 100 MB at most.
pub(crate) const KEYS_MAX: usize = 1 << 20;
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

/// A key of a rule, or a route, with what is known about it.
#[derive(Debug)]
pub(crate) struct Named<T> {
    hash: u64,
    /// Which rule; all routes have the same.
    pub(crate) rule: usize,
    pub(crate) name: Box<str>,
    pub(crate) value: T,
}

/// Tallies by name.
pub(crate) type TallyTable = NameTable<Tally>;

/// Values by name, up to a number of them.
#[derive(Debug)]
pub(crate) struct NameTable<T> {
    table: HashTable<Named<T>>,
    max: usize,
    pub(crate) is_full: bool,
}

impl<T: Default> NameTable<T> {
    pub(crate) fn new(max: usize) -> Self {
        Self { table: HashTable::new(), max, is_full: false }
    }

    /// The value of a name; none if there are too many names.
    pub(crate) fn entry(&mut self, rule: usize, name: HashedName<'_>) -> Option<&mut T> {
        let hash = of_rule(name.hash, rule);
        let is_it = |known: &Named<T>| known.hash == hash && known.rule == rule && *known.name == *name.text;
        let absent = match self.table.find_entry(hash, is_it) {
            Ok(known) => return Some(&mut known.into_mut().value),
            Err(absent) => absent,
        };
        let table = absent.into_table();
        if table.len() >= self.max {
            self.is_full = true;
            return None;
        }
        let new = Named { hash, rule, name: name.text.into(), value: T::default() };
        Some(&mut table.insert_unique(hash, new, |known| known.hash).into_mut().value)
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Named<T>> {
        self.table.iter()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        u64::try_from(self.table.len()).unwrap_or(u64::MAX)
    }
}

/// The hash of a name under a rule: the rules of one key are spread over the table.
fn of_rule(hash: u64, rule: usize) -> u64 {
    let rule = u64::try_from(rule).unwrap_or(u64::MAX);
    hash ^ rule.wrapping_mul(0x9e37_79b9_7f4a_7c15)
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
    pub(crate) fn count(&mut self, rule: RuleId, key: HashedName<'_>, verdict: Verdict) {
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

/// The rows with the most denied, then the most requests.
pub(crate) fn worst(table: &TallyTable, most: usize) -> Vec<&Named<Tally>> {
    let mut all: Vec<&Named<Tally>> = table.iter().collect();
    let order = |a: &&Named<Tally>, b: &&Named<Tally>| {
        let (one, other) = (a.value, b.value);
        (other.denied, other.requests).cmp(&(one.denied, one.requests)).then_with(|| a.name.cmp(&b.name))
    };
    if all.len() > most && most > 0 {
        all.select_nth_unstable_by(most - 1, order);
        all.truncate(most);
    }
    all.sort_by(order);
    all.truncate(most);
    all
}

/// The routes with the most denied.
pub(crate) fn route_rows(routes: &TallyTable, most: usize) -> Vec<RouteRow> {
    let row = |route: &Named<Tally>| {
        let Tally { requests, denied, delayed } = route.value;
        RouteRow { route: route.name.to_string(), requests, denied, delayed }
    };
    worst(routes, most).into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameHasher;

    #[test]
    fn names_beyond_the_bound_are_left_out_and_known_ones_go_on() {
        let (mut table, hasher) = (TallyTable::new(2), NameHasher::default());
        for name in ["a", "b", "c", "a"] {
            if let Some(tally) = table.entry(0, hasher.name(name)) {
                tally.count(Verdict::Allow);
            }
        }
        let mut known: Vec<_> = table.iter().map(|known| (&*known.name, known.value.requests)).collect();
        known.sort_unstable();
        assert_eq!((known, table.is_full), (vec![("a", 2), ("b", 1)], true));
    }

    #[test]
    fn one_name_under_two_rules_is_two_keys() {
        let (mut table, name) = (TallyTable::new(10), NameHasher::default().name("a"));
        table.entry(0, name).unwrap().count(Verdict::Allow);
        table.entry(1, name).unwrap().count(Verdict::Deny { retry_after: None });
        assert_eq!(table.iter().count(), 2);
        assert_eq!(table.entry(0, name).unwrap().denied, 0);
    }
}
