//! The keys of rule files: which there are, and where each belongs.
//!
//! Asked by [`super::fields`] for every key of every map.
//!
//! Deliberately not here: what the values mean.

/// Which kind of map a key stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Root,
    Descriptor,
    Limit,
    Replaces,
}

impl Level {
    /// Where a key is that stands in such a map.
    pub(crate) const fn here(self) -> &'static str {
        match self {
            Self::Root => "at the top of the file",
            Self::Descriptor => "on a descriptor",
            Self::Limit => "inside a limit",
            Self::Replaces => "inside replaces",
        }
    }

    /// What such a map looks like.
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Self::Root => "write domain: NAME, and below it descriptors:",
            Self::Descriptor => "write key: NAME, and below it rate_limit:",
            Self::Limit => "write { unit: minute, requests_per_unit: 10 }",
            Self::Replaces => "write { name: NAME }",
        }
    }

    /// Where a key of this level is to be written.
    pub(crate) const fn whereabouts(self) -> &'static str {
        match self {
            Self::Root => "at the top of the file, beside domain",
            Self::Descriptor => "on the descriptor, beside its key",
            Self::Limit => "inside rate_limit",
            Self::Replaces => "inside replaces",
        }
    }

    /// The keys that belong here, in the order of the documentation.
    pub(crate) fn keys(self) -> impl Iterator<Item = &'static str> {
        KEYS.iter().filter(move |key| key.levels.contains(&self)).map(|key| key.name)
    }
}

/// A key that rule files know.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// Where it has a meaning.
    pub(crate) levels: &'static [Level],
    /// The reference knows it too, and lets it stand anywhere.
    pub(crate) is_old: bool,
}

const fn old(name: &'static str, levels: &'static [Level]) -> Key {
    Key { name, levels, is_old: true }
}

const fn new(name: &'static str, levels: &'static [Level]) -> Key {
    Key { name, levels, is_old: false }
}

const KEYS: &[Key] = {
    use Level::{Descriptor, Limit, Replaces, Root};
    &[
        old("domain", &[Root]),
        old("descriptors", &[Root, Descriptor]),
        old("key", &[Descriptor]),
        old("value", &[Descriptor]),
        old("rate_limit", &[Descriptor]),
        new("rate_limits", &[Descriptor]),
        old("shadow_mode", &[Descriptor]),
        old("quota_mode", &[Descriptor]),
        old("detailed_metric", &[Descriptor]),
        old("value_to_metric", &[Descriptor]),
        old("share_threshold", &[Descriptor]),
        old("metadata", &[Descriptor]),
        old("unit", &[Limit]),
        old("requests_per_unit", &[Limit]),
        old("unlimited", &[Limit]),
        old("name", &[Limit, Replaces]),
        old("replaces", &[Limit]),
        new("algorithm", &[Limit]),
        new("unit_multiplier", &[Limit]),
        new("burst", &[Limit]),
        new("refill", &[Limit]),
        new("buckets", &[Limit]),
        new("max_wait", &[Limit]),
        new("count_rejected", &[Limit]),
        new("throttle", &[Limit]),
        new("on_store_error", &[Limit]),
        new("message", &[Limit]),
    ]
};

/// Keys of a limit that a later version will know. They change what a limit
/// does, so ignoring them would be wrong.
const LATER: &[&str] = &["consistency", "concurrency", "penalty"];

/// The key of that name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Whether only a later version knows that key.
pub(crate) fn is_later(name: &str) -> bool {
    LATER.contains(&name)
}

/// The key that an unknown one was probably meant to be.
pub(crate) fn meant(name: &str, level: Level) -> Option<&'static str> {
    // What belongs here is meant rather than what belongs elsewhere.
    nearest(name, level.keys()).or_else(|| nearest(name, KEYS.iter().map(|key| key.name)))
}

/// What to write instead of an unknown key.
pub(crate) fn help_for(name: &str, level: Level) -> String {
    meant(name, level).map_or_else(|| one_of(level.keys()), |key| format!("write {key}"))
}

/// What to write instead of an unknown word: the nearest, or any of them.
pub(crate) fn help_for_word(key: &str, word: &str, words: &[&'static str]) -> String {
    match nearest(word, words.iter().copied()) {
        Some(word) => format!("write {key}: {word}"),
        None => format!("{} for {key}", one_of(words.iter().copied())),
    }
}

fn one_of(words: impl Iterator<Item = &'static str>) -> String {
    let words: Vec<&str> = words.collect();
    match words.as_slice() {
        [one] => format!("write {one}"),
        [first @ .., last] => format!("write {} or {last}", first.join(", ")),
        [] => String::new(),
    }
}

/// Longer words are not compared; no key is nearly as long.
const WORD_MAX: usize = 40;

/// The candidate that `word` is probably a misspelling of: at most one
/// mistake in three letters.
fn nearest(word: &str, candidates: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let letters: Vec<char> = word.chars().take(WORD_MAX + 1).collect();
    if letters.len() > WORD_MAX {
        return None;
    }
    candidates
        .map(|candidate| (distance(&letters, candidate), candidate))
        .filter(|(distance, candidate)| distance * 3 <= candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters to add, drop, change or swap with their neighbour.
fn distance(word: &[char], candidate: &str) -> usize {
    let candidate: Vec<char> = candidate.chars().collect();
    let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX / 2);
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=candidate.len()).collect();
    for (i, letter) in word.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in candidate.iter().enumerate() {
            let changed = at(&above, j) + usize::from(letter != other);
            let mut best = changed.min(at(&above, j + 1) + 1).min(at(&row, j) + 1);
            let is_swap =
                i > 0 && j > 0 && word.get(i - 1) == Some(other) && candidate.get(j - 1) == Some(letter);
            if is_swap {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    at(&above, candidate.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_key_gets_the_nearest_one_that_belongs_there() {
        let cases = [
            ("requests_per_unt", Level::Limit, "write requests_per_unit"),
            ("request_per_unit", Level::Limit, "write requests_per_unit"),
            ("uint", Level::Limit, "write unit"),
            ("rate-limit", Level::Descriptor, "write rate_limit"),
            ("ratelimits", Level::Descriptor, "write rate_limits"),
            ("Domain", Level::Root, "write domain"),
            ("descriptor", Level::Root, "write descriptors"),
            ("shadowmode", Level::Limit, "write shadow_mode"),
            ("colour", Level::Root, "write domain or descriptors"),
            ("xyzzy", Level::Replaces, "write name"),
        ];
        for (word, level, help) in cases {
            assert_eq!(help_for(word, level), help, "{word}");
        }
        assert_eq!(help_for(&"x".repeat(1_000_000), Level::Root), "write domain or descriptors");
    }
}
