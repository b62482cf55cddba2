//! How the history itself is doing.

use serde::Serialize;

use crate::engine::Engine;
use crate::error::Result;
use crate::store::History;
use crate::tier::Tier;

/// How the history is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The newest minute that was counted, in unix seconds; none if nothing was.
    pub newest: Option<u64>,
    /// Named series.
    pub series: usize,
    /// Hours that are not folded into blocks yet.
    pub open_hours: usize,
    /// Flushes and blocks that could not be read and are lost, since this process
    /// has opened the history.
    pub damaged: u64,
    /// Bytes on disk, or in the memory of Redis, if the engine can tell.
    pub disk_bytes: Option<u64>,
    /// What is kept how finely.
    pub tiers: Vec<TierStatus>,
}

/// What one tier holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TierStatus {
    /// `1m`, `5m`, `1h` or `1d`.
    pub name: &'static str,
    /// Seconds from one point to the next.
    pub step_s: u64,
    /// From which second on time is kept so; nothing before is as fine.
    pub from: u64,
}

impl<E: Engine> History<E> {
    /// How the history is doing.
    ///
    /// ```
    /// use tollgate_history::engine::Memory;
    /// use tollgate_history::{Bounds, History};
    /// let status = History::open(Memory::default(), Bounds::default())?.status()?;
    /// assert_eq!((status.newest, status.tiers.len()), (None, 4));
    /// # Ok::<(), tollgate_history::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the engine cannot tell how large it is.
    pub fn status(&self) -> Result<Status> {
        let tier = |tier: Tier| TierStatus {
            name: tier.name(),
            step_s: tier.step_s(),
            from: self.state.rolled.zone(tier).0,
        };
        Ok(Status {
            newest: (self.state.newest_minute > 0).then(|| self.state.newest_s()),
            series: self.catalogue.len(),
            open_hours: self.head.hours(),
            damaged: self.damaged,
            disk_bytes: self.engine.disk_bytes()?,
            tiers: Tier::ALL.map(tier).into(),
        })
    }
}
