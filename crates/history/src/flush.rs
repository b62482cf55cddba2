//! What a process has counted since its last flush, ready to be written.
//!
//! [`crate::Recorder`] and imports make a [`Flush`]; a [`crate::History`] writes it.
//! [`TrafficCounts`] are the counts in it.
//!
//! Invariant: a flush is identified by its instance and sequence number and never
//! changes under that id once it was sent, so writing it twice counts it once.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::fmt;

use tollgate_core::{Micros, Outcome, Time};

use crate::Map;
use crate::counts::Counts;
use crate::label::Label;

/// Who counted: one run of a process, or a piece of an imported log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub [u8; 16]);

impl InstanceId {
    /// A new one.
    ///
    /// # Panics
    /// If the system gives no random numbers, which none that we run on does.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("every system that we run on gives random numbers");
        Self(bytes)
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Identifies a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlushId {
    /// Who counted.
    pub instance: InstanceId,
    /// From 1, growing; one that is not above the last written is a repeat.
    pub seq: u64,
}

impl FlushId {
    /// Its key in a shared log: the instance and the big-endian sequence number.
    ///
    /// ```
    /// use tollgate_history::{FlushId, InstanceId};
    /// let id = FlushId { instance: InstanceId([7; 16]), seq: 1 };
    /// assert_eq!(FlushId::from_key(&id.key()), Some(id));
    /// ```
    pub fn key(&self) -> [u8; 24] {
        let mut key = [0; 24];
        for (to, from) in key.iter_mut().zip(self.instance.0.into_iter().chain(self.seq.to_be_bytes())) {
            *to = from;
        }
        key
    }

    /// The id with that key; none if it is not such a key.
    pub fn from_key(key: &[u8]) -> Option<Self> {
        let (instance, seq) = key.split_first_chunk::<16>()?;
        Some(Self { instance: InstanceId(*instance), seq: u64::from_be_bytes(seq.try_into().ok()?) })
    }
}

/// The counts of one minute.
pub(crate) type MinuteCounts = Map<Label, Counts>;

/// Counts by minute and label.
#[derive(Debug, Clone, Default)]
pub struct TrafficCounts {
    pub(crate) minutes: BTreeMap<u32, MinuteCounts>,
}

impl TrafficCounts {
    /// Counts `count` more towards a series in a minute since the epoch.
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

    /// The minutes that it covers, in order.
    pub fn minutes(&self) -> impl Iterator<Item = u32> + '_ {
        self.minutes.keys().copied()
    }

    /// Its size: how many counts it holds.
    pub fn rows(&self) -> usize {
        self.minutes.values().map(|counts| counts.len() + 1).sum()
    }

    /// How many requests it covers.
    pub fn requests(&self) -> u64 {
        let all = self.minutes.values().filter_map(|counts| counts.get(&Label::Requests));
        all.fold(0, |sum, counts| sum.saturating_add(counts.total()))
    }

    /// Renames every key that is meant; keys that get the same name are added up.
    ///
    /// ```
    /// use tollgate_history::{Label, Outcome, TrafficCounts};
    /// let mut counts = TrafficCounts::default();
    /// let label = Label::Key { domain: "d".into(), rule: "r".into(), name: "user_id=42".into() };
    /// counts.add(1, label, Outcome::Denied, 2);
    /// counts.rename_keys(|name| name.starts_with("user_id"), |_| "hidden".to_owned());
    /// assert!(format!("{counts:?}").contains("hidden"));
    /// assert!(!format!("{counts:?}").contains("user_id"));
    /// ```
    pub fn rename_keys(&mut self, is_meant: impl Fn(&str) -> bool, rename: impl Fn(&str) -> String) {
        for counts in self.minutes.values_mut() {
            let is_renamed = |label: &Label| matches!(label, Label::Key { name, .. } if is_meant(name));
            let renamed = counts.extract_if(|label, _| is_renamed(label));
            let renamed: Vec<(Label, Counts)> = renamed.collect();
            for (label, more) in renamed {
                let Label::Key { domain, rule, name } = label else { continue };
                let name = rename(&name).into();
                counts.entry(Label::Key { domain, rule, name }).or_default().merge(&more);
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

    /// Adds everything of `other`.
    pub(crate) fn merge_all(&mut self, other: Self) {
        for (minute, counts) in other.minutes {
            self.mark_up(minute);
            for (label, counts) in counts {
                self.merge(minute, label, &counts);
            }
        }
    }

    /// Notes that somebody was counting in that minute, even if nothing came.
    pub(crate) fn mark_up(&mut self, minute: u32) {
        self.minutes.entry(minute).or_default();
    }
}

/// How far ahead of the store's clock a minute may be: more than clocks that are kept
/// in step ever differ, and too little to do harm.
const AHEAD_MAX: Micros = Micros::from_secs(300);

/// Whether a second is so far ahead of the store's clock that it cannot be true.
pub(crate) fn is_future(second: u64, clock: Time) -> bool {
    Time::from_secs(second) > clock + AHEAD_MAX
}

/// What has been counted since the last flush.
#[derive(Debug, Clone)]
pub struct Flush {
    /// Its id.
    pub id: FlushId,
    /// The counts.
    pub counts: TrafficCounts,
}

impl Flush {
    /// Removes the minutes that are more than five minutes ahead of the store's clock
    /// ([`crate::History::clock`]); returns how many requests they had.
    pub fn refuse_future(&mut self, clock: Time) -> u64 {
        let minutes = &mut self.counts.minutes;
        let first = minutes.keys().copied().find(|minute| is_future(u64::from(*minute) * 60, clock));
        let refused = first.map(|first| minutes.split_off(&first)).unwrap_or_default();
        TrafficCounts { minutes: refused }.requests()
    }
}

/// What became of a flush that was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendResult {
    /// It is counted now.
    Written,
    /// It was counted before.
    Repeated,
}
