//! 10,000 series, as busy as real ones: few of them often, more by day than by night, never quite
//! the same, and each in every flush, which is the worst case.

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};
use tollgate_core::Time;
use tollgate_history::{Flush, FlushId, InstanceId, Label, Outcome, TrafficCounts};

/// How many there are.
pub const SERIES: u64 = 10_000;

/// The minute at which the newest traffic ends: noon, so that minutes of a day and a half are kept.
pub const NOW_MIN: u32 = 20_500 * 1_440 + 720;

/// The names of the series.
#[derive(Debug)]
pub struct Traffic {
    labels: Vec<Label>,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { labels: (0..SERIES).map(|n| Label::Route(route(n).into())).collect() }
    }
}

/// The name of a series.
pub fn route(n: u64) -> String {
    format!("/api/v1/resource-{n:05}")
}

impl Traffic {
    /// What a process has counted in so many seconds of each minute.
    pub fn flush(&self, seq: u64, minutes: &[u32], seconds: u64) -> Flush {
        let mut counts = TrafficCounts::default();
        for minute in minutes {
            let mut all = 0;
            for (n, label) in (0..).zip(&self.labels) {
                let hits = count(n, *minute, seconds);
                all += hits;
                counts.add(*minute, label.clone(), Outcome::Allowed, hits);
            }
            counts.add(*minute, Label::Requests, Outcome::Allowed, all);
        }
        Flush { id: FlushId { instance: InstanceId([1; 16]), seq }, counts }
    }
}

/// How many hits a series has in so many seconds of that minute: by Zipf's law, in waves of a day,
/// with the noise of chance.
fn count(n: u64, minute: u32, seconds: u64) -> u64 {
    let mean = (20_000 * seconds) / (15 * (n + 1)) + 3 * seconds / 15;
    let hour = u64::from(minute / 60 % 24);
    let mean = mean * (8 + hour.abs_diff(12)) / 20;
    let mut noise = (n << 32 | u64::from(minute)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    noise ^= noise >> 29;
    noise = noise.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
    // The deviation of chance is the root of the mean.
    let root = mean.isqrt().max(1);
    (mean + noise % (2 * root + 1)).saturating_sub(root).max(1)
}

/// The moment right after a minute.
pub fn after(minute: u32) -> Time {
    Time::from_secs((u64::from(minute) + 1) * 60)
}

/// Processor time of this thread, in nanoseconds.
///
/// # Errors
/// If the system does not tell.
pub fn processor_ns() -> Result<u64> {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Ok(u64::try_from(spent.tv_sec)? * 1_000_000_000 + u64::try_from(spent.tv_nsec)?)
}
