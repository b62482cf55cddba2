//! Waiting for something outside, up to a deadline.
//!
//! The only file here that reads a clock or sleeps: other processes cannot be told what time it is.
#![expect(clippy::disallowed_methods, clippy::panic, reason = "other processes live in real time")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Far more than anything here takes, even on a machine that is busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// How often something outside is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks until there is something, and says how long it took; fails at the deadline.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> (T, Duration) {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return (found, start.elapsed());
        }
        assert!(start.elapsed() < DEADLINE, "{what}: not within {} s", DEADLINE.as_secs());
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Whole seconds since the epoch.
pub(crate) fn unix_seconds() -> u64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs(),
        Err(error) => panic!("the clock is before 1970: {error}"),
    }
}
