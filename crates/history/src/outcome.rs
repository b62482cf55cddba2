//! What became of a request or a decision, as history counts it.
//!
//! Recorders are called with an [`Outcome`]; every series keeps one curve per
//! outcome, and [`Counts`] is one number for each.
//!
//! Invariant: every decision has exactly one outcome, so that the outcomes of
//! a series add up to its total.

use tollgate_core::Verdict;

use crate::codec::bytes::index;

/// How many outcomes there are.
pub const OUTCOMES: usize = 6;

/// What became of a request or a decision.
///
/// ```
/// use tollgate_history::Outcome;
/// assert_eq!(Outcome::from_name("shadow_denied"), Some(Outcome::ShadowDenied));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Within the limit.
    Allowed,
    /// Over a soft limit, and let through.
    Soft,
    /// Let through after a wait.
    Delayed,
    /// Refused.
    Denied,
    /// A rule in the shadow would have refused it.
    ShadowDenied,
    /// Let through without asking the store, because the store was away.
    Degraded,
}

impl Outcome {
    /// All, in the order in which they are kept and shown.
    pub const ALL: [Self; OUTCOMES] =
        [Self::Allowed, Self::Soft, Self::Delayed, Self::Denied, Self::ShadowDenied, Self::Degraded];

    /// The outcome of a verdict and of what goes with it.
    ///
    /// A denial stays a denial whoever decided it; `degraded` is what was let
    /// through by a limiter that could not ask its store.
    ///
    /// ```
    /// use tollgate_core::Verdict;
    /// use tollgate_history::{Circumstances, Outcome};
    /// let denied = Verdict::Deny { retry_after: None };
    /// assert_eq!(Outcome::of(denied, Circumstances::default()), Outcome::Denied);
    /// let shadow = Circumstances { shadow: true, ..Circumstances::default() };
    /// assert_eq!(Outcome::of(denied, shadow), Outcome::ShadowDenied);
    /// ```
    pub const fn of(verdict: Verdict, circumstances: Circumstances) -> Self {
        match verdict {
            Verdict::Deny { .. } if circumstances.shadow => Self::ShadowDenied,
            Verdict::Deny { .. } => Self::Denied,
            _ if circumstances.degraded => Self::Degraded,
            Verdict::Delay { .. } => Self::Delayed,
            Verdict::Allow if circumstances.soft => Self::Soft,
            Verdict::Allow => Self::Allowed,
        }
    }

    /// The name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Soft => "soft",
            Self::Delayed => "delayed",
            Self::Denied => "denied",
            Self::ShadowDenied => "shadow_denied",
            Self::Degraded => "degraded",
        }
    }

    /// The outcome of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// Its place among a series' curves, as files keep it: never change it.
    pub(crate) const fn slot(self) -> u32 {
        match self {
            Self::Allowed => 0,
            Self::Soft => 1,
            Self::Delayed => 2,
            Self::Denied => 3,
            Self::ShadowDenied => 4,
            Self::Degraded => 5,
        }
    }
}

/// What bears on an outcome beside the verdict.
///
/// ```
/// use tollgate_history::Circumstances;
/// assert!(!Circumstances::default().soft);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Circumstances {
    /// Allowed only because the limit is soft.
    pub soft: bool,
    /// Denied by a rule that refuses nothing.
    pub shadow: bool,
    /// Decided without the store.
    pub degraded: bool,
}

/// One number per outcome.
///
/// ```
/// use tollgate_history::{Counts, Outcome};
/// let mut counts = Counts::default();
/// counts.add(Outcome::Denied, 2);
/// counts.add(Outcome::Allowed, 3);
/// assert_eq!((counts.get(Outcome::Denied), counts.total()), (2, 5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts([u64; OUTCOMES]);

impl Counts {
    /// Counts `count` more of that outcome.
    pub fn add(&mut self, outcome: Outcome, count: u64) {
        if let Some(kept) = self.0.get_mut(index(u64::from(outcome.slot()))) {
            *kept = kept.saturating_add(count);
        }
    }

    /// Counts everything of `other` too.
    pub fn merge(&mut self, other: &Self) {
        for (kept, more) in self.0.iter_mut().zip(other.0) {
            *kept = kept.saturating_add(more);
        }
    }

    /// How many of that outcome.
    pub fn get(&self, outcome: Outcome) -> u64 {
        self.iter().find(|(slot, _)| *slot == outcome).map_or(0, |(_, count)| count)
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Every outcome with its number.
    pub fn iter(&self) -> impl Iterator<Item = (Outcome, u64)> + '_ {
        Outcome::ALL.into_iter().zip(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::Micros;

    #[test]
    fn each_decision_has_one_outcome() {
        let plain = Circumstances::default();
        let wait = Micros::from_secs(1);
        assert_eq!(Outcome::of(Verdict::Allow, plain), Outcome::Allowed);
        assert_eq!(Outcome::of(Verdict::Delay { wait }, plain), Outcome::Delayed);
        let soft = Circumstances { soft: true, ..plain };
        assert_eq!(Outcome::of(Verdict::Allow, soft), Outcome::Soft);
        let degraded = Circumstances { degraded: true, ..plain };
        assert_eq!(Outcome::of(Verdict::Allow, degraded), Outcome::Degraded);
        assert_eq!(Outcome::of(Verdict::Deny { retry_after: None }, degraded), Outcome::Denied);
    }

    #[test]
    fn slots_are_the_order_of_the_list() {
        let slots: Vec<u32> = Outcome::ALL.iter().map(|outcome| outcome.slot()).collect();
        assert_eq!(slots, [0, 1, 2, 3, 4, 5]);
    }
}
