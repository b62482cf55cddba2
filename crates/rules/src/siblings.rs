//! What descriptors of one level do to each other.
//!
//! A descriptor is known by its text: `key`, or `key_value`. A request's entry
//! is looked up by that text, then by patterns in the order written, then by
//! its key alone. So two descriptors may be one and the same, a pattern may
//! leave nothing to a later one, and a `_` may be read in two ways.
//!
//! Invariant: a warning names a request that goes to another rule than its
//! author meant; keys that merely contain a `_` are no reason for one.
//!
//! Deliberately not here: matching itself, which is the core's.

use std::collections::{HashMap, HashSet};

use tollgate_core::RuleError;
use tollgate_core::rule::DescriptorSpec;
use tollgate_yaml::{Location, Problems, quoted};

/// Longer keys and texts are not searched for a second reading.
const TEXT_MAX: usize = 256;
/// Patterns of one level are compared by at most so many lengths of their
/// beginnings; ordinary files have a handful.
const PREFIX_LENGTHS_MAX: usize = 64;

/// The descriptors of one level and where they stand.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    pub(crate) specs: Vec<DescriptorSpec>,
    locations: Vec<SiblingLocations>,
}

#[derive(Debug, Clone, Copy)]
struct SiblingLocations {
    at: Location,
    key_at: Location,
    value_at: Location,
}

impl Siblings {
    pub(crate) fn push(&mut self, spec: DescriptorSpec, at: Location, key_at: Location, value_at: Location) {
        self.specs.push(spec);
        self.locations.push(SiblingLocations { at, key_at, value_at });
    }

    /// Adds the first level of another file.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.specs.append(&mut other.specs);
        self.locations.append(&mut other.locations);
    }
}

/// The text that a descriptor is known by.
pub(crate) fn text_of(key: &str, value: Option<&str>) -> String {
    value.map_or_else(|| key.to_owned(), |value| format!("{key}_{value}"))
}

/// Reports what the descriptors of one level do to each other.
pub(crate) fn check(level: &Siblings, path: &str, problems: &mut Problems) {
    let all = level.specs.iter().zip(&level.locations);
    let all: Vec<Sibling<'_>> = all.map(|(spec, locations)| Sibling::new(spec, *locations)).collect();
    let keys = SiblingKeys::new(&all);
    let mut first: HashMap<&str, &Sibling<'_>> = HashMap::with_capacity(all.len());
    let mut before = Prefixes::default();
    for one in &all {
        if let Some(earlier) = first.get(one.text.as_str()) {
            twice(earlier, one, path, problems);
            continue;
        }
        first.insert(&one.text, one);
        match one.prefix().and_then(|prefix| before.covering(prefix)) {
            Some(cover) => {
                let (own, cover) = (quoted(&one.text), quoted(&format!("{cover}*")));
                let message = format!("pattern {own} is never reached, {cover} stands before it");
                problems.warning(one.locations.value_at, message, "write the longer pattern first");
            }
            None => keys.check(one, problems),
        }
        before.add(one);
    }
}

fn twice(earlier: &Sibling<'_>, one: &Sibling<'_>, path: &str, problems: &mut Problems) {
    let first = earlier.locations.at;
    let error = RuleError::DescriptorTwice { path: format!("{path}.{}", one.text) }.to_string();
    let (message, help) = error.split_once("; ").unwrap_or((&error, ""));
    let file = match first.file == one.locations.at.file {
        true => String::new(),
        false => format!(" of {}", problems.name_of(first.file)),
    };
    problems.error(one.locations.at, format!("{message}, first at line {}{file}", first.line), help);
}

/// One descriptor, prepared for comparing.
struct Sibling<'a> {
    key: &'a str,
    value: Option<&'a str>,
    text: String,
    /// Where the first `*` of the text is.
    star: Option<usize>,
    locations: SiblingLocations,
}

impl<'a> Sibling<'a> {
    fn new(spec: &'a DescriptorSpec, locations: SiblingLocations) -> Self {
        let (key, value) = (spec.key.as_str(), spec.value.as_deref());
        let text = text_of(key, value);
        let star = text.find('*');
        Self { key, value, text, star, locations }
    }

    /// What every match of a pattern begins with.
    fn prefix(&self) -> Option<&str> {
        self.text.get(..self.star?)
    }

    /// What every match begins with, pattern or not.
    fn literal(&self) -> &str {
        self.prefix().unwrap_or(&self.text)
    }
}

/// Beginnings of patterns that match everything that begins so.
#[derive(Default)]
struct Prefixes {
    all: HashSet<String>,
    lengths: Vec<usize>,
}

impl Prefixes {
    fn add(&mut self, one: &Sibling<'_>) {
        let Some(prefix) = one.prefix().filter(|prefix| prefix.len() + 1 == one.text.len()) else { return };
        if !self.lengths.contains(&prefix.len()) {
            if self.lengths.len() >= PREFIX_LENGTHS_MAX {
                return;
            }
            self.lengths.push(prefix.len());
        }
        self.all.insert(prefix.to_owned());
    }

    /// The one that matches whatever begins with `prefix`.
    fn covering(&self, prefix: &str) -> Option<&str> {
        let beginnings = self.lengths.iter().filter_map(|length| prefix.get(..*length));
        beginnings.filter_map(|beginning| self.all.get(beginning)).map(String::as_str).next()
    }
}

/// The keys of a level, for texts that can be read in two ways.
struct SiblingKeys<'a> {
    /// By key: the pattern for its values that matches most, if there is one.
    all: HashMap<&'a str, Option<&'a Sibling<'a>>>,
}

impl<'a> SiblingKeys<'a> {
    fn new(level: &'a [Sibling<'a>]) -> Self {
        let mut all: HashMap<&str, Option<&Sibling<'_>>> = HashMap::new();
        for one in level.iter().filter(|one| one.key.len() <= TEXT_MAX && !one.key.contains('*')) {
            let pattern = all.entry(one.key).or_default();
            // The shorter the beginning, the more begins so.
            if one.star.is_some() && pattern.is_none_or(|known| one.star < known.star) {
                *pattern = Some(one);
            }
        }
        Self { all }
    }

    fn check(&self, one: &Sibling<'_>, problems: &mut Problems) {
        let first = self.as_key_of_others(one).or_else(|| self.by_pattern_of_another(one));
        if let Some((at, message)) = first.or_else(|| self.instead_of_another(one)) {
            problems.warning(at, message, "write keys and values in which '_' can be read in one way only");
        }
    }

    /// Its text is another key, whose values that have no rule end up here.
    fn as_key_of_others(&self, one: &Sibling<'_>) -> Option<(Location, String)> {
        let value = quoted(one.value.filter(|_| self.all.contains_key(one.text.as_str()))?);
        let (key, text) = (quoted(one.key), quoted(&one.text));
        let message = format!(
            "requests with key {text} and a value without a rule are caught by key {key}, value {value}"
        );
        Some((one.locations.value_at, message))
    }

    /// A pattern of another key is tried before a key without a value.
    fn by_pattern_of_another(&self, one: &Sibling<'_>) -> Option<(Location, String)> {
        if one.value.is_some() || one.star.is_some() {
            return None;
        }
        let own = format!("{}_", one.key);
        let patterns = readings(one.key).filter_map(|(key, _)| self.all.get(key).copied().flatten());
        let pattern = patterns.into_iter().find(|pattern| own.starts_with(pattern.literal()))?;
        let (key, other) = (quoted(one.key), quoted(pattern.key));
        let value = quoted(pattern.value.unwrap_or_default());
        let message =
            format!("requests with key {key} are caught by the pattern of key {other}, value {value}");
        Some((one.locations.key_at, message))
    }

    /// A request for another key ends up here.
    fn instead_of_another(&self, one: &Sibling<'_>) -> Option<(Location, String)> {
        let mut others = readings(one.literal()).filter(|(key, _)| *key != one.key);
        let (key, value) = others.find(|(key, _)| self.all.contains_key(key))?;
        let value = if one.star.is_some() { format!("{value}*") } else { value.to_owned() };
        let (own, key, value) = (quoted(one.key), quoted(key), quoted(&value));
        let message = format!("a request with key {key}, value {value} is caught by this rule for key {own}");
        Some((one.locations.key_at, message))
    }
}

/// Every way to read a text as key, `_` and value.
fn readings(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let places = text.match_indices('_').map(|(at, _)| at).take_while(|at| *at <= TEXT_MAX);
    places.filter_map(|at| Some((text.get(..at)?, text.get(at + 1..)?)))
}
