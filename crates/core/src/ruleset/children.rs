//! Finding one child among many.
//!
//! Each node holds [`Children`]: exact texts in a hash table, patterns in a
//! second one by the text they begin with. A few children are compared one by
//! one, which is quicker than a hash.
//!
//! The identity of a child is the text `key` or `key_value`, as in
//! envoyproxy/ratelimit. A request's entry is compared piece by piece, so that
//! looking one up joins no strings.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::pattern::Pattern;
use crate::request::Entry;
use crate::short_text::is_same;

/// How a child was found.
///
/// ```
/// use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
/// use tollgate_core::{Limit, RuleSet, Shape, Unit};
/// let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow)?;
/// let rule = RuleSpec { label: "burst".into(), ..RuleSpec::new(limit, Unit::Minute) };
/// let limits = LimitsSpec::Limits(vec![rule]);
/// let user = DescriptorSpec { key: "user_id".into(), limits, ..Default::default() };
/// let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors: vec![user], ..Default::default() }])?;
/// # use tollgate_core::ruleset::How;
/// let trace = rules.trace("shop", &[("user_id", "42").into()]).expect("a known domain");
/// assert_eq!(trace.levels[0].chosen, Some(("user_id", How::KeyOnly)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Key and value are the ones written.
    Exact,
    /// The value fits a pattern.
    Wildcard,
    /// The key is the one written, and any value will do.
    KeyOnly,
}

/// Up to so many children are compared one by one.
const FEW: usize = 8;

/// The children of one node.
#[derive(Debug, Default)]
pub(super) struct Children {
    hasher: RandomState,
    all: Vec<Child>,
    /// Places in `all` by the hash of the text.
    exact: HashMap<u64, Vec<usize>>,
    /// Patterns by the hash of what they begin with.
    wildcards: HashMap<u64, Vec<Wildcard>>,
    /// The lengths of what patterns begin with, each once.
    prefix_lengths: Vec<usize>,
}

#[derive(Debug)]
struct Child {
    text: Box<str>,
    node: usize,
}

#[derive(Debug)]
struct Wildcard {
    /// The key as written and the pattern of the value; none if the key itself
    /// has a `*`.
    by_value: Option<(Box<str>, Pattern)>,
    /// The pattern of the whole text.
    whole: Pattern,
    node: usize,
}

impl Children {
    /// Adds a child; false if one of the same text is there.
    pub(super) fn insert(&mut self, key: &str, value: Option<&str>, node: usize) -> bool {
        let text = text_of(key, value);
        let hash = self.hash([text.as_bytes()].into_iter());
        if self.by_text(&[&text]).is_some() {
            return false;
        }
        self.exact.entry(hash).or_default().push(self.all.len());
        self.all.push(Child { text: text.as_ref().into(), node });
        if let Some(whole) = Pattern::new(&text) {
            let length = whole.prefix().len();
            if !self.prefix_lengths.contains(&length) {
                self.prefix_lengths.push(length);
            }
            let hash = self.hash([whole.prefix().as_bytes()].into_iter());
            let by_value =
                value.filter(|_| !key.contains('*')).and_then(Pattern::new).map(|value| (key.into(), value));
            self.wildcards.entry(hash).or_default().push(Wildcard { by_value, whole, node });
        }
        true
    }

    /// The child for an entry: exact, then the first pattern, then the key alone. The entry stays where it is: callers
    /// have just written it word by word, and a copy by two words waits until both have left the processor.
    #[inline]
    pub(super) fn find(&self, entry: &Entry<'_>) -> Option<(usize, How)> {
        match self.all.len() <= FEW && self.wildcards.is_empty() {
            true => self.find_of_few(entry),
            false => self.find_of_many(entry),
        }
    }

    /// The same among a few without a pattern, of which mostly the key alone is one. One that may be the key with its
    /// value is looked for elsewhere: a loop without a call takes a fifth fewer instructions.
    #[inline]
    fn find_of_few(&self, entry: &Entry<'_>) -> Option<(usize, How)> {
        let joined = entry.key.len() + 1 + entry.value.len();
        let mut by_key = None;
        for Child { text, node } in &self.all {
            if is_same(text, entry.key) {
                by_key = Some((*node, How::KeyOnly));
            } else if text.len() == joined {
                return self.find_of_many(entry);
            }
        }
        by_key
    }

    #[inline(never)]
    fn find_of_many(&self, entry: &Entry<'_>) -> Option<(usize, How)> {
        self.exact(entry)
            .map(|node| (node, How::Exact))
            .or_else(|| self.wildcard(entry).map(|node| (node, How::Wildcard)))
            .or_else(|| self.key_only(entry).map(|node| (node, How::KeyOnly)))
    }

    pub(super) fn exact(&self, entry: &Entry<'_>) -> Option<usize> {
        self.by_text(&[entry.key, "_", entry.value])
    }

    pub(super) fn key_only(&self, entry: &Entry<'_>) -> Option<usize> {
        self.by_text(&[entry.key])
    }

    /// The child for every entry of this key; none if it depends on the value.
    pub(super) fn find_by_key(&self, key: &str) -> Option<usize> {
        let may_be_exact =
            |child: &Child| child.text.strip_prefix(key).is_some_and(|rest| rest.starts_with('_'));
        let depends = !self.wildcards.is_empty() || self.all.iter().any(may_be_exact);
        if depends { None } else { self.by_text(&[key]) }
    }

    /// The child whose text is these pieces joined.
    fn by_text(&self, pieces: &[&str]) -> Option<usize> {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let is_it = |child: &&Child| {
            // Nearly all others differ in length already.
            child.text.len() == length && is_joined(&child.text, pieces)
        };
        if self.all.len() <= FEW {
            return self.all.iter().find(is_it).map(|child| child.node);
        }
        let hash = self.hash(pieces.iter().map(|piece| piece.as_bytes()));
        let places = self.exact.get(&hash)?.iter();
        places.filter_map(|&place| self.all.get(place)).find(is_it).map(|child| child.node)
    }

    /// Nodes are numbered in the order written, so the first pattern that fits
    /// is the one with the lowest number.
    pub(super) fn wildcard(&self, entry: &Entry<'_>) -> Option<usize> {
        self.prefix_lengths.iter().filter_map(|&length| self.wildcard_of(entry, length)).min()
    }

    fn wildcard_of(&self, entry: &Entry<'_>, prefix_length: usize) -> Option<usize> {
        let mut left = prefix_length;
        let mut beginning = |piece: &'_ str| {
            let taken = piece.len().min(left);
            left -= taken;
            taken
        };
        let (key, joint, value) = (beginning(entry.key), beginning("_"), beginning(entry.value));
        if left > 0 {
            return None;
        }
        let pieces =
            [entry.key.as_bytes().get(..key)?, b"_".get(..joint)?, entry.value.as_bytes().get(..value)?];
        let hash = self.hash(pieces.into_iter());
        let fits = |wildcard: &&Wildcard| match &wildcard.by_value {
            Some((key, pattern)) if **key == *entry.key => pattern.matches(entry.value),
            _ => wildcard.whole.matches(&text_of(entry.key, Some(entry.value))),
        };
        Some(self.wildcards.get(&hash)?.iter().find(fits)?.node)
    }

    /// The hash of some pieces as if they were one.
    fn hash<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for piece in pieces {
            hasher.write(piece);
        }
        hasher.finish()
    }
}

/// Whether a text is these pieces joined.
fn is_joined(text: &str, pieces: &[&str]) -> bool {
    pieces.iter().try_fold(text, |rest, piece| rest.strip_prefix(piece)) == Some("")
}

/// The text of a level: `key`, or `key_value` where there is a value.
pub(super) fn text_of<'a>(key: &'a str, value: Option<&str>) -> Cow<'a, str> {
    match value {
        None => Cow::Borrowed(key),
        Some(value) => Cow::Owned(format!("{key}_{value}")),
    }
}
