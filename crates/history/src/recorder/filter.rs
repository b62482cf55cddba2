//! Which names get a series of their own.
//!
//! After the cells and before the history: names are chosen by how often they
//! come, with a count-min sketch in front of a space-saving list. A name gets a
//! place if there is one, or if it has come more often than the rarest name that
//! has one; that one then gives up its place, and the sketch remembers it. So an
//! attacker who makes up names has to send each more often than real ones come.
//!
//! Invariant: never more places than [`Caps`] say. Totals are not touched.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use crate::Map;
use crate::codec::bytes::index;
use crate::flush::Tally;
use crate::label::Label;
use crate::least::Least;

/// How many names may have a series at once.
///
/// ```
/// use tollgate_history::Caps;
/// let caps = Caps { keys_per_rule: 100, ..Caps::default() };
/// assert!(caps.all >= caps.keys_per_rule);
/// ```
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

/// Counters in one line of the sketch, and lines.
const SKETCH_WIDTH: usize = 65_536;
const SKETCH_LINES: usize = 4;

/// How often the past counts half, so that what was popular gives way.
const HALVE_EVERY_MIN: u32 = 60;

/// Roughly how often names came, in constant space; never too little.
#[derive(Debug)]
struct Sketch {
    counters: Vec<u32>,
    hasher: foldhash::fast::RandomState,
}

impl Sketch {
    fn new() -> Self {
        Self {
            counters: vec![0; SKETCH_WIDTH * SKETCH_LINES],
            hasher: foldhash::fast::RandomState::default(),
        }
    }

    /// Where a name is counted in each line: four pieces of one hash.
    fn places(&self, label: &Label) -> [usize; SKETCH_LINES] {
        let hash = self.hasher.hash_one(label);
        [0, 1, 2, 3].map(|line| line * SKETCH_WIDTH + (index(hash >> (16 * line)) & (SKETCH_WIDTH - 1)))
    }

    /// Counts, and tells how often the name has come at most.
    fn add(&mut self, label: &Label, count: u64) -> u64 {
        let places = self.places(label);
        let least = places.iter().filter_map(|at| self.counters.get(*at)).min().copied().unwrap_or(0);
        let sum = u64::from(least).saturating_add(count);
        self.raise(places, sum);
        sum
    }

    /// Remembers that the name has come at least so often.
    fn remember(&mut self, label: &Label, count: u64) {
        let places = self.places(label);
        self.raise(places, count);
    }

    /// Only counters that are too small are raised: the others tell of other names.
    fn raise(&mut self, places: [usize; SKETCH_LINES], count: u64) {
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

/// The names of one kind and rule that have a place.
#[derive(Debug, Default)]
struct Places {
    counts: Map<Label, u64>,
    /// The rarest first.
    order: Least<u64, Label>,
}

impl Places {
    fn add(&mut self, label: &Label, count: u64) -> bool {
        let Some(kept) = self.counts.get_mut(label) else { return false };
        *kept = kept.saturating_add(count);
        true
    }

    fn insert(&mut self, label: Label, count: u64) {
        self.order.insert(count, label.clone());
        self.counts.insert(label, count);
    }

    /// Takes the rarest name out, if it is rarer than `count`.
    fn make_room(&mut self, count: u64) -> Option<(u64, Label)> {
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
///
/// ```
/// use tollgate_history::{Caps, Filter, Outcome, Tally};
/// let mut filter = Filter::new(Caps { routes: 1, ..Caps::default() });
/// let mut tally = Tally::default();
/// for route in ["/often", "/often", "/once"] {
///     tally.add_request(7, Some(route), Outcome::Allowed);
/// }
/// filter.choose(&mut tally, 7);
/// assert_eq!(filter.tracked(), 1);
/// ```
#[derive(Debug)]
pub struct Filter {
    caps: Caps,
    sketch: Sketch,
    groups: Map<Group, Places>,
    tracked: usize,
    halved_at: Option<u32>,
}

/// Names that compete with each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Group {
    Routes,
    Rules,
    Keys(Arc<str>),
}

impl Group {
    fn of(label: &Label) -> Option<Self> {
        match label {
            Label::Requests | Label::Decisions => None,
            Label::Route(_) => Some(Self::Routes),
            Label::Rule(_) => Some(Self::Rules),
            Label::Key { rule, .. } => Some(Self::Keys(rule.clone())),
        }
    }
}

impl Filter {
    /// One that has seen nothing yet.
    pub fn new(caps: Caps) -> Self {
        Self { caps, sketch: Sketch::new(), groups: Map::default(), tracked: 0, halved_at: None }
    }

    /// How many names have a place.
    pub const fn tracked(&self) -> usize {
        self.tracked
    }

    /// Takes out of the tally what gets no series; the totals still have it.
    pub fn choose(&mut self, tally: &mut Tally, minute: u32) {
        self.age(minute);
        let mut refused: Map<Label, ()> = Map::default();
        for (label, count) in newcomers(tally, |label, count| self.is_tracked(label, count)) {
            if !self.admit(&label, count) {
                refused.insert(label, ());
            }
        }
        if refused.is_empty() {
            return;
        }
        for counts in tally.minutes.values_mut() {
            counts.retain(|label, _| !refused.contains_key(label));
        }
    }

    fn is_tracked(&mut self, label: &Label, count: u64) -> bool {
        match Group::of(label) {
            Some(group) => self.groups.get_mut(&group).is_some_and(|places| places.add(label, count)),
            None => true,
        }
    }

    /// Gives the name a place if it deserves one.
    fn admit(&mut self, label: &Label, count: u64) -> bool {
        let Some(group) = Group::of(label) else { return true };
        let often = self.sketch.add(label, count);
        let most = match group {
            Group::Routes => self.caps.routes,
            Group::Rules => self.caps.rules,
            Group::Keys(_) => self.caps.keys_per_rule,
        };
        let places = self.groups.entry(group).or_default();
        if places.counts.len() >= most || self.tracked >= self.caps.all {
            let Some((count, rarest)) = places.make_room(often) else { return false };
            self.sketch.remember(&rarest, count);
            self.tracked -= 1;
        }
        places.insert(label.clone(), often);
        self.tracked += 1;
        true
    }

    fn age(&mut self, minute: u32) {
        let since = minute.saturating_sub(*self.halved_at.get_or_insert(minute));
        if since >= HALVE_EVERY_MIN {
            self.halved_at = Some(minute);
            self.sketch.halve();
            self.groups.values_mut().for_each(Places::halve);
        }
    }
}

/// The labels that have no place yet, the most frequent first, and by name where
/// they are equal, so that the same tally is always chosen from in the same way.
fn newcomers(tally: &Tally, mut is_tracked: impl FnMut(&Label, u64) -> bool) -> Vec<(Label, u64)> {
    let mut fresh: Map<Label, u64> = Map::default();
    for counts in tally.minutes.values() {
        for (label, counts) in counts {
            match fresh.get_mut(label) {
                Some(count) => *count = count.saturating_add(counts.total()),
                None if is_tracked(label, counts.total()) => {}
                None => {
                    fresh.insert(label.clone(), counts.total());
                }
            }
        }
    }
    let mut sorted: Vec<(Label, u64)> = fresh.into_iter().collect();
    sorted.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::Outcome;

    fn tally(routes: &[(&str, u64)]) -> Tally {
        let mut tally = Tally::default();
        for (route, count) in routes {
            tally.add(1, Label::Requests, Outcome::Allowed, *count);
            tally.add(1, Label::Route((*route).into()), Outcome::Allowed, *count);
        }
        tally
    }

    fn chosen(filter: &mut Filter, routes: &[(&str, u64)]) -> Vec<String> {
        let mut tally = tally(routes);
        filter.choose(&mut tally, 1);
        let mut names: Vec<String> = tally.minutes[&1].keys().map(|label| label.name().to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_frequent_name_takes_the_place_of_a_rare_one() {
        let mut filter = Filter::new(Caps { routes: 2, ..Caps::default() });
        assert_eq!(chosen(&mut filter, &[("/a", 5), ("/b", 1), ("/c", 1)]), ["", "/a", "/b"]);
        // "/c" has now come twice, and "/b" once.
        assert_eq!(chosen(&mut filter, &[("/c", 1)]), ["", "/c"]);
        assert_eq!(chosen(&mut filter, &[("/b", 1)]), [""]);
        assert_eq!(filter.tracked(), 2);
    }

    #[test]
    fn the_cap_on_all_names_holds_across_kinds() {
        let mut filter = Filter::new(Caps { all: 3, ..Caps::default() });
        let mut tally = tally(&[("/a", 1), ("/b", 1), ("/c", 1), ("/d", 1)]);
        for rule in ["x", "y"] {
            let label = Label::Key { rule: rule.into(), name: "k".into() };
            tally.add(1, label, Outcome::Denied, 9);
        }
        filter.choose(&mut tally, 1);
        assert_eq!(filter.tracked(), 3);
        let named = tally.minutes[&1].keys().filter(|label| label.by().is_some()).count();
        assert_eq!(named, 3);
    }

    #[test]
    fn what_was_popular_gives_way_after_hours() {
        let mut filter = Filter::new(Caps { routes: 1, ..Caps::default() });
        filter.choose(&mut tally(&[("/old", 1_000)]), 0);
        for hour in 1..12 {
            filter.age(hour * HALVE_EVERY_MIN);
        }
        assert_eq!(chosen(&mut filter, &[("/new", 3)]), ["", "/new"]);
    }
}
