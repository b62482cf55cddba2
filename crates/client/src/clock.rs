//! The one place that reads the wall clock, and instants far ahead. What waits, waits on tokio's clock.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::bounds::AHEAD_MAX;

#[expect(clippy::disallowed_methods, reason = "dates of other servers are compared with it")]
pub(crate) fn wall_now() -> SystemTime {
    SystemTime::now()
}

/// The instant `span` after `now`, or one that nobody lives to see.
pub(crate) fn after(now: Instant, span: Duration) -> Instant {
    now + span.min(AHEAD_MAX)
}
