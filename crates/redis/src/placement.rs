//! Where a charge lives: on which servers, in which slot, under which key.
//!
//! [`crate::RedisStore`] gives every charge a `Placement`. Charges with the
//! same placement are decided in one call; `multi_slot` holds together a request
//! whose charges have several. `denial_memory` answers before a server is asked,
//! `local_fallback` while none can be.
//!
//! Invariant: placements are ordered, and every node asks them in that order.
//! Envoy's counters come first, because they are never given back.
//!
//! Deliberately not here: how a server is reached (`calls`).

pub(crate) mod denial_memory;
pub(crate) mod envoy_layout;
pub mod keys;
pub(crate) mod local_fallback;
pub(crate) mod multi_slot;

use smallvec::SmallVec;
use tollgate_core::{Key, Micros, Time};
use tollgate_limiter::charge_set::{CHARGES_USUAL, ChargeSet};

use keys::RedisKeys;
use multi_slot::ChargeIndexes;

/// Where the state of a charge lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Placement {
    pub(crate) format: CounterFormat,
    pub(crate) is_per_second: bool,
    /// The slot of a cluster.
    pub(crate) slot: Option<u16>,
}

/// How it is kept there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CounterFormat {
    /// A number that commands change, as envoyproxy/ratelimit keeps it.
    Envoy,
    /// A state that a script changes.
    Script,
}

/// The keys and placements of all charges of a set.
#[derive(Debug, Default)]
pub(crate) struct ChargePlacements {
    pub(crate) keys: RedisKeys,
    pub(crate) placements: SmallVec<[Placement; CHARGES_USUAL]>,
}

impl ChargePlacements {
    /// The placement that all charges share, if they do.
    pub(crate) fn single(&self) -> Option<Placement> {
        let first = *self.placements.first()?;
        self.placements.iter().all(|placement| *placement == first).then_some(first)
    }

    /// The placements of these charges, each once, in order.
    pub(crate) fn in_order(&self, charges: &[usize]) -> SmallVec<[Placement; CHARGES_USUAL]> {
        let mut order: SmallVec<_> =
            charges.iter().filter_map(|charge| self.placements.get(*charge)).copied().collect();
        order.sort_unstable();
        order.dedup();
        order
    }

    /// Those of these charges that have this placement.
    pub(crate) fn at(&self, placement: Placement, charges: &[usize]) -> ChargeIndexes {
        charges.iter().copied().filter(|charge| self.placements.get(*charge) == Some(&placement)).collect()
    }

    /// The keys of these charges.
    pub(crate) fn keys_of(&self, charges: &[usize]) -> RedisKeys {
        charges.iter().filter_map(|charge| self.keys.get(*charge)).cloned().collect()
    }
}

/// Charges that have one placement, to be decided in one call.
pub(crate) struct PlacedCharges<'b, 'a> {
    pub(crate) placement: Placement,
    pub(crate) charge_set: &'b ChargeSet<'a>,
    pub(crate) keys: RedisKeys,
    /// If it is later than this, nothing is changed.
    pub(crate) not_after: Option<Time>,
}

/// When a charge taken now ends up in another count. A refund after that would
/// give back what somebody else took.
pub(crate) fn window_end(key: &Key<'_>, now: Time) -> Time {
    let window = key.limit.window();
    match key.limit.shape().is_aligned() {
        true => now + Micros::new(window.get() - now.get() % window.get()),
        false => Time::MAX,
    }
}
