//! Where `now` comes from.
//!
//! [`crate::Limiter`] reads a [`Clock`] once per request; everything after it
//! takes that `now` as an argument.
//!
//! Invariant: [`SystemClock`] never goes back, whatever the machine's clock does.
//!
//! Deliberately not here: timers and waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tollgate_core::{Micros, Time};

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
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Time {
        (**self).now()
    }
}

/// How often the machine's calendar clock is looked at.
const REFRESH_US: u64 = 1_000_000;

/// The machine's clock, made steady.
///
/// Time runs with the machine's monotonic clock. Once a second the calendar
/// clock is looked at: if it is ahead, this clock jumps forward with it; if it
/// was set back, this clock runs on, so that no window is entered twice and no
/// request waits for the past to come again.
///
/// ```
/// use tollgate_limiter::{Clock, SystemClock};
/// let clock = SystemClock::new();
/// assert!(clock.now() <= clock.now());
/// ```
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    /// What to add to the monotonic clock to get the calendar time, in µs.
    offset_us: AtomicU64,
    /// When to look at the calendar clock again, on the monotonic clock, in µs.
    refresh_at_us: AtomicU64,
}

impl SystemClock {
    /// A clock that starts at the machine's calendar time.
    pub fn new() -> Self {
        Self {
            start: monotonic(),
            offset_us: AtomicU64::new(calendar_us()),
            refresh_at_us: AtomicU64::new(REFRESH_US),
        }
    }

    fn refresh(&self, elapsed_us: u64) {
        self.refresh_at_us.store(elapsed_us + REFRESH_US, Ordering::Relaxed);
        self.offset_us.fetch_max(calendar_us().saturating_sub(elapsed_us), Ordering::Relaxed);
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let elapsed_us = micros(monotonic().saturating_duration_since(self.start));
        if elapsed_us >= self.refresh_at_us.load(Ordering::Relaxed) {
            self.refresh(elapsed_us);
        }
        Time::new(self.offset_us.load(Ordering::Relaxed) + elapsed_us)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clocks")]
fn monotonic() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clocks")]
fn calendar_us() -> u64 {
    micros(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 2)
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
