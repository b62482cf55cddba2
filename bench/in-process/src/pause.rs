//! How long single checks take while ten million keys expire.
//!
//! A store is filled, its clock is moved past the end of every key, and then keys that it has never seen are
//! checked one by one: each makes room by dropping what has run out. Beside it stands the same with keys that
//! are alive, so that what the machine does to both can be told from what the store does.

use std::hint::black_box;
use std::time::Instant;

use tollgate_core::{Limit, LimitError, Micros, Refill, Shape, Time};
use tollgate_limiter::{Capacity, KeyedLimiter, ManualClock};

use crate::harness::Sink;

const KEYS: u64 = 10_000_000;
/// Checks that are timed, which is less than the room that is left.
const CHECKS: u64 = 1_000_000;
const TURNS: usize = 3;

/// Hands over median, p99.9 and the longest of each turn in nanoseconds, the time of reading the clock included.
///
/// # Errors
/// If a limit is none.
pub fn run(sink: &mut Sink<'_>) -> Result<(), LimitError> {
    for _ in 0..TURNS {
        for (name, is_expiring) in [("10 million keys alive", false), ("10 million keys expire", true)] {
            let times = times(is_expiring)?;
            let at =
                |thousandths: usize| times.get((times.len() - 1) * thousandths / 1_000).copied().unwrap_or(0);
            for (figure, value) in [("median", at(500)), ("p99.9", at(999)), ("longest", at(1_000))] {
                sink(name, figure, value);
            }
        }
    }
    Ok(())
}

/// The times of all checks, sorted.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn times(is_expiring: bool) -> Result<Vec<u64>, LimitError> {
    let shape = Shape::TokenBucket { burst: 10, refill: Refill::Smooth };
    let limit = Limit::new(1, Micros::from_secs(60), shape)?;
    let clock = ManualClock::at(Time::from_secs(1_800_000_000));
    let capacity = Capacity { keys: 12_000_000, log_bytes: 0 };
    let limiter = KeyedLimiter::<u64, _>::with(limit, capacity, clock);
    for key in 0..KEYS {
        black_box(limiter.check(&key));
    }
    if is_expiring {
        limiter.clock().advance(Micros::from_secs(61));
    }
    let mut times = Vec::with_capacity(usize::try_from(CHECKS).unwrap_or_default());
    for key in KEYS..KEYS + CHECKS {
        let start = Instant::now();
        black_box(limiter.check(&key));
        times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    times.sort_unstable();
    Ok(times)
}
