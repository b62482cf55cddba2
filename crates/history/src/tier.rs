//! How finely which past is kept.
//!
//! | tier | a point | a chunk | kept until |
//! |---|---|---|---|
//! | minutes | 1 min | 1 h | the day is over and a day old |
//! | five minutes | 5 min | 1 day | it is 7 days old |
//! | hours | 1 h | 7 days | it is 31 days old |
//! | days | 1 day | 32 days | – |
//!
//! Used by the store, which compacts and rolls up, and by queries, which read.
//!
//! Invariant: age is measured against the newest minute that was counted, not
//! against the clock, so an imported log of long ago keeps its minutes until newer
//! traffic comes. A newest minute that is not preceded by a day of counted hours is
//! not believed: the clock may be ahead.

use tollgate_core::Time;

use crate::bytes::index;

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 86_400;
const WEEK_S: u64 = 7 * DAY_S;

/// The minute, counted from the epoch. The last instant of [`Time`] fits easily.
pub(crate) fn minute_of(now: Time) -> u32 {
    u32::try_from(now.get() / 60_000_000).unwrap_or(u32::MAX)
}

/// One resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    Minutes,
    FiveMinutes,
    Hours,
    Days,
}

impl Tier {
    pub(crate) const ALL: [Self; 4] = [Self::Minutes, Self::FiveMinutes, Self::Hours, Self::Days];

    /// The name in answers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Minutes => "1m",
            Self::FiveMinutes => "5m",
            Self::Hours => "1h",
            Self::Days => "1d",
        }
    }

    /// Its number in files.
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Minutes => 1,
            Self::FiveMinutes => 2,
            Self::Hours => 3,
            Self::Days => 4,
        }
    }

    /// Seconds from one point to the next.
    pub(crate) const fn step_s(self) -> u64 {
        match self {
            Self::Minutes => MINUTE_S,
            Self::FiveMinutes => 5 * MINUTE_S,
            Self::Hours => HOUR_S,
            Self::Days => DAY_S,
        }
    }

    /// Seconds in one chunk.
    pub(crate) const fn chunk_s(self) -> u64 {
        match self {
            Self::Minutes => HOUR_S,
            Self::FiveMinutes => DAY_S,
            Self::Hours => WEEK_S,
            Self::Days => 32 * DAY_S,
        }
    }

    /// Points in one chunk.
    pub(crate) fn points(self) -> usize {
        index(self.chunk_s() / self.step_s())
    }

    pub(crate) const fn chunk_of(self, second: u64) -> u64 {
        second - second % self.chunk_s()
    }

    /// Which point of its chunk that second is in.
    pub(crate) fn point_of(self, second: u64) -> usize {
        index((second % self.chunk_s()) / self.step_s())
    }

    /// The next coarser one.
    pub(crate) const fn coarser(self) -> Option<Self> {
        match self {
            Self::Minutes => Some(Self::FiveMinutes),
            Self::FiveMinutes => Some(Self::Hours),
            Self::Hours => Some(Self::Days),
            Self::Days => None,
        }
    }

    /// The period that is rolled up at once, in seconds: whole chunks of this tier,
    /// and whole points of the coarser one.
    pub(crate) const fn roll_up_s(self) -> u64 {
        match self {
            Self::Minutes | Self::FiveMinutes => DAY_S,
            Self::Hours => WEEK_S,
            Self::Days => u64::MAX,
        }
    }

    /// How long after its end a period is rolled up.
    const fn keep_s(self) -> u64 {
        match self {
            Self::Minutes => DAY_S,
            Self::FiveMinutes => 7 * DAY_S,
            Self::Hours => 31 * DAY_S,
            Self::Days => u64::MAX,
        }
    }

    /// Everything of this tier before this second is due to be rolled up, when the
    /// newest count is of `newest_s`.
    pub(crate) const fn due_s(self, newest_s: u64) -> u64 {
        let end = newest_s.saturating_sub(self.keep_s());
        end - end % self.roll_up_s()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::block::POINTS_MAX;

    #[test]
    fn chunks_and_periods_fit_into_each_other() {
        for tier in Tier::ALL {
            assert!(tier.chunk_s().is_multiple_of(tier.step_s()));
            assert!(tier.points() <= POINTS_MAX);
            let Some(coarser) = tier.coarser() else { continue };
            assert!(coarser.step_s().is_multiple_of(tier.step_s()));
            assert!(tier.roll_up_s().is_multiple_of(tier.chunk_s()), "no chunk is rolled up by half");
            assert!(tier.roll_up_s().is_multiple_of(coarser.step_s()), "no coarse point is made by half");
        }
    }

    #[test]
    fn the_last_day_is_by_minutes_at_any_time_of_day() {
        let day = 20_000 * DAY_S;
        for second in [day, day + 1, day + 43_200, day + DAY_S - 1] {
            let kept_from = Tier::Minutes.due_s(second);
            assert!(second - kept_from >= DAY_S && second - kept_from < 2 * DAY_S, "{second}");
            assert!(second - Tier::FiveMinutes.due_s(second) >= 7 * DAY_S);
            assert!(second - Tier::Hours.due_s(second) >= 31 * DAY_S);
        }
    }
}
