//! What a process has counted since its last flush, ready to be written.
//!
//! [`crate::Recorder`] and the import of logs make a [`Flush`];
//! [`crate::History::append`] writes it. A [`Tally`] is the sum in between.
//!
//! Invariant: a flush is named by its instance and its number and never changes
//! under that name, so that writing it twice counts once.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::fmt;

use crate::Map;
use crate::counts::Counts;
use crate::label::Label;
use tollgate_core::Outcome;

/// Who counted: a process from start to end, or a piece of an imported log.
///
/// ```
/// use tollgate_history::Instance;
/// assert_ne!(Instance::random(), Instance::random());
/// assert_eq!(Instance([0; 16]).to_string(), "00000000000000000000000000000000");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instance(pub [u8; 16]);

impl Instance {
    /// One that nobody else has.
    ///
    /// # Panics
    /// If the system gives no random numbers, which none that we run on does.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("every system that we run on gives random numbers");
        Self(bytes)
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The name of a flush.
///
/// ```
/// use tollgate_history::{FlushName, Instance};
/// let name = FlushName { instance: Instance([7; 16]), seq: 1 };
/// assert!(name < FlushName { seq: 2, ..name });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlushName {
    /// Who counted.
    pub instance: Instance,
    /// From 1, one more each time; a smaller number than the last is a repeat.
    pub seq: u64,
}

impl FlushName {
    /// Its key in a log that several processes share: the instance, and the number
    /// with its highest byte first.
    ///
    /// ```
    /// use tollgate_history::{FlushName, Instance};
    /// let name = FlushName { instance: Instance([7; 16]), seq: 1 };
    /// assert_eq!(FlushName::of_key(&name.key()), Some(name));
    /// ```
    pub fn key(&self) -> [u8; 24] {
        let mut key = [0; 24];
        for (to, from) in key.iter_mut().zip(self.instance.0.into_iter().chain(self.seq.to_be_bytes())) {
            *to = from;
        }
        key
    }

    /// The name by that key; none if it is no such key.
    pub fn of_key(key: &[u8]) -> Option<Self> {
        let (instance, seq) = key.split_first_chunk::<16>()?;
        Some(Self { instance: Instance(*instance), seq: u64::from_be_bytes(seq.try_into().ok()?) })
    }
}

/// What one minute has counted.
pub(crate) type MinuteCounts = Map<Label, Counts>;

/// Counts by minute and label, before and after labels are chosen.
///
/// ```
/// use tollgate_history::{Label, Outcome, Tally};
/// let mut tally = Tally::default();
/// tally.add(27_000_000, Label::Route("/cart".into()), Outcome::Allowed, 2);
/// assert_eq!(tally.minutes().collect::<Vec<_>>(), [27_000_000]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub(crate) minutes: BTreeMap<u32, MinuteCounts>,
}

impl Tally {
    /// Counts `count` more towards a series in a minute, counted from the epoch.
    pub fn add(&mut self, minute: u32, label: Label, outcome: Outcome, count: u64) {
        self.minutes.entry(minute).or_default().entry(label).or_default().add(outcome, count);
    }

    /// Counts one request: towards all requests and, if it has one, its route.
    pub fn add_request(&mut self, minute: u32, route: Option<&str>, outcome: Outcome) {
        self.add(minute, Label::Requests, outcome, 1);
        if let Some(route) = route {
            self.add(minute, Label::Route(route.into()), outcome, 1);
        }
    }

    /// The minutes that it tells of, the first first.
    pub fn minutes(&self) -> impl Iterator<Item = u32> + '_ {
        self.minutes.keys().copied()
    }

    /// How many counts it holds: its size.
    pub fn rows(&self) -> usize {
        self.minutes.values().map(|counts| counts.len() + 1).sum()
    }

    /// How many requests it tells of.
    pub fn requests(&self) -> u64 {
        let all = self.minutes.values().filter_map(|counts| counts.get(&Label::Requests));
        all.fold(0, |sum, counts| sum.saturating_add(counts.total()))
    }

    /// Gives every key another name; keys that get the same one count together.
    ///
    /// ```
    /// use tollgate_history::{Label, Outcome, Tally};
    /// let mut tally = Tally::default();
    /// let label = Label::Key { rule: "r".into(), name: "user_id=42".into() };
    /// tally.add(1, label, Outcome::Denied, 2);
    /// tally.rename_keys(|_| "hidden".to_owned());
    /// assert!(format!("{tally:?}").contains("hidden"));
    /// assert!(!format!("{tally:?}").contains("user_id"));
    /// ```
    pub fn rename_keys(&mut self, rename: impl Fn(&str) -> String) {
        for counts in self.minutes.values_mut() {
            let renamed = counts.extract_if(|label, _| matches!(label, Label::Key { .. }));
            let renamed: Vec<(Label, Counts)> = renamed.collect();
            for (label, more) in renamed {
                let Label::Key { rule, name } = label else { continue };
                let name = rename(&name).into();
                counts.entry(Label::Key { rule, name }).or_default().merge(&more);
            }
        }
    }

    pub(crate) fn merge(&mut self, minute: u32, label: Label, counts: &Counts) {
        match self.minutes.entry(minute).or_default().entry(label) {
            Entry::Occupied(mut kept) => kept.get_mut().merge(counts),
            Entry::Vacant(place) => {
                place.insert(*counts);
            }
        }
    }

    /// Says that somebody was there to count, though there was nothing.
    pub(crate) fn was_up(&mut self, minute: u32) {
        self.minutes.entry(minute).or_default();
    }
}

/// What has been counted since the last flush, under a name.
///
/// ```
/// use tollgate_history::{Flush, FlushName, Instance, Outcome, Tally};
/// let mut tally = Tally::default();
/// tally.add_request(27_000_000, Some("/cart"), Outcome::Allowed);
/// let flush = Flush { name: FlushName { instance: Instance([7; 16]), seq: 1 }, tally };
/// assert_eq!(flush.name.seq, 1);
/// ```
#[derive(Debug, Clone)]
pub struct Flush {
    /// Its name.
    pub name: FlushName,
    /// The counts.
    pub tally: Tally,
}

/// What became of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It counts now.
    Written,
    /// It counted already.
    Repeated,
}
