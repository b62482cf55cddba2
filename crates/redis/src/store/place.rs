//! Where the state of a charge is, and under which name.
//!
//! The order of places is the order in which a request asks them, the same for
//! every node: first what counts anyway and need never be given back.

use smallvec::SmallVec;
use tollgate_core::{Algorithm, Key, Micros, Time};
use tollgate_limiter::store::{CHARGES_USUAL, ChargeSet};

use crate::course::Picks;
use crate::question::Texts;

/// Where the state of a charge is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) keeper: Keeper,
    pub(super) is_per_second: bool,
    pub(super) slot: Option<u16>,
}

/// Who keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Keeper {
    /// Commands, as envoyproxy/ratelimit gives them.
    Envoy,
    /// The script.
    Script,
}

/// The names and places of a batch's charges.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) names: Texts,
    pub(super) places: SmallVec<[Place; CHARGES_USUAL]>,
}

impl Named {
    /// The one place of all charges, if it is one.
    pub(super) fn only_place(&self) -> Option<Place> {
        let first = *self.places.first()?;
        self.places.iter().all(|place| *place == first).then_some(first)
    }

    /// The places of these charges, each once, in order.
    pub(super) fn order(&self, picks: &[usize]) -> SmallVec<[Place; CHARGES_USUAL]> {
        let mut order: SmallVec<_> =
            picks.iter().filter_map(|pick| self.places.get(*pick)).copied().collect();
        order.sort_unstable();
        order.dedup();
        order
    }

    /// These charges as far as they are at one place.
    pub(super) fn at(&self, place: Place, picks: &[usize]) -> Picks {
        picks.iter().copied().filter(|pick| self.places.get(*pick) == Some(&place)).collect()
    }

    /// The names of these charges.
    pub(super) fn pick(&self, picks: &[usize]) -> Texts {
        picks.iter().filter_map(|pick| self.names.get(*pick)).cloned().collect()
    }
}

/// Charges to be decided at one place.
pub(super) struct Job<'b, 'a> {
    pub(super) place: Place,
    pub(super) batch: &'b ChargeSet<'a>,
    pub(super) names: Texts,
    /// Changes nothing if it is later than this.
    pub(super) not_after: Option<Time>,
}

/// When what is taken now counts for something else, so that giving it back
/// later would give back what somebody else took.
pub(super) fn window_end(key: &Key<'_>, now: Time) -> Time {
    let window = key.limit.window();
    match key.limit.algorithm() {
        Algorithm::FixedWindow | Algorithm::SlidingCounter => {
            now + Micros::new(window.get() - now.get() % window.get())
        }
        Algorithm::SlidingLog
        | Algorithm::SlidingBuckets
        | Algorithm::TokenBucket
        | Algorithm::LeakyBucket => Time::MAX,
    }
}
