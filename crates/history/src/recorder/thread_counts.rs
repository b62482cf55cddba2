//! The counts of one thread since the last flush.
//!
//! [`super::Recorder`] adds here and a flush drains it. One slot holds the six
//! outcomes of a route, or of a rule and a key; totals and the counts of rules are
//! summed when it is drained, so that counting touches one slot. Keys beyond those that
//! there is room for count in one slot of their rule.
//!
//! A name is identified by its hash, as a key of the limiter is: its text is neither
//! compared nor even written while it is counted, but once, when a slot is made for it.
//! The hash has 64 bits and a random seed in each process: two of the few thousand
//! names of a minute share one once in a hundred thousand years.
//!
//! Invariants: what is added is drained, under its name or without one. However many keys
//! come, a rule counts all its decisions.

use std::hash::{BuildHasher, Hasher as _};

use super::label_cache::LabelCache;
use super::name_index::NameIndex;
use super::{KeyText, RuleName};
use crate::Map;
use crate::bytes::index;
use crate::counts::Counts;
use crate::flush::TrafficCounts;
use crate::label::Label;
use crate::route::cut;
use tollgate_core::Outcome;

/// Routes and keys of one thread in one minute between two flushes. Further routes are counted
/// without a name, and further keys for their rule. A name that is more frequent than one in so
/// many is nearly always among the first.
const NAMES_MAX: usize = 12_288;

/// Rules besides these: more than have a series, because a reload counts a rule anew.
const RULES_MAX: usize = 16_384;

/// Minutes between two flushes; more only if the clock jumps.
const MINUTES_MAX: usize = 8;

/// The name to count, with its hash.
pub(super) struct CountedName<'a, K> {
    hash: u64,
    /// The hash of its rule alone.
    rule_hash: u64,
    kind: NameKind,
    domain: &'a str,
    rule: &'a str,
    text: K,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameKind {
    Route,
    Rule,
    Key,
}

impl<'a> CountedName<'a, &'a str> {
    pub(super) fn route(route: &'a str, hasher: &impl BuildHasher) -> Self {
        let (route, mut hash) = (cut(route), hasher.build_hasher());
        hash.write_u8(NameKind::Route.number());
        hash.write(route.as_bytes());
        let hash = hash.finish();
        Self { hash, rule_hash: hash, kind: NameKind::Route, domain: "", rule: "", text: route }
    }

    pub(super) fn rule(rule: RuleName<'a>, hasher: &impl BuildHasher) -> Self {
        CountedName::key(rule, "", hasher).without_key()
    }
}

impl<'a, K: KeyText> CountedName<'a, K> {
    #[inline]
    pub(super) fn key(rule: RuleName<'a>, key: K, hasher: &impl BuildHasher) -> Self {
        let (domain, name) = (cut(rule.domain), cut(rule.name));
        let rule_hash = rule.number.map_or_else(|| hash_of_name(domain, name, hasher), hash_of_rule);
        let hash = match key.number() {
            Some(number) => hash_of_key(rule_hash, number),
            None => {
                let mut hash = hasher.build_hasher();
                hash.write_u8(NameKind::Key.number());
                hash.write_u64(rule_hash);
                key.identify(&mut hash);
                hash.finish()
            }
        };
        Self { hash, rule_hash, kind: NameKind::Key, domain, rule: name, text: key }
    }

    /// The rule of a key.
    fn without_key(&self) -> CountedName<'a, &'static str> {
        let Self { rule_hash, domain, rule, .. } = *self;
        CountedName { hash: rule_hash, rule_hash, kind: NameKind::Rule, domain, rule, text: "" }
    }
}

/// Odd, and near the golden ratio of 2^64: numbers that follow each other differ in all bits of the product.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a rule that is known by its number.
#[inline]
pub(super) const fn hash_of_rule(number: u64) -> u64 {
    number.wrapping_mul(SPREAD)
}

/// The hash of a key that is known by a number as good as random, under a rule.
#[inline]
pub(super) const fn hash_of_key(rule: u64, number: u64) -> u64 {
    number.wrapping_add(rule.rotate_left(32))
}

fn hash_of_name(domain: &str, name: &str, hasher: &impl BuildHasher) -> u64 {
    let mut hash = hasher.build_hasher();
    hash.write_u8(NameKind::Rule.number());
    // The length says where the domain ends.
    hash.write_usize(domain.len());
    hash.write(domain.as_bytes());
    hash.write(name.as_bytes());
    hash.finish()
}

impl NameKind {
    const fn number(self) -> u8 {
        match self {
            Self::Route => 0,
            Self::Rule => 1,
            Self::Key => 2,
        }
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
pub(super) struct ThreadMinute {
    minute: u32,
    /// The number of a name is that of its slot.
    index: NameIndex,
    slots: Vec<NameSlot>,
    /// The rule whose key had no room last, by its hash, and its slot: mostly the next one's, too.
    last_rule: Option<(u64, usize)>,
    /// How many of them are rules.
    rules: usize,
    texts: String,
    /// Requests without a route, and those that came when there were too many names.
    nameless_requests: Counts,
    nameless_decisions: Counts,
}

impl ThreadMinute {
    /// Counts a request without a route.
    #[inline]
    pub(super) fn add_request(&mut self, outcome: Outcome, count: u64) {
        self.nameless_requests.add(outcome, count);
    }

    #[inline]
    pub(super) fn add<K: KeyText>(&mut self, name: &CountedName<'_, K>, outcome: Outcome, count: u64) {
        if self.add_known(name.hash, outcome, count) {
            return;
        }
        let has_room = match name.kind {
            NameKind::Route | NameKind::Key => self.slots.len() - self.rules < NAMES_MAX,
            NameKind::Rule => self.rules < RULES_MAX,
        };
        if has_room && self.add_new(name, outcome, count) {
            return;
        }
        match name.kind {
            NameKind::Route => self.nameless_requests.add(outcome, count),
            NameKind::Rule => self.nameless_decisions.add(outcome, count),
            NameKind::Key if self.add_to_rule(name.rule_hash, outcome, count) => {}
            NameKind::Key => self.add(&name.without_key(), outcome, count),
        }
    }

    /// Adds to the slot of a rule; false if it has none.
    #[inline]
    fn add_to_rule(&mut self, hash: u64, outcome: Outcome, count: u64) -> bool {
        let last = self.last_rule.filter(|(known, _)| *known == hash);
        self.last_rule = last.or_else(|| Some((hash, self.index.find(hash)?)));
        let slot = self.last_rule.and_then(|(_, at)| self.slots.get_mut(at));
        slot.map(|slot| slot.counts.add(outcome, count)).is_some()
    }

    /// Adds to the slot of a name; false if it has none.
    #[inline]
    fn add_known(&mut self, hash: u64, outcome: Outcome, count: u64) -> bool {
        let slot = self.index.find(hash).and_then(|at| self.slots.get_mut(at));
        slot.map(|slot| slot.counts.add(outcome, count)).is_some()
    }

    /// Makes a slot; false if the texts have no room for its name.
    #[cold]
    fn add_new<K: KeyText>(&mut self, name: &CountedName<'_, K>, outcome: Outcome, count: u64) -> bool {
        let start = self.texts.len();
        self.texts.push_str(name.domain);
        self.texts.push_str(name.rule);
        let before = self.texts.len();
        name.text.write(&mut self.texts);
        let bytes = self.texts.get(before..).map_or(0, |text| cut(text).len());
        self.texts.truncate(before + bytes);
        let Some(mut slot) = NameSlot::new(name, start, bytes) else {
            self.texts.truncate(start);
            return false;
        };
        slot.counts.add(outcome, count);
        self.rules += usize::from(name.kind == NameKind::Rule);
        self.slots.push(slot);
        self.index.insert(name.hash);
        true
    }

    fn drain_into(self, flush: &mut TrafficCounts, labels: &LabelCache) {
        let minute = self.minute;
        let (mut requests, mut decisions) = (self.nameless_requests, self.nameless_decisions);
        let mut rules: Map<(&str, &str), Counts> = Map::default();
        for slot in &self.slots {
            let [domain, rule, name] = slot.text(&self.texts);
            match slot.kind {
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
    fn new<K>(name: &CountedName<'_, K>, text: usize, name_bytes: usize) -> Option<Self> {
        Some(Self {
            counts: Counts::default(),
            text: u32::try_from(text).ok()?,
            domain_bytes: u16::try_from(name.domain.len()).ok()?,
            rule_bytes: u16::try_from(name.rule.len()).ok()?,
            name_bytes: u16::try_from(name_bytes).ok()?,
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
}

/// The counts of one thread since the last flush.
#[derive(Debug, Default)]
pub(super) struct ThreadCounts {
    /// The minute of the last add is last.
    minutes: Vec<ThreadMinute>,
}

impl ThreadCounts {
    /// The counts of a minute; none if the clock has been in too many.
    #[inline]
    pub(super) fn minute(&mut self, minute: u32) -> Option<&mut ThreadMinute> {
        if self.minutes.last().is_none_or(|last| last.minute != minute) {
            self.switch_to(minute)?;
        }
        self.minutes.last_mut()
    }

    /// Has the line of memory fetched that is looked at for a name of this minute.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(minute) = self.minutes.last() {
            minute.index.prefetch(hash);
        }
    }

    #[cold]
    fn switch_to(&mut self, minute: u32) -> Option<()> {
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
        Some(())
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
            counts.minute(5).unwrap().add(&CountedName::route(&route, &hasher), Outcome::Allowed, 2);
        }
        assert_eq!(counts.names(), NAMES_MAX);
        let mut flush = TrafficCounts::default();
        counts.drain_into(&mut flush, &LabelCache::default());
        assert_eq!(flush.minutes[&5][&Label::Requests].total(), 2 * routes);
        assert_eq!(flush.minutes[&5].len(), NAMES_MAX + 1);
    }

    /// Each rule has more keys than there is room for, and some are told by number and some by name.
    #[test]
    fn a_rule_counts_all_its_decisions_however_many_keys_there_are() {
        let hasher = foldhash::fast::FixedState::default();
        let mut counts = ThreadCounts::default();
        let keys = wide(NAMES_MAX) + 1_000;
        let rules = [("d", "a", Some(1)), ("d", "b", Some(2)), ("d", "c", None)];
        for n in 0..keys {
            let key = format!("user_id={n}");
            for (domain, name, number) in rules {
                let name = CountedName::key(RuleName { domain, name, number }, key.as_str(), &hasher);
                counts.minute(5).unwrap().add(&name, Outcome::Denied, 1);
            }
        }
        assert_eq!(counts.names(), NAMES_MAX + rules.len());
        let mut flush = TrafficCounts::default();
        counts.drain_into(&mut flush, &LabelCache::default());
        let minute = &flush.minutes[&5];
        for (domain, name, _) in rules {
            let label = Label::Rule { domain: domain.into(), name: name.into() };
            assert_eq!(minute[&label].get(Outcome::Denied), keys, "{name}");
        }
        assert_eq!(minute[&Label::Decisions].total(), 3 * keys);
    }

    #[test]
    fn the_number_of_a_rule_stands_for_its_name() {
        let hasher = foldhash::fast::FixedState::default();
        let mut counts = ThreadCounts::default();
        // A reload gave the rule another number.
        for number in [Some(1), Some(2), None] {
            let rule = RuleName { domain: "d", name: "r", number };
            for name in [CountedName::key(rule, "k", &hasher), CountedName::rule(rule, &hasher)] {
                counts.minute(1).unwrap().add(&name, Outcome::Allowed, 1);
            }
        }
        let mut flush = TrafficCounts::default();
        counts.drain_into(&mut flush, &LabelCache::default());
        let minute = &flush.minutes[&1];
        let (rule, key) = (
            Label::Rule { domain: "d".into(), name: "r".into() },
            Label::Key { domain: "d".into(), rule: "r".into(), name: "k".into() },
        );
        assert_eq!((minute[&rule].total(), minute[&key].total()), (6, 3));
    }

    #[test]
    fn more_rules_than_there_is_room_for_count_without_a_name() {
        let hasher = foldhash::fast::FixedState::default();
        let mut counts = ThreadCounts::default();
        for number in 0..wide(RULES_MAX) + 9 {
            let rule = RuleName { domain: "d", name: "r", number: Some(number) };
            counts.minute(1).unwrap().add(&CountedName::rule(rule, &hasher), Outcome::Soft, 1);
        }
        assert_eq!(counts.names(), RULES_MAX);
        let mut flush = TrafficCounts::default();
        counts.drain_into(&mut flush, &LabelCache::default());
        assert_eq!(flush.minutes[&1][&Label::Decisions].total(), wide(RULES_MAX) + 9);
    }

    #[test]
    fn rules_and_names_that_run_together_stay_apart() {
        let hasher = foldhash::fast::FixedState::default();
        let mut counts = ThreadCounts::default();
        let names = [("", "a", "bc"), ("", "ab", "c"), ("a", "b", "c"), ("", "abc", ""), ("", "a", "bc")];
        for (domain, rule, key) in names {
            let name = CountedName::key(RuleName::new(domain, rule), key, &hasher);
            counts.minute(1).unwrap().add(&name, Outcome::Denied, 1);
        }
        assert_eq!(counts.names(), 4);
        let (route, rule) =
            (CountedName::route("", &hasher), CountedName::rule(RuleName::new("", ""), &hasher));
        counts.minute(1).unwrap().add(&route, Outcome::Denied, 1);
        counts.minute(1).unwrap().add(&rule, Outcome::Denied, 1);
        assert_eq!(counts.names(), 6, "a route and a rule without a name are no key either");
    }

    /// A key that writes its name down.
    struct WrittenKey<'a>(&'a str, &'a std::cell::Cell<u32>);

    impl KeyText for WrittenKey<'_> {
        fn identify(&self, hasher: &mut impl std::hash::Hasher) {
            hasher.write(self.0.as_bytes());
        }

        fn write(&self, text: &mut String) {
            self.1.set(self.1.get() + 1);
            text.push_str(self.0);
        }
    }

    #[test]
    fn the_text_of_a_key_is_written_once_and_cut() {
        let (hasher, written) = (foldhash::fast::FixedState::default(), std::cell::Cell::new(0));
        let mut counts = ThreadCounts::default();
        let long = "é".repeat(crate::route::NAME_BYTES_MAX);
        for _ in 0..3 {
            let name = CountedName::key(RuleName::new("d", "r"), WrittenKey(&long, &written), &hasher);
            counts.minute(1).unwrap().add(&name, Outcome::Allowed, 1);
        }
        assert_eq!(written.get(), 1);
        let mut flush = TrafficCounts::default();
        counts.drain_into(&mut flush, &LabelCache::default());
        let name = cut(&long).into();
        assert_eq!(flush.minutes[&1][&Label::Key { domain: "d".into(), rule: "r".into(), name }].total(), 3);
    }
}
