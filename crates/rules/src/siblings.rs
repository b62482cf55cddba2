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

use super::problem::{Place, Report, quoted};

/// Longer keys and texts are not searched for a second reading.
const TEXT_MAX: usize = 256;
/// Patterns of one level are compared by at most so many lengths of their
/// beginnings; ordinary files have a handful.
const PREFIX_LENGTHS_MAX: usize = 64;

/// The descriptors of one level and where they stand.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    pub(crate) specs: Vec<DescriptorSpec>,
    places: Vec<Places>,
}

#[derive(Debug, Clone, Copy)]
struct Places {
    at: Place,
    key_at: Place,
    value_at: Place,
}

impl Siblings {
    pub(crate) fn push(&mut self, spec: DescriptorSpec, at: Place, key_at: Place, value_at: Place) {
        self.specs.push(spec);
        self.places.push(Places { at, key_at, value_at });
    }

    /// Adds the first level of another file.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.specs.append(&mut other.specs);
        self.places.append(&mut other.places);
    }
}

/// The text that a descriptor is known by.
pub(crate) fn text_of(key: &str, value: Option<&str>) -> String {
    value.map_or_else(|| key.to_owned(), |value| format!("{key}_{value}"))
}

/// Reports what the descriptors of one level do to each other.
pub(crate) fn check(level: &Siblings, path: &str, report: &mut Report) {
    let all = level.specs.iter().zip(&level.places);
    let all: Vec<One<'_>> = all.map(|(spec, places)| One::new(spec, *places)).collect();
    let keys = Keys::new(&all);
    let mut first: HashMap<&str, &One<'_>> = HashMap::with_capacity(all.len());
    let mut before = Prefixes::default();
    for one in &all {
        if let Some(earlier) = first.get(one.text.as_str()) {
            twice(earlier, one, path, report);
            continue;
        }
        first.insert(&one.text, one);
        match one.prefix().and_then(|prefix| before.covering(prefix)) {
            Some(cover) => {
                let (own, cover) = (quoted(&one.text), quoted(&format!("{cover}*")));
                let message = format!("pattern {own} is never reached, {cover} stands before it");
                report.warning(one.places.value_at, message, "write the longer pattern first");
            }
            None => keys.check(one, report),
        }
        before.add(one);
    }
}

fn twice(earlier: &One<'_>, one: &One<'_>, path: &str, report: &mut Report) {
    let first = earlier.places.at;
    let error = RuleError::DescriptorTwice { path: format!("{path}.{}", one.text) }.to_string();
    let (message, help) = error.split_once("; ").unwrap_or((&error, ""));
    let file = match first.file == one.places.at.file {
        true => String::new(),
        false => format!(" of {}", report.name_of(first.file)),
    };
    report.error(one.places.at, format!("{message}, first at line {}{file}", first.line), help);
}

/// One descriptor, prepared for comparing.
struct One<'a> {
    key: &'a str,
    value: Option<&'a str>,
    text: String,
    /// Where the first `*` of the text is.
    star: Option<usize>,
    places: Places,
}

impl<'a> One<'a> {
    fn new(spec: &'a DescriptorSpec, places: Places) -> Self {
        let (key, value) = (spec.key.as_str(), spec.value.as_deref());
        let text = text_of(key, value);
        let star = text.find('*');
        Self { key, value, text, star, places }
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
    fn add(&mut self, one: &One<'_>) {
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
struct Keys<'a> {
    /// By key: the pattern for its values that matches most, if there is one.
    all: HashMap<&'a str, Option<&'a One<'a>>>,
}

impl<'a> Keys<'a> {
    fn new(level: &'a [One<'a>]) -> Self {
        let mut all: HashMap<&str, Option<&One<'_>>> = HashMap::new();
        for one in level.iter().filter(|one| one.key.len() <= TEXT_MAX && !one.key.contains('*')) {
            let pattern = all.entry(one.key).or_default();
            // The shorter the beginning, the more begins so.
            if one.star.is_some() && pattern.is_none_or(|known| one.star < known.star) {
                *pattern = Some(one);
            }
        }
        Self { all }
    }

    fn check(&self, one: &One<'_>, report: &mut Report) {
        let first = self.as_key_of_others(one).or_else(|| self.by_pattern_of_another(one));
        if let Some((at, message)) = first.or_else(|| self.instead_of_another(one)) {
            report.warning(at, message, "write keys and values in which '_' can be read in one way only");
        }
    }

    /// Its text is another key, whose values that have no rule end up here.
    fn as_key_of_others(&self, one: &One<'_>) -> Option<(Place, String)> {
        let value = quoted(one.value.filter(|_| self.all.contains_key(one.text.as_str()))?);
        let (key, text) = (quoted(one.key), quoted(&one.text));
        let message = format!(
            "requests with key {text} and a value without a rule are caught by key {key}, value {value}"
        );
        Some((one.places.value_at, message))
    }

    /// A pattern of another key is tried before a key without a value.
    fn by_pattern_of_another(&self, one: &One<'_>) -> Option<(Place, String)> {
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
        Some((one.places.key_at, message))
    }

    /// A request for another key ends up here.
    fn instead_of_another(&self, one: &One<'_>) -> Option<(Place, String)> {
        let mut others = readings(one.literal()).filter(|(key, _)| *key != one.key);
        let (key, value) = others.find(|(key, _)| self.all.contains_key(key))?;
        let value = if one.star.is_some() { format!("{value}*") } else { value.to_owned() };
        let (own, key, value) = (quoted(one.key), quoted(key), quoted(&value));
        let message = format!("a request with key {key}, value {value} is caught by this rule for key {own}");
        Some((one.places.key_at, message))
    }
}

/// Every way to read a text as key, `_` and value.
fn readings(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let places = text.match_indices('_').map(|(at, _)| at).take_while(|at| *at <= TEXT_MAX);
    places.filter_map(|at| Some((text.get(..at)?, text.get(at + 1..)?)))
}
