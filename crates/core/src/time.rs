//! Points in time and spans of time, in whole microseconds.
//!
//! First in the flow: a clock makes a [`Time`] once per request, and
//! everything after it takes that `now` as an argument.
//!
//! Invariant: both stay below 2^53, so that a double holds them exactly.
//! Arithmetic saturates at [`Time::MAX`]; nothing wraps.
//!
//! Deliberately not here: a clock, calendars, time zones.

use std::fmt;
use std::time::Duration;

/// The largest whole number below which a double holds every whole number.
const MAX: u64 = (1 << 53) - 1;

/// The clock is read up to here, in the year 2112: two of the longest windows
/// later still fit in 53 bits.
pub const NOW_MAX: Time = Time::new(1 << 52);
/// A clock that steps back by no more than this is waited for.
pub(crate) const STEP_BACK_MAX: Micros = Micros::SECOND;

/// A span of time in whole microseconds.
///
/// ```
/// use tollgate_core::Micros;
/// assert_eq!(Micros::from_millis(1_500).to_string(), "1.5s");
/// assert_eq!(Micros::from_secs(3_600).as_secs_ceil(), 3_600);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(u64);

impl Micros {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span, about 285 years.
    pub const MAX: Self = Self(MAX);
    /// One second.
    pub const SECOND: Self = Self(1_000_000);

    /// A span of `us` microseconds, at most [`Micros::MAX`].
    pub const fn new(us: u64) -> Self {
        Self(if us > MAX { MAX } else { us })
    }

    /// A span of `us` microseconds, which are known to be no more than [`Micros::MAX`].
    pub(crate) const fn in_range(us: u64) -> Self {
        debug_assert!(us <= MAX, "a span that can be told");
        Self(us)
    }

    /// A span of `ms` milliseconds, at most [`Micros::MAX`].
    pub const fn from_millis(ms: u64) -> Self {
        Self::new(ms.saturating_mul(1_000))
    }

    /// A span of `s` seconds, at most [`Micros::MAX`].
    pub const fn from_secs(s: u64) -> Self {
        Self::new(s.saturating_mul(1_000_000))
    }

    /// The number of microseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Milliseconds, rounded up, so that nobody who waits them comes too early.
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Seconds, rounded up, so that nobody who waits them comes too early.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// This span `n` times, at most [`Micros::MAX`].
    pub const fn times(self, n: u64) -> Self {
        Self::new(self.0.saturating_mul(n))
    }
}

/// At most [`Micros::MAX`]; less than a microsecond is none.
impl From<Duration> for Micros {
    fn from(span: Duration) -> Self {
        Self::new(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Micros> for Duration {
    fn from(span: Micros) -> Self {
        Self::from_micros(span.0)
    }
}

/// Exact, largest unit first: `250us`, `1.5s`, `1m30s`, `7d`.
impl Micros {
    /// Units that spans are told in, with their names.
    const UNITS: [(u64, &str); 5] =
        [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")];

    /// How many of the largest unit that fits, if that is all of it: `1h`, and nothing for `1h30m`.
    pub fn whole_unit(self) -> Option<(u64, &'static str)> {
        let (len, name) = Self::UNITS.into_iter().find(|(len, _)| self.0 >= *len)?;
        self.0.is_multiple_of(len).then(|| (self.0 / len, name))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((count, name)) = self.whole_unit() {
            return write!(f, "{count}{name}");
        }
        let mut us = self.0;
        for (len, name) in Self::UNITS.into_iter().take(3) {
            if us >= len {
                write!(f, "{}{name}", us / len)?;
                us %= len;
            }
        }
        let (len, digits, name) = match us {
            0 if self.0 > 0 => return Ok(()),
            0 => return f.write_str("0s"),
            1_000_000.. => (1_000_000, 6, "s"),
            1_000.. => (1_000, 3, "ms"),
            _ => return write!(f, "{us}us"),
        };
        let fraction = format!("{:0digits$}", us % len);
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{}{name}", us / len),
            rest => write!(f, "{}.{rest}{name}", us / len),
        }
    }
}

/// A point in time: microseconds since the Unix epoch.
///
/// ```
/// use tollgate_core::{Micros, Time};
/// let t = Time::from_secs(100) + Micros::from_millis(250);
/// assert_eq!(t.get(), 100_250_000);
/// assert_eq!(t.since(Time::from_secs(200)), Micros::ZERO);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The last instant that can be told, in the year 2255.
    pub const MAX: Self = Self(MAX);

    /// The instant `us` microseconds after the epoch, at most [`Time::MAX`].
    pub const fn new(us: u64) -> Self {
        Self(if us > MAX { MAX } else { us })
    }

    /// The same for an instant that is known to be no later.
    pub(crate) const fn in_range(us: u64) -> Self {
        debug_assert!(us <= MAX, "an instant that can be told");
        Self(us)
    }

    /// The instant `s` seconds after the epoch, at most [`Time::MAX`].
    pub const fn from_secs(s: u64) -> Self {
        Self::new(s.saturating_mul(1_000_000))
    }

    /// Microseconds since the epoch.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is yet to come.
    pub const fn since(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }

    /// The instant `span` before this one, the epoch at the earliest.
    pub const fn before(self, span: Micros) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl std::ops::Add<Micros> for Time {
    type Output = Self;

    fn add(self, span: Micros) -> Self {
        Self::new(self.0 + span.0)
    }
}

impl std::ops::Add for Micros {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(self.0 + other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_prints_exactly_and_in_units_that_people_read() {
        let cases = [
            (0, "0s"),
            (1, "1us"),
            (999, "999us"),
            (1_000, "1ms"),
            (1_500, "1.5ms"),
            (500_000, "500ms"),
            (1_000_000, "1s"),
            (1_500_000, "1.5s"),
            (61_000_000, "1m1s"),
            (86_399_999_999, "23h59m59.999999s"),
            (86_400_500_000, "1d500ms"),
            (120_000_000, "2m"),
            (3_600_000_000, "1h"),
            (604_800_000_000, "7d"),
        ];
        for (us, text) in cases {
            assert_eq!(Micros::new(us).to_string(), text);
        }
    }

    #[test]
    fn nothing_goes_past_the_last_instant() {
        assert_eq!(Time::new(u64::MAX), Time::MAX);
        assert_eq!(Time::MAX + Micros::MAX, Time::MAX);
        assert_eq!(Micros::from_secs(u64::MAX), Micros::MAX);
    }
}
