//! How a request, or one decision about it, is counted.
//!
//! The limiter's reply names the outcome; metrics, history, the HTTP interface
//! and the command line only show it.
//!
//! Invariant: everything that is counted has exactly one outcome, so that the
//! outcomes of a series add up to its total. Of several that hold, the first in
//! this order counts: denied, degraded, delayed, soft, shadow_denied, allowed.

use crate::decision::Verdict;

/// How a request, or one decision about it, is counted.
///
/// ```
/// use tollgate_core::{Micros, Outcome, OutcomeFlags, Verdict};
/// let flags = OutcomeFlags { soft: true, ..OutcomeFlags::default() };
/// assert_eq!(Outcome::new(Verdict::Allow, flags), Outcome::Soft);
/// assert_eq!(Outcome::new(Verdict::Delay { wait: Micros::SECOND }, flags), Outcome::Delayed);
/// assert_eq!(Outcome::from_name("shadow_denied"), Some(Outcome::ShadowDenied));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Within the limit.
    Allowed,
    /// Over the limit, and let through because the limit is soft.
    Soft,
    /// Let through after a wait.
    Delayed,
    /// Denied.
    Denied,
    /// Let through, and a limit in shadow mode would have denied it.
    ShadowDenied,
    /// Let through by a limit that could not ask its store.
    Degraded,
}

/// What bears on an outcome beside the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutcomeFlags {
    /// Decided without the store.
    pub degraded: bool,
    /// Allowed only because a limit is soft.
    pub soft: bool,
    /// Denied by a limit in shadow mode, which nobody obeys.
    pub shadow_denied: bool,
}

impl Outcome {
    /// All, in the order in which they are kept and shown.
    pub const ALL: [Self; 6] =
        [Self::Allowed, Self::Soft, Self::Delayed, Self::Denied, Self::ShadowDenied, Self::Degraded];

    /// The outcome of a verdict that the caller obeys, and of what goes with it.
    pub const fn new(verdict: Verdict, flags: OutcomeFlags) -> Self {
        match verdict {
            Verdict::Deny { .. } => Self::Denied,
            Verdict::Allow | Verdict::Delay { .. } if flags.degraded => Self::Degraded,
            Verdict::Delay { .. } => Self::Delayed,
            Verdict::Allow if flags.soft => Self::Soft,
            Verdict::Allow if flags.shadow_denied => Self::ShadowDenied,
            Verdict::Allow => Self::Allowed,
        }
    }

    /// The name in labels, JSON and tables.
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

    /// Its index in [`Self::ALL`]. Files of the history keep it: never change it.
    pub const fn index(self) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Micros;

    /// Every combination, against the order that the module promises.
    #[test]
    fn of_several_that_hold_the_first_in_order_counts() {
        let wait = Micros::SECOND;
        let verdicts = [Verdict::Allow, Verdict::Delay { wait }, Verdict::Deny { retry_after: None }];
        for verdict in verdicts {
            for bits in 0..8_u8 {
                let flags = OutcomeFlags {
                    degraded: bits & 1 != 0,
                    soft: bits & 2 != 0,
                    shadow_denied: bits & 4 != 0,
                };
                let order = [
                    (verdict.is_deny(), Outcome::Denied),
                    (flags.degraded, Outcome::Degraded),
                    (verdict == Verdict::Delay { wait }, Outcome::Delayed),
                    (flags.soft, Outcome::Soft),
                    (flags.shadow_denied, Outcome::ShadowDenied),
                    (true, Outcome::Allowed),
                ];
                let first = order.iter().find(|(holds, _)| *holds).map(|(_, outcome)| *outcome);
                assert_eq!(Some(Outcome::new(verdict, flags)), first, "{verdict:?} {flags:?}");
            }
        }
    }

    #[test]
    fn an_index_is_the_place_in_the_list() {
        let indices: Vec<usize> = Outcome::ALL.into_iter().map(Outcome::index).collect();
        assert_eq!(indices, [0, 1, 2, 3, 4, 5]);
    }
}
