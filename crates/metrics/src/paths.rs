//! Dotted paths that hold what callers send, and their bound.
//!
//! Most rules have one path, as written, and never come here. A path with
//! callers' values in it (`value_to_metric`, `detailed_metric`, a limit that
//! came with the request) is looked up in [`PathCounters`].
//!
//! Invariants: never more than the bound, whatever callers send; no path is
//! longer than [`PATH_MAX`]; nothing in a path can end a line of `StatsD`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foldhash::quality::RandomState;
use parking_lot::RwLock;
use smallvec::SmallVec;
use tollgate_core::Entry;

use super::counters::StripedCounters;

/// So many bytes of a value are shown; two values that begin alike count together.
pub(super) const VALUE_MAX: usize = 128;
/// So many entries of a descriptor are shown, as deep as rules nest.
const ENTRIES_MAX: usize = 64;
/// No path is longer: about what graph stores take for a name.
pub(super) const PATH_MAX: usize = 1_024;
/// A path is looked up in one of these parts, so that threads seldom meet.
const PARTS: usize = 16;

type Part = RwLock<HashMap<Arc<str>, Arc<StripedCounters>, RandomState>>;

/// Counters by path, so many and no more.
#[derive(Debug)]
pub(super) struct PathCounters {
    seed: RandomState,
    parts: [Part; PARTS],
    count: AtomicUsize,
    max: usize,
    folded: AtomicU64,
}

impl PathCounters {
    /// Room for `max` paths.
    pub(super) fn new(max: usize) -> Self {
        Self {
            seed: RandomState::default(),
            parts: Default::default(),
            count: AtomicUsize::new(0),
            max,
            folded: AtomicU64::new(0),
        }
    }

    /// The counters of that path; none if there is no room for another, which
    /// is counted.
    pub(super) fn counters(&self, path: &str) -> Option<Arc<StripedCounters>> {
        let part = self.part(path);
        if let Some(counters) = part.read().get(path) {
            return Some(Arc::clone(counters));
        }
        // Asked before the lock is taken: a flood of new paths locks nothing.
        if self.count.load(Ordering::Relaxed) >= self.max {
            self.folded.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let mut part = part.write();
        if let Some(counters) = part.get(path) {
            return Some(Arc::clone(counters));
        }
        if self.count.fetch_add(1, Ordering::Relaxed) >= self.max {
            self.count.fetch_sub(1, Ordering::Relaxed);
            self.folded.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let counters = Arc::new(StripedCounters::single());
        part.insert(path.into(), Arc::clone(&counters));
        Some(counters)
    }

    /// Takes all paths out.
    pub(super) fn drain(&self) -> Vec<(Arc<str>, Arc<StripedCounters>)> {
        let mut all = Vec::new();
        for part in &self.parts {
            let taken = std::mem::take(&mut *part.write());
            self.count.fetch_sub(taken.len(), Ordering::Relaxed);
            all.extend(taken);
        }
        all
    }

    /// Shows every path and its counters.
    pub(super) fn each(&self, mut show: impl FnMut(&Arc<str>, &StripedCounters)) {
        for part in &self.parts {
            // Copied out, so that nobody waits while names are put together.
            let all: Vec<_> =
                part.read().iter().map(|(path, counters)| (Arc::clone(path), Arc::clone(counters))).collect();
            for (path, counters) in all {
                show(&path, &counters);
            }
        }
    }

    /// How many paths there are.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// How often there was no room, ever.
    pub(super) fn folded(&self) -> u64 {
        self.folded.load(Ordering::Relaxed)
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder by their number is below it")]
    fn part(&self, path: &str) -> &Part {
        let hash = self.seed.hash_one(path);
        &self.parts[usize::try_from(hash >> 32).unwrap_or(0) % PARTS]
    }
}

/// The entries of a descriptor, cut to what is shown.
pub(super) fn shown_entries<'a>(entries: &[Entry<'a>]) -> SmallVec<[Entry<'a>; 8]> {
    let shown = entries.iter().take(ENTRIES_MAX);
    shown.map(|entry| Entry { key: cut(entry.key, VALUE_MAX), value: cut(entry.value, VALUE_MAX) }).collect()
}

/// The first bytes of a text, in whole characters.
pub(super) fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// A path as metrics name it: `:` and `|` mean something to `StatsD`, the dots
/// of an IPv4 address would be levels, and a line break would be another line.
pub(super) fn sanitised(path: &str) -> Cow<'_, str> {
    let path = cut(path, PATH_MAX);
    let is_special = |c: char| c == ':' || c == '|' || c.is_control();
    let clean = if path.contains(is_special) {
        Cow::Owned(path.replace(is_special, "_"))
    } else {
        Cow::Borrowed(path)
    };
    let mut dots = address_dots(&clean).peekable();
    if dots.peek().is_none() {
        drop(dots);
        return clean;
    }
    let dots: Vec<usize> = dots.collect();
    let with = |(at, c): (usize, char)| if dots.binary_search(&at).is_ok() { '_' } else { c };
    Cow::Owned(clean.char_indices().map(with).collect())
}

/// Where the dots of anything that looks like an IPv4 address are, in order.
fn address_dots(path: &str) -> impl Iterator<Item = usize> {
    let bytes = path.as_bytes();
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let (dots, end) = address_at(bytes, from)?;
            from = end;
            if let Some(dots) = dots {
                return Some(dots);
            }
        }
    })
    .flatten()
}

/// The next run of numbers and single dots from `from` on: the dots of the
/// address in it, if four numbers are there, and where to look on.
fn address_at(bytes: &[u8], from: usize) -> Option<(Option<[usize; 3]>, usize)> {
    let start = (from..bytes.len()).find(|at| is_digit(bytes, *at))?;
    let mut at = start;
    let mut dots = [0; 3];
    for dot in &mut dots {
        at = end_of_number(bytes, at);
        if bytes.get(at) != Some(&b'.') || !is_digit(bytes, at + 1) {
            return Some((None, at.max(start + 1)));
        }
        *dot = at;
        at += 1;
    }
    Some((Some(dots), end_of_number(bytes, at)))
}

fn is_digit(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(u8::is_ascii_digit)
}

fn end_of_number(bytes: &[u8], from: usize) -> usize {
    (from..).find(|at| !is_digit(bytes, *at)).unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sanitised_as_the_reference_does() {
        let rows = [
            ("domain.foo|bar", "domain.foo_bar"),
            ("domain.foo:bar", "domain.foo_bar"),
            ("domain.masked_remote_address_0.0.0.0/0", "domain.masked_remote_address_0_0_0_0/0"),
            ("domain.remote_address_172.18.0.1", "domain.remote_address_172_18_0_1"),
            ("domain.a_1.2.3.b_4", "domain.a_1.2.3.b_4"),
            ("d.x_1.2.3.4.y_10.0.0.1.z", "d.x_1_2_3_4.y_10_0_0_1.z"),
            ("d.x_1.2.3", "d.x_1.2.3"),
            ("d.v_1..2.3.4", "d.v_1..2.3.4"),
            ("d.k_ü.1.2.3.4", "d.k_ü.1_2_3_4"),
        ];
        for (path, expected) in rows {
            assert_eq!(sanitised(path), expected);
        }
    }

    #[test]
    fn a_line_break_in_a_value_makes_no_second_line() {
        assert_eq!(sanitised("d.k_a\nfake:1|c\r"), "d.k_a_fake_1_c_");
    }

    #[test]
    fn a_clean_name_is_not_copied() {
        assert!(matches!(sanitised("shop.user_id"), Cow::Borrowed("shop.user_id")));
    }

    #[test]
    fn a_path_and_a_value_have_a_longest_length() {
        assert_eq!(sanitised(&"x".repeat(PATH_MAX + 9)).len(), PATH_MAX);
        let value = "ü".repeat(VALUE_MAX);
        let entries = vec![Entry { key: "k", value: &value }; ENTRIES_MAX + 1];
        let shown = shown_entries(&entries);
        assert_eq!((shown.len(), shown[0].value.len()), (ENTRIES_MAX, VALUE_MAX));
        assert_eq!(cut("aü", 2), "a");
    }

    #[test]
    fn there_are_never_more_paths_than_the_bound() {
        let paths = PathCounters::new(100);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let paths = &paths;
                scope.spawn(move || {
                    for n in 0..500 {
                        drop(paths.counters(&format!("d.k_{}", n * (thread + 1))));
                    }
                });
            }
        });
        let mut shown = 0;
        paths.each(|_, _| shown += 1);
        assert_eq!((paths.len(), shown), (100, 100));
        assert!(paths.folded() >= 400);
        assert!(paths.counters("d.k_new").is_none());
        assert_eq!(paths.drain().len(), 100);
        assert!(paths.counters("d.k_new").is_some());
    }
}
