//! The counts of one thread since the last flush.
//!
//! [`super::Recorder`] adds here and a flush drains it. One slot holds the six
//! outcomes of a route, or of a rule and a key; totals and the counts of rules are
//! summed when it is drained, so that counting touches one slot.
//!
//! A name is identified by its hash and lengths, as a key of the limiter is; its
//! text is not compared while it is counted. The hash has 64 bits and a random seed
//! in each process: two of the few thousand names of a minute share one once in a
//! hundred thousand years.
//!
//! Invariant: what is added is drained, under its name or without one.

use std::hash::{BuildHasher, Hasher as _};

use hashbrown::HashTable;

use super::label_cache::LabelCache;
use crate::Map;
use crate::bytes::index;
use crate::counts::Counts;
use crate::flush::TrafficCounts;
use crate::label::Label;
use crate::route::cut;
use tollgate_core::Outcome;

/// Names of one thread in one minute between two flushes. Further ones are counted
/// without a name. A name that is more frequent than one in so many is nearly always
/// among the first.
const NAMES_MAX: usize = 16_384;

/// Minutes between two flushes; more only if the clock jumps.
const MINUTES_MAX: usize = 8;

/// The name to count, with its hash.
pub(super) struct CountedName<'a> {
    hash: u64,
    kind: NameKind,
    domain: &'a str,
    rule: &'a str,
    name: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameKind {
    Request,
    Route,
    Rule,
    Key,
}

impl<'a> CountedName<'a> {
    #[inline]
    pub(super) fn request(route: Option<&'a str>, hasher: &impl BuildHasher) -> Self {
        match route {
            Some(route) => Self::new(NameKind::Route, ("", ""), cut(route), hasher),
            None => Self::new(NameKind::Request, ("", ""), "", hasher),
        }
    }

    #[inline]
    pub(super) fn decision(
        (domain, rule): (&'a str, &'a str),
        key: Option<&'a str>,
        hasher: &impl BuildHasher,
    ) -> Self {
        let rule = (cut(domain), cut(rule));
        match key {
            Some(key) => Self::new(NameKind::Key, rule, cut(key), hasher),
            None => Self::new(NameKind::Rule, rule, "", hasher),
        }
    }

    #[inline]
    fn new(
        kind: NameKind,
        (domain, rule): (&'a str, &'a str),
        name: &'a str,
        hasher: &impl BuildHasher,
    ) -> Self {
        let mut hash = hasher.build_hasher();
        if !rule.is_empty() {
            hash.write(domain.as_bytes());
            hash.write(rule.as_bytes());
        }
        hash.write(name.as_bytes());
        Self { hash: hash.finish(), kind, domain, rule, name }
    }
}

/// The counts of one name. It fills a cache line, so that counting fetches one.
#[derive(Debug)]
#[repr(align(64))]
struct NameSlot {
    counts: Counts,
    /// Where its text starts in the minute's texts: the domain, the rule, the name.
    text: u32,
    domain_bytes: u16,
    rule_bytes: u16,
    name_bytes: u16,
    kind: NameKind,
}

const _: () = assert!(size_of::<NameSlot>() == 64, "counting would fetch two cache lines");

/// One minute of one thread.
#[derive(Debug, Default)]
struct ThreadMinute {
    minute: u32,
    /// The hash of a name and the index of its slot.
    index: HashTable<(u64, u32)>,
    slots: Vec<NameSlot>,
    texts: String,
    /// Counted when there were too many names.
    nameless_requests: Counts,
    nameless_decisions: Counts,
}

impl ThreadMinute {
    #[inline]
    fn add(&mut self, name: &CountedName<'_>, outcome: Outcome, count: u64) {
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
    fn add_new(&mut self, name: &CountedName<'_>, outcome: Outcome, count: u64) {
        let place = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let slot = NameSlot::new(name, self.texts.len());
        let Some(mut slot) = slot.filter(|_| self.slots.len() < NAMES_MAX) else {
            let nameless = match name.kind {
                NameKind::Request | NameKind::Route => &mut self.nameless_requests,
                NameKind::Rule | NameKind::Key => &mut self.nameless_decisions,
            };
            return nameless.add(outcome, count);
        };
        slot.counts.add(outcome, count);
        self.texts.push_str(name.domain);
        self.texts.push_str(name.rule);
        self.texts.push_str(name.name);
        self.slots.push(slot);
        self.index.insert_unique(name.hash, (name.hash, place), |(hash, _)| *hash);
    }

    fn drain_into(self, flush: &mut TrafficCounts, labels: &LabelCache) {
        let minute = self.minute;
        let (mut requests, mut decisions) = (self.nameless_requests, self.nameless_decisions);
        let mut rules: Map<(&str, &str), Counts> = Map::default();
        for slot in &self.slots {
            let [domain, rule, name] = slot.text(&self.texts);
            match slot.kind {
                NameKind::Request => requests.merge(&slot.counts),
                NameKind::Route => {
                    requests.merge(&slot.counts);
                    flush.merge(minute, labels.route(name), &slot.counts);
                }
                NameKind::Rule => rules.entry((domain, rule)).or_default().merge(&slot.counts),
                NameKind::Key => {
                    rules.entry((domain, rule)).or_default().merge(&slot.counts);
                    flush.merge(minute, labels.key(domain, rule, name), &slot.counts);
                }
            }
        }
        for ((domain, rule), counts) in rules {
            decisions.merge(&counts);
            flush.merge(minute, labels.rule(domain, rule), &counts);
        }
        for (label, counts) in [(Label::Requests, requests), (Label::Decisions, decisions)] {
            if counts.total() > 0 {
                flush.merge(minute, label, &counts);
            }
        }
    }
}

impl NameSlot {
    fn new(name: &CountedName<'_>, text: usize) -> Option<Self> {
        Some(Self {
            counts: Counts::default(),
            text: u32::try_from(text).ok()?,
            domain_bytes: u16::try_from(name.domain.len()).ok()?,
            rule_bytes: u16::try_from(name.rule.len()).ok()?,
            name_bytes: u16::try_from(name.name.len()).ok()?,
            kind: name.kind,
        })
    }

    /// Its domain, rule and name among the texts.
    fn text<'a>(&self, texts: &'a str) -> [&'a str; 3] {
        let mut start = index(u64::from(self.text));
        [self.domain_bytes, self.rule_bytes, self.name_bytes].map(|bytes| {
            let end = start + usize::from(bytes);
            texts.get(std::mem::replace(&mut start, end)..end).unwrap_or("")
        })
    }

    /// Whether a name with the same hash is the same.
    fn is(&self, name: &CountedName<'_>) -> bool {
        self.kind == name.kind
            && usize::from(self.domain_bytes) == name.domain.len()
            && usize::from(self.rule_bytes) == name.rule.len()
            && usize::from(self.name_bytes) == name.name.len()
    }
}

/// The counts of one thread since the last flush.
#[derive(Debug, Default)]
pub(super) struct ThreadCounts {
    /// The minute of the last add is last.
    minutes: Vec<ThreadMinute>,
}

impl ThreadCounts {
    /// Counts; false if the clock has been in too many minutes.
    pub(super) fn add(&mut self, minute: u32, name: &CountedName<'_>, outcome: Outcome, count: u64) -> bool {
        if let Some(last) = self.minutes.last_mut().filter(|last| last.minute == minute) {
            last.add(name, outcome, count);
            return true;
        }
        let Some(other) = self.switch_to(minute) else { return false };
        other.add(name, outcome, count);
        true
    }

    #[cold]
    fn switch_to(&mut self, minute: u32) -> Option<&mut ThreadMinute> {
        match self.minutes.iter().position(|known| known.minute == minute) {
            Some(at) => {
                let known = self.minutes.remove(at);
                self.minutes.push(known);
            }
            None if self.minutes.len() < MINUTES_MAX => {
                self.minutes.push(ThreadMinute { minute, ..ThreadMinute::default() });
            }
            None => return None,
        }
        self.minutes.last_mut()
    }

    pub(super) fn drain_into(self, flush: &mut TrafficCounts, labels: &LabelCache) {
        for minute in self.minutes {
            minute.drain_into(flush, labels);
        }
    }

    /// How many names it has.
    #[cfg(test)]
    pub(super) fn names(&self) -> usize {
        self.minutes.iter().map(|minute| minute.slots.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::wide;

    #[test]
    fn more_names_than_there_is_room_for_count_without_a_name() {
        let hasher = foldhash::fast::FixedState::default();
        let mut counts = ThreadCounts::default();
        let routes = 3 * wide(NAMES_MAX);
        for n in 0..routes {
            let route = format!("/{n}");
            assert!(counts.add(5, &CountedName::request(Some(&route), &hasher), Outcome::Allowed, 2));
        }
        assert_eq!(counts.names(), NAMES_MAX);
        let mut flush = TrafficCounts::default();
        counts.drain_into(&mut flush, &LabelCache::default());
        assert_eq!(flush.minutes[&5][&Label::Requests].total(), 2 * routes);
        assert_eq!(flush.minutes[&5].len(), NAMES_MAX + 1);
    }

    #[test]
    fn rules_and_names_that_run_together_stay_apart() {
        let mut counts = ThreadCounts::default();
        let names = [("", "a", "bc"), ("", "ab", "c"), ("a", "b", "c"), ("", "abc", ""), ("", "a", "bc")];
        for (domain, rule, key) in names {
            // The worst that a hash can do.
            let name = CountedName { hash: 7, kind: NameKind::Key, domain, rule, name: key };
            assert!(counts.add(1, &name, Outcome::Denied, 1));
        }
        assert_eq!(counts.names(), 4);
    }
}
