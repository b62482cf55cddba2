//! All requests of a time range in a few numbers.
//!
//! The busiest minute is exact: coarse tiers keep it beside the sums. Only counts
//! that come days late, after their minutes were rolled up, may be missing from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate_core::Outcome;

use super::{HistoryReader, TimeRange};
use crate::counts::Counts;
use crate::error::Result;
use crate::row_id::{RowId, SeriesId};
use crate::tier::Tier;

/// All requests of a time range.
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
    /// Denied.
    pub denied: u64,
    /// Let through, and a limit in shadow mode would have denied it.
    pub shadow_denied: u64,
    /// Let through without asking the store.
    pub degraded: u64,
    /// Requests in the busiest minute.
    pub peak_minute: u64,
}

impl HistoryReader<'_> {
    /// All requests of a time range in a few numbers.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or hold what this version cannot read.
    pub fn summary(&self, range: TimeRange) -> Result<Summary> {
        let range = self.since_first_count(range)?;
        let mut rows: Vec<RowId> = Outcome::ALL.map(|outcome| SeriesId::REQUESTS.row(outcome)).into();
        rows.push(RowId::PEAK);
        let mut counts = Counts::default();
        let mut minutes: BTreeMap<u64, u64> = BTreeMap::new();
        let mut peak = 0;
        self.points(&rows, range, &mut |point| {
            match rows.get(point.place).and_then(|id| id.outcome()) {
                Some(outcome) => {
                    counts.add(outcome, point.count);
                    if point.tier == Tier::Minutes {
                        let minute = minutes.entry(point.second).or_default();
                        *minute = minute.saturating_add(point.count);
                    }
                }
                None => peak = peak.max(point.count),
            }
            Ok(())
        })?;
        Ok(Summary {
            from: range.from_s,
            to: range.to_s,
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
