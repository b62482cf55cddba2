//! How many of each outcome: what every series keeps, minute by minute.

use tollgate_core::Outcome;

/// How many outcomes there are.
pub const OUTCOMES: usize = Outcome::ALL.len();

/// One number per outcome.
///
/// ```
/// use tollgate_core::Outcome;
/// use tollgate_history::Counts;
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
        if let Some(kept) = self.0.get_mut(outcome.index()) {
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
        self.0.get(outcome.index()).copied().unwrap_or(0)
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
