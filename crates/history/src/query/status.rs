//! How the history itself is doing.

use serde::Serialize;

use super::HistoryReader;
use crate::error::Result;
use crate::tier::Tier;

/// How the history is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HistoryStatus {
    /// The newest minute that was counted, in unix seconds; none if nothing was.
    pub newest: Option<u64>,
    /// Named series.
    pub series: usize,
    /// Hours that are not in blocks yet.
    pub open_hours: usize,
    /// Flushes and blocks that could not be read, and whose counts are lost, since
    /// this process opened the history.
    pub damaged: u64,
    /// Bytes on disk, or in the memory of Redis, if that is known.
    pub disk_bytes: Option<u64>,
    /// How finely which time is kept.
    pub tiers: Vec<TierStatus>,
}

/// What one tier holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TierStatus {
    /// `1m`, `5m`, `1h` or `1d`.
    pub name: &'static str,
    /// Seconds from one point to the next.
    pub step_s: u64,
    /// The first second that is kept so finely.
    pub from: u64,
}

impl HistoryReader<'_> {
    /// How the history is doing, with what is counted and not written yet.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    pub fn status(&self) -> Result<HistoryStatus> {
        let tier = |tier: Tier| TierStatus {
            name: tier.name(),
            step_s: tier.step_s(),
            from: self.watermarks.range_of(tier).0,
        };
        let (series, open_hours) = self.sizes();
        Ok(HistoryStatus {
            newest: (self.watermarks.newest_minute > 0).then(|| self.watermarks.newest_s()),
            series,
            open_hours,
            damaged: self.damaged,
            disk_bytes: self.tables.size_bytes()?,
            tiers: Tier::ALL.map(tier).into(),
        })
    }
}
