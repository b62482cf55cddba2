//! Which names get a series of their own.
//!
//! Between the counts of threads and the flush. Names are chosen by frequency, with a
//! count-min sketch in front of space-saving: a name is tracked if there is room, or
//! if it has come more often than the rarest tracked name, which it then replaces;
//! the sketch keeps the count of the one that was replaced. So an attacker who makes
//! up names has to send each of them more often than real ones come.
//!
//! Invariant: never more tracked names than [`Caps`]. Totals are not touched.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use crate::Map;
use crate::bytes::index;
use crate::flush::TrafficCounts;
use crate::label::Label;
use crate::lazy_heap::LazyHeap;

/// How many names may have a series at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Routes.
    pub routes: usize,
    /// Rules: they come from rule files, so this only guards against mistakes.
    pub rules: usize,
    /// Keys of each rule.
    pub keys_per_rule: usize,
    /// All of these together.
    pub all: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self { routes: 10_000, rules: 5_000, keys_per_rule: 1_000, all: 20_000 }
    }
}

/// Counters in one row of the sketch, and rows.
const SKETCH_WIDTH: usize = 65_536;
const SKETCH_ROWS: usize = 4;

/// How often all counts are halved, so that old names give way.
const HALVE_EVERY_MIN: u32 = 60;

/// About how often names came, in constant space; never an under-estimate.
#[derive(Debug)]
struct CountMinSketch {
    counters: Vec<u32>,
    hasher: foldhash::fast::RandomState,
}

impl CountMinSketch {
    fn new() -> Self {
        Self { counters: vec![0; SKETCH_WIDTH * SKETCH_ROWS], hasher: foldhash::fast::RandomState::default() }
    }

    /// The counters of a name, one in each row: four pieces of one hash.
    fn places(&self, label: &Label) -> [usize; SKETCH_ROWS] {
        let hash = self.hasher.hash_one(label);
        [0, 1, 2, 3].map(|line| line * SKETCH_WIDTH + (index(hash >> (16 * line)) & (SKETCH_WIDTH - 1)))
    }

    /// Counts, and returns the new estimate.
    fn add(&mut self, label: &Label, count: u64) -> u64 {
        let places = self.places(label);
        let least = places.iter().filter_map(|at| self.counters.get(*at)).min().copied().unwrap_or(0);
        let sum = u64::from(least).saturating_add(count);
        self.raise(places, sum);
        sum
    }

    /// Raises the estimate of a name to at least that.
    fn remember(&mut self, label: &Label, count: u64) {
        let places = self.places(label);
        self.raise(places, count);
    }

    /// Conservative update: larger counters belong to other names, too.
    fn raise(&mut self, places: [usize; SKETCH_ROWS], count: u64) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        for at in places {
            if let Some(counter) = self.counters.get_mut(at) {
                *counter = (*counter).max(count);
            }
        }
    }

    fn halve(&mut self) {
        for counter in &mut self.counters {
            *counter /= 2;
        }
    }
}

/// The tracked names of one group.
#[derive(Debug, Default)]
struct TrackedNames {
    counts: Map<Label, u64>,
    /// The rarest first.
    order: LazyHeap<u64, Label>,
}

impl TrackedNames {
    fn add(&mut self, label: &Label, count: u64) -> bool {
        let Some(kept) = self.counts.get_mut(label) else { return false };
        *kept = kept.saturating_add(count);
        true
    }

    fn insert(&mut self, label: Label, count: u64) {
        self.order.insert(count, label.clone());
        self.counts.insert(label, count);
    }

    /// Removes the rarest name, if it is rarer than `count`.
    fn evict(&mut self, count: u64) -> Option<(u64, Label)> {
        let rarest = self.order.take(|label| self.counts.get(label).copied(), |rarest| rarest < count)?;
        self.counts.remove(&rarest.1);
        Some(rarest)
    }

    fn halve(&mut self) {
        for count in self.counts.values_mut() {
            *count /= 2;
        }
        self.order = self.counts.iter().map(|(label, count)| (*count, label.clone())).collect();
    }
}

/// Chooses which names get a series.
#[derive(Debug)]
pub struct NameFilter {
    caps: Caps,
    sketch: CountMinSketch,
    groups: Map<NameGroup, TrackedNames>,
    tracked: usize,
    halved_at: Option<u32>,
}

/// Names that compete with each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum NameGroup {
    Routes,
    Rules,
    Keys { domain: Arc<str>, rule: Arc<str> },
}

impl NameGroup {
    fn of(label: &Label) -> Option<Self> {
        match label {
            Label::Requests | Label::Decisions => None,
            Label::Route(_) => Some(Self::Routes),
            Label::Rule { .. } => Some(Self::Rules),
            Label::Key { domain, rule, .. } => {
                Some(Self::Keys { domain: domain.clone(), rule: rule.clone() })
            }
        }
    }
}

impl NameFilter {
    /// A filter that has seen nothing yet.
    pub fn new(caps: Caps) -> Self {
        Self { caps, sketch: CountMinSketch::new(), groups: Map::default(), tracked: 0, halved_at: None }
    }

    /// How many names are tracked.
    pub const fn tracked(&self) -> usize {
        self.tracked
    }

    /// Removes the names that get no series; the totals still count them.
    pub fn choose(&mut self, counts: &mut TrafficCounts, minute: u32) {
        self.age(minute);
        let mut refused: Map<Label, ()> = Map::default();
        for (label, count) in newcomers(counts, |label, count| self.is_tracked(label, count)) {
            if !self.admit(&label, count) {
                refused.insert(label, ());
            }
        }
        if refused.is_empty() {
            return;
        }
        for minute in counts.minutes.values_mut() {
            minute.retain(|label, _| !refused.contains_key(label));
        }
    }

    fn is_tracked(&mut self, label: &Label, count: u64) -> bool {
        match NameGroup::of(label) {
            Some(group) => self.groups.get_mut(&group).is_some_and(|tracked| tracked.add(label, count)),
            None => true,
        }
    }

    /// Tracks the name if it is frequent enough.
    fn admit(&mut self, label: &Label, count: u64) -> bool {
        let Some(group) = NameGroup::of(label) else { return true };
        let often = self.sketch.add(label, count);
        let most = match group {
            NameGroup::Routes => self.caps.routes,
            NameGroup::Rules => self.caps.rules,
            NameGroup::Keys { .. } => self.caps.keys_per_rule,
        };
        let tracked = self.groups.entry(group).or_default();
        if tracked.counts.len() >= most || self.tracked >= self.caps.all {
            let Some((count, rarest)) = tracked.evict(often) else { return false };
            self.sketch.remember(&rarest, count);
            self.tracked -= 1;
        }
        tracked.insert(label.clone(), often);
        self.tracked += 1;
        true
    }

    fn age(&mut self, minute: u32) {
        let since = minute.saturating_sub(*self.halved_at.get_or_insert(minute));
        if since >= HALVE_EVERY_MIN {
            self.halved_at = Some(minute);
            self.sketch.halve();
            self.groups.values_mut().for_each(TrackedNames::halve);
        }
    }
}

/// The labels that are not tracked, the most frequent first, and by name where they
/// are equal, so that the choice is always the same.
fn newcomers(counts: &TrafficCounts, mut is_tracked: impl FnMut(&Label, u64) -> bool) -> Vec<(Label, u64)> {
    let mut new: Map<Label, u64> = Map::default();
    for minute in counts.minutes.values() {
        for (label, counts) in minute {
            match new.get_mut(label) {
                Some(count) => *count = count.saturating_add(counts.total()),
                None if is_tracked(label, counts.total()) => {}
                None => {
                    new.insert(label.clone(), counts.total());
                }
            }
        }
    }
    let mut sorted: Vec<(Label, u64)> = new.into_iter().collect();
    sorted.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::Outcome;

    fn counted(routes: &[(&str, u64)]) -> TrafficCounts {
        let mut counts = TrafficCounts::default();
        for (route, count) in routes {
            counts.add(1, Label::Requests, Outcome::Allowed, *count);
            counts.add(1, Label::Route((*route).into()), Outcome::Allowed, *count);
        }
        counts
    }

    fn chosen(filter: &mut NameFilter, routes: &[(&str, u64)]) -> Vec<String> {
        let mut counts = counted(routes);
        filter.choose(&mut counts, 1);
        let mut names: Vec<String> = counts.minutes[&1].keys().map(|label| label.name().to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_frequent_name_takes_the_place_of_a_rare_one() {
        let mut filter = NameFilter::new(Caps { routes: 2, ..Caps::default() });
        assert_eq!(chosen(&mut filter, &[("/a", 5), ("/b", 1), ("/c", 1)]), ["", "/a", "/b"]);
        // "/c" has now come twice, and "/b" once.
        assert_eq!(chosen(&mut filter, &[("/c", 1)]), ["", "/c"]);
        assert_eq!(chosen(&mut filter, &[("/b", 1)]), [""]);
        assert_eq!(filter.tracked(), 2);
    }

    #[test]
    fn the_cap_on_all_names_holds_across_kinds() {
        let mut filter = NameFilter::new(Caps { all: 3, ..Caps::default() });
        let mut counts = counted(&[("/a", 1), ("/b", 1), ("/c", 1), ("/d", 1)]);
        for rule in ["x", "y"] {
            let label = Label::Key { domain: "d".into(), rule: rule.into(), name: "k".into() };
            counts.add(1, label, Outcome::Denied, 9);
        }
        filter.choose(&mut counts, 1);
        assert_eq!(filter.tracked(), 3);
        let named = counts.minutes[&1].keys().filter(|label| label.kind().is_some()).count();
        assert_eq!(named, 3);
    }

    /// Against an exact count of three times as many names as a row has counters.
    #[test]
    fn the_sketch_never_underestimates_and_errs_as_the_theory_says() {
        let mut sketch = CountMinSketch::new();
        let mut exact: Map<Label, u64> = Map::default();
        let names = 3 * u64::try_from(SKETCH_WIDTH).unwrap();
        for n in 0..2 * names {
            // Squares modulo a number: some names come often, and most once or twice.
            let label = Label::Route(format!("/{}", n * n % names).into());
            let count = n % 3 + 1;
            sketch.add(&label, count);
            *exact.entry(label).or_default() += count;
        }
        let total: u64 = exact.values().sum();
        // Cormode and Muthukrishnan: beyond e/width of the total with a chance of e^-rows.
        let bound = total * 2_719 / 1_000 / u64::try_from(SKETCH_WIDTH).unwrap();
        let mut beyond = 0;
        for (label, count) in &exact {
            let estimate = sketch.add(label, 0);
            assert!(estimate >= *count, "{label:?}: {estimate} and {count}");
            beyond += usize::from(estimate - count > bound);
        }
        assert!(beyond * 1_000 <= exact.len() * 19, "{beyond} of {} are beyond {bound}", exact.len());
    }

    #[test]
    fn what_was_popular_gives_way_after_hours() {
        let mut filter = NameFilter::new(Caps { routes: 1, ..Caps::default() });
        filter.choose(&mut counted(&[("/old", 1_000)]), 0);
        for hour in 1..12 {
            filter.age(hour * HALVE_EVERY_MIN);
        }
        assert_eq!(chosen(&mut filter, &[("/new", 3)]), ["", "/new"]);
    }
}
