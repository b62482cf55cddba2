//! The counts of one thread since the last flush.
//!
//! [`super::Recorder`] adds here and a flush takes everything. One slot holds
//! the six outcomes of a route, or of a rule and a key; the totals and the rule's
//! own numbers are summed when it is taken, so that counting touches one slot.
//!
//! A name is known by its hash and its lengths, as a key of the limiter is; its
//! text is not read again while it counts. The hash is seeded by chance in each
//! process and has 64 bits: two of the few thousand names of a minute share one
//! once in a hundred thousand years.
//!
//! Invariant: what is added comes out, under its name or under none.

use std::hash::{BuildHasher, Hasher as _};
use std::ops::Range;

use hashbrown::HashTable;

use super::names::Names;
use crate::Map;
use crate::codec::bytes::index;
use crate::counts::Counts;
use crate::flush::Tally;
use crate::label::Label;
use crate::route::cut;
use tollgate_core::Outcome;

/// Names of one thread in one minute between two flushes. What comes after them
/// counts without a name. A name that is asked for more often than one in so
/// many comes early enough nearly always.
const NAMES_MAX: usize = 16_384;

/// Minutes between two flushes; more only if the clock goes back and forth.
const MINUTES_MAX: usize = 8;

/// What to count towards, with its hash.
pub(super) struct Name<'a> {
    hash: u64,
    kind: Kind,
    rule: &'a str,
    name: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request,
    Route,
    Rule,
    Key,
}

impl<'a> Name<'a> {
    #[inline]
    pub(super) fn request(route: Option<&'a str>, hasher: &impl BuildHasher) -> Self {
        match route {
            Some(route) => Self::new(Kind::Route, "", cut(route), hasher),
            None => Self::new(Kind::Request, "", "", hasher),
        }
    }

    #[inline]
    pub(super) fn decision(rule: &'a str, key: Option<&'a str>, hasher: &impl BuildHasher) -> Self {
        match key {
            Some(key) => Self::new(Kind::Key, cut(rule), cut(key), hasher),
            None => Self::new(Kind::Rule, cut(rule), "", hasher),
        }
    }

    #[inline]
    fn new(kind: Kind, rule: &'a str, name: &'a str, hasher: &impl BuildHasher) -> Self {
        let mut hash = hasher.build_hasher();
        if !rule.is_empty() {
            hash.write(rule.as_bytes());
        }
        hash.write(name.as_bytes());
        Self { hash: hash.finish(), kind, rule, name }
    }
}

/// One name; it fills a line of the cache, so that counting fetches one.
#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    counts: Counts,
    /// Where its text begins in the minute's texts: the rule, then the name.
    text: u32,
    rule_bytes: u16,
    name_bytes: u16,
    kind: Kind,
}

/// One minute of one thread.
#[derive(Debug, Default)]
struct Minute {
    minute: u32,
    /// The hash of a name and the place of its slot.
    index: HashTable<(u64, u32)>,
    slots: Vec<Slot>,
    texts: String,
    /// What came when there were too many names.
    nameless_requests: Counts,
    nameless_decisions: Counts,
}

impl Minute {
    #[inline]
    fn add(&mut self, name: &Name<'_>, outcome: Outcome, count: u64) {
        let Self { index: table, slots, .. } = self;
        let is_same = |(hash, at): &(u64, u32)| {
            *hash == name.hash && slots.get(index(u64::from(*at))).is_some_and(|slot| slot.is(name))
        };
        if let Some((_, at)) = table.find(name.hash, is_same) {
            if let Some(slot) = slots.get_mut(index(u64::from(*at))) {
                slot.counts.add(outcome, count);
            }
            return;
        }
        self.add_new(name, outcome, count);
    }

    #[cold]
    fn add_new(&mut self, name: &Name<'_>, outcome: Outcome, count: u64) {
        let place = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let slot = Slot::new(name, self.texts.len());
        let Some(mut slot) = slot.filter(|_| self.slots.len() < NAMES_MAX) else {
            let nameless = match name.kind {
                Kind::Request | Kind::Route => &mut self.nameless_requests,
                Kind::Rule | Kind::Key => &mut self.nameless_decisions,
            };
            return nameless.add(outcome, count);
        };
        slot.counts.add(outcome, count);
        self.texts.push_str(name.rule);
        self.texts.push_str(name.name);
        self.slots.push(slot);
        self.index.insert_unique(name.hash, (name.hash, place), |(hash, _)| *hash);
    }

    fn drain_into(self, tally: &mut Tally, names: &Names) {
        let minute = self.minute;
        let (mut requests, mut decisions) = (self.nameless_requests, self.nameless_decisions);
        let mut rules: Map<&str, Counts> = Map::default();
        for slot in &self.slots {
            let (rule, name) = slot.text(&self.texts);
            match slot.kind {
                Kind::Request => requests.merge(&slot.counts),
                Kind::Route => {
                    requests.merge(&slot.counts);
                    tally.merge(minute, names.route(name), &slot.counts);
                }
                Kind::Rule => rules.entry(rule).or_default().merge(&slot.counts),
                Kind::Key => {
                    rules.entry(rule).or_default().merge(&slot.counts);
                    tally.merge(minute, names.key(rule, name), &slot.counts);
                }
            }
        }
        for (rule, counts) in rules {
            decisions.merge(&counts);
            tally.merge(minute, names.rule(rule), &counts);
        }
        for (label, counts) in [(Label::Requests, requests), (Label::Decisions, decisions)] {
            if counts.total() > 0 {
                tally.merge(minute, label, &counts);
            }
        }
    }
}

impl Slot {
    fn new(name: &Name<'_>, text: usize) -> Option<Self> {
        Some(Self {
            counts: Counts::default(),
            text: u32::try_from(text).ok()?,
            rule_bytes: u16::try_from(name.rule.len()).ok()?,
            name_bytes: u16::try_from(name.name.len()).ok()?,
            kind: name.kind,
        })
    }

    /// Where its rule and its name are among the texts.
    fn ranges(&self) -> (Range<usize>, Range<usize>) {
        let start = index(u64::from(self.text));
        let middle = start + usize::from(self.rule_bytes);
        (start..middle, middle..middle + usize::from(self.name_bytes))
    }

    fn text<'a>(&self, texts: &'a str) -> (&'a str, &'a str) {
        let (rule, name) = self.ranges();
        (texts.get(rule).unwrap_or(""), texts.get(name).unwrap_or(""))
    }

    /// Whether a name with the same hash is this one.
    fn is(&self, name: &Name<'_>) -> bool {
        self.kind == name.kind
            && usize::from(self.rule_bytes) == name.rule.len()
            && usize::from(self.name_bytes) == name.name.len()
    }
}

/// The counts of one thread since the last flush.
#[derive(Debug, Default)]
pub(super) struct Cells {
    /// The minute of the last add is last.
    minutes: Vec<Minute>,
}

impl Cells {
    /// Counts, unless the clock has gone through too many minutes.
    pub(super) fn add(&mut self, minute: u32, name: &Name<'_>, outcome: Outcome, count: u64) -> bool {
        if let Some(last) = self.minutes.last_mut().filter(|last| last.minute == minute) {
            last.add(name, outcome, count);
            return true;
        }
        let Some(other) = self.turn_to(minute) else { return false };
        other.add(name, outcome, count);
        true
    }

    #[cold]
    fn turn_to(&mut self, minute: u32) -> Option<&mut Minute> {
        match self.minutes.iter().position(|known| known.minute == minute) {
            Some(at) => {
                let known = self.minutes.remove(at);
                self.minutes.push(known);
            }
            None if self.minutes.len() < MINUTES_MAX => {
                self.minutes.push(Minute { minute, ..Minute::default() });
            }
            None => return None,
        }
        self.minutes.last_mut()
    }

    pub(super) fn drain_into(self, tally: &mut Tally, names: &Names) {
        for minute in self.minutes {
            minute.drain_into(tally, names);
        }
    }

    /// How many names it holds.
    #[cfg(test)]
    pub(super) fn names(&self) -> usize {
        self.minutes.iter().map(|minute| minute.slots.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::bytes::wide;

    #[test]
    fn more_names_than_there_is_room_for_count_without_a_name() {
        let hasher = foldhash::fast::FixedState::default();
        let mut cells = Cells::default();
        let routes = 3 * wide(NAMES_MAX);
        for n in 0..routes {
            let route = format!("/{n}");
            assert!(cells.add(5, &Name::request(Some(&route), &hasher), Outcome::Allowed, 2));
        }
        assert_eq!(cells.names(), NAMES_MAX);
        let mut tally = Tally::default();
        cells.drain_into(&mut tally, &Names::default());
        assert_eq!(tally.minutes[&5][&Label::Requests].total(), 2 * routes);
        assert_eq!(tally.minutes[&5].len(), NAMES_MAX + 1);
    }

    #[test]
    fn rules_and_names_that_run_together_stay_apart() {
        let mut cells = Cells::default();
        for (rule, key) in [("a", "bc"), ("ab", "c"), ("abc", ""), ("a", "bc"), ("ab", "c")] {
            // The worst that a hash can do.
            let name = Name { hash: 7, kind: Kind::Key, rule, name: key };
            assert!(cells.add(1, &name, Outcome::Denied, 1));
        }
        assert_eq!(cells.names(), 3);
    }
}
