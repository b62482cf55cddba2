//! Where `now` comes from.
//!
//! [`crate::Limiter`] reads a [`Clock`] once per request; everything after it
//! takes that `now` as an argument.
//!
//! Invariant: [`SystemClock`] follows the machine's calendar clock, and goes back
//! only when that was set back.
//!
//! Deliberately not here: timers and waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use tollgate_core::{Micros, Time};

use crate::ticks::Ticks;

/// Where `now` comes from.
///
/// ```
/// use tollgate_core::Time;
/// use tollgate_limiter::Clock;
///
/// struct Noon;
///
/// impl Clock for Noon {
///     fn now(&self) -> Time {
///         Time::from_secs(12 * 3_600)
///     }
/// }
/// assert_eq!(Noon.now(), Time::from_secs(43_200));
/// ```
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Time;

    /// The calendar's time, for what is compared with times that others wrote,
    /// such as the end of a token.
    fn calendar(&self) -> Time {
        self.now()
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Time {
        (**self).now()
    }

    fn calendar(&self) -> Time {
        (**self).calendar()
    }
}

/// How often the machine's calendar clock is looked at.
const REFRESH_US: u64 = 1_000_000;
/// How far this clock may be ahead of the calendar before it goes back. Less is
/// the time between reading the one clock and the other.
const AHEAD_MAX_US: u64 = 500_000;

/// The machine's clock, made steady.
///
/// Time runs with the machine's monotonic clock, read from the processor's counter. Once a second the calendar
/// clock is looked at, and if that was set, this clock jumps with it, forward
/// or back. States that were written meanwhile are [rewound]: nobody waits for
/// a wrong time to come.
///
/// [rewound]: tollgate_core::algorithm::rewound
///
/// ```
/// use tollgate_limiter::{Clock, SystemClock};
/// let clock = SystemClock::new();
/// assert!(clock.now() <= clock.now());
/// ```
#[derive(Debug)]
pub struct SystemClock {
    ticks: Ticks,
    /// What to add to the monotonic clock to get the calendar time, in µs.
    offset_us: AtomicU64,
    /// When to look at the calendar clock again, on the monotonic clock, in µs.
    refresh_at_us: AtomicU64,
}

impl SystemClock {
    /// A clock that starts at the machine's calendar time. The first one of a process measures how fast the
    /// processor counts, which takes a millisecond, and up to 200 where that is disturbed.
    pub fn new() -> Self {
        let ticks = Ticks::new();
        let start_us = ticks.micros();
        Self {
            ticks,
            offset_us: AtomicU64::new(calendar_us().saturating_sub(start_us)),
            refresh_at_us: AtomicU64::new(start_us + REFRESH_US),
        }
    }

    /// Compares with the calendar clock.
    #[cold]
    fn refresh(&self, elapsed_us: u64, calendar_us: u64) {
        self.refresh_at_us.store(elapsed_us + REFRESH_US, Ordering::Relaxed);
        let offset = calendar_us.saturating_sub(elapsed_us);
        if offset + AHEAD_MAX_US < self.offset_us.load(Ordering::Relaxed) {
            self.offset_us.store(offset, Ordering::Relaxed);
        } else {
            self.offset_us.fetch_max(offset, Ordering::Relaxed);
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Time {
        let elapsed_us = self.ticks.micros();
        if elapsed_us >= self.refresh_at_us.load(Ordering::Relaxed) {
            self.refresh(elapsed_us, calendar_us());
        }
        Time::new(self.offset_us.load(Ordering::Relaxed) + elapsed_us)
    }

    fn calendar(&self) -> Time {
        Time::new(calendar_us())
    }
}

#[expect(clippy::disallowed_methods, reason = "with `ticks`, the one place that reads the machine's clocks")]
fn calendar_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX / 2)
}

/// A clock that goes where it is told, for tests and simulations.
///
/// ```
/// use tollgate_core::{Micros, Time};
/// use tollgate_limiter::{Clock, ManualClock};
/// let clock = ManualClock::at(Time::from_secs(100));
/// clock.advance(Micros::from_secs(5));
/// assert_eq!(clock.now(), Time::from_secs(105));
/// ```
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `time`.
    pub fn at(time: Time) -> Self {
        Self(AtomicU64::new(time.get()))
    }

    /// Shows `time` from now on, earlier or later.
    pub fn set(&self, time: Time) {
        self.0.store(time.get(), Ordering::SeqCst);
    }

    /// Moves on by `span`.
    pub fn advance(&self, span: Micros) {
        self.set(self.now() + span);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time::new(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens are compared with the calendar: one that is valid must not run out because this
    /// clock has not followed a step yet.
    #[test]
    fn the_calendar_is_right_while_the_clock_is_still_elsewhere() {
        const DAY_US: u64 = 86_400_000_000;
        let clock = SystemClock::new();
        clock.refresh_at_us.store(u64::MAX, Ordering::Relaxed);
        clock.offset_us.fetch_add(DAY_US, Ordering::Relaxed);
        assert!(clock.now().since(clock.calendar()).get() > DAY_US - 60_000_000);
        clock.offset_us.fetch_sub(2 * DAY_US, Ordering::Relaxed);
        assert!(clock.calendar().since(clock.now()).get() > DAY_US - 60_000_000);
    }

    #[test]
    fn a_clock_that_was_a_day_ahead_for_two_seconds_is_back_with_the_calendar() {
        const DAY_US: u64 = 86_400_000_000;
        let clock = SystemClock::new();
        let begin = clock.offset_us.load(Ordering::Relaxed);
        let offset_after = |elapsed_us, calendar_us| {
            clock.refresh(elapsed_us, calendar_us);
            i128::from(clock.offset_us.load(Ordering::Relaxed)) - i128::from(begin)
        };
        assert_eq!(offset_after(1_000_000, begin + 1_000_000), 0);
        assert_eq!(offset_after(2_000_000, begin + 2_000_000 + DAY_US), i128::from(DAY_US));
        assert_eq!(offset_after(4_000_000, begin + 4_000_000), 0, "followed back");
        assert_eq!(offset_after(5_000_000, begin + 5_003_000), 3_000, "a slow read of the calendar");
        assert_eq!(offset_after(6_000_000, begin + 6_000_000), 3_000, "is no reason to go back");
    }
}
