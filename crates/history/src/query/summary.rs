//! All requests of a span in a few numbers.
//!
//! The busiest minute is exact: coarse tiers keep it beside the sums. Only counts
//! that came days late, after their minutes were rolled up, may miss in it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Span;
use crate::counts::Counts;
use crate::engine::Engine;
use crate::error::Result;
use crate::label::{RowId, Sid};
use crate::store::History;
use crate::tier::Tier;
use tollgate_core::Outcome;

/// All requests of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The first second asked for.
    pub from: u64,
    /// The second after the last.
    pub to: u64,
    /// All requests.
    pub total: u64,
    /// Within their limits.
    pub allowed: u64,
    /// Over a soft limit, and let through.
    pub soft: u64,
    /// Let through after a wait.
    pub delayed: u64,
    /// Refused.
    pub denied: u64,
    /// What rules in the shadow would have refused.
    pub shadow_denied: u64,
    /// Let through without asking the store.
    pub degraded: u64,
    /// Requests in the busiest minute.
    pub peak_minute: u64,
}

impl<E: Engine> History<E> {
    /// All requests of a span in a few numbers.
    ///
    /// ```
    /// use tollgate_history::engine::Memory;
    /// use tollgate_history::query::Span;
    /// use tollgate_history::{Bounds, History};
    /// let history = History::open(Memory::default(), Bounds::default())?;
    /// assert_eq!(history.summary(Span { from_s: 0, to_s: 60 })?.total, 0);
    /// # Ok::<(), tollgate_history::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the engine cannot be read, or has what this version cannot read.
    pub fn summary(&self, span: Span) -> Result<Summary> {
        let mut rows: Vec<RowId> = Outcome::ALL.map(|outcome| Sid::REQUESTS.row(outcome)).into();
        rows.push(RowId::PEAK);
        let mut counts = Counts::default();
        let mut minutes: BTreeMap<u64, u64> = BTreeMap::new();
        let mut peak = 0;
        self.points(&rows, span, &mut |point| match rows.get(point.place).and_then(|id| id.outcome()) {
            Some(outcome) => {
                counts.add(outcome, point.count);
                if point.tier == Tier::Minutes {
                    let minute = minutes.entry(point.second).or_default();
                    *minute = minute.saturating_add(point.count);
                }
            }
            None => peak = peak.max(point.count),
        })?;
        Ok(Summary {
            from: span.from_s,
            to: span.to_s,
            total: counts.total(),
            allowed: counts.get(Outcome::Allowed),
            soft: counts.get(Outcome::Soft),
            delayed: counts.get(Outcome::Delayed),
            denied: counts.get(Outcome::Denied),
            shadow_denied: counts.get(Outcome::ShadowDenied),
            degraded: counts.get(Outcome::Degraded),
            peak_minute: minutes.into_values().max().unwrap_or(0).max(peak),
        })
    }
}
