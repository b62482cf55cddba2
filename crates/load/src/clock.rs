//! The one place that reads the machine's clock: latencies are real time.

use std::time::{Duration, Instant};

/// Time since the start of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "latencies are real time, and nothing is decided by them")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
