//! Times, durations and ranges as people write them.
//!
//! Queries come with RFC 3339, unix seconds, or `now-6h`; here they become seconds
//! since the epoch. `now` is an argument.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use tollgate_core::Time;

use crate::error::{Error, Result};

const UNITS: [(&str, u64); 6] =
    [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("w", 604_800), ("y", 31_536_000)];

/// A time in seconds since the epoch.
///
/// ```
/// use tollgate_history::time_text::instant;
/// let now = 1_800_000_000;
/// assert_eq!(instant("now-6h", now).unwrap(), now - 6 * 3_600);
/// assert_eq!(instant("2027-01-15T08:00:00Z", now).unwrap(), now);
/// assert_eq!(instant("1800000000", 0).unwrap(), now);
/// assert_eq!(instant("now-1d/d", now).unwrap(), 1_799_884_800);
/// ```
///
/// # Errors
///
/// If the text is none of these.
pub fn instant(text: &str, now_s: u64) -> Result<u64> {
    let wrong =
        || Error::Query { what: "a time is RFC 3339, unix seconds, or now-6h, not", text: text.to_owned() };
    let trimmed = text.trim();
    if let Some(rest) = trimmed.strip_prefix("now") {
        return relative(rest, now_s).ok_or_else(wrong);
    }
    if !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit()) {
        return trimmed.parse().map_err(|_| wrong());
    }
    let at = trimmed
        .parse::<Timestamp>()
        .ok()
        .or_else(|| trimmed.parse::<Zoned>().ok().map(|zoned| zoned.timestamp()))
        .or_else(|| utc(trimmed.parse::<DateTime>().ok()?));
    at.and_then(|at| u64::try_from(at.as_second()).ok()).ok_or_else(wrong)
}

fn utc(at: DateTime) -> Option<Timestamp> {
    at.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// What follows `now`: a sign and a duration, and perhaps a unit to round down to.
fn relative(rest: &str, now_s: u64) -> Option<u64> {
    let (shift, unit) = match rest.split_once('/') {
        Some((shift, unit)) => (shift, Some(unit)),
        None => (rest, None),
    };
    let at = match shift.split_at_checked(1) {
        None => now_s,
        Some(("-", length)) => now_s.saturating_sub(duration_of(length)?),
        Some(("+", length)) => now_s.saturating_add(duration_of(length)?),
        Some(_) => return None,
    };
    let Some(unit) = unit else { return Some(at) };
    let (_, length) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    Some(at - at % length)
}

/// The seconds of a duration such as `90s`, `15m`, `24h`, `7d`, `4w` or `1y`.
///
/// ```
/// use tollgate_history::time_text::duration;
/// assert_eq!(duration("24h").unwrap(), 86_400);
/// assert!(duration("24 parsecs").is_err());
/// ```
///
/// # Errors
///
/// If the text is not a number and a unit.
pub fn duration(text: &str) -> Result<u64> {
    duration_of(text.trim()).filter(|seconds| *seconds > 0).ok_or_else(|| Error::Query {
        what: "a span is a number with s, m, h, d, w or y, such as 24h, not",
        text: text.to_owned(),
    })
}

fn duration_of(text: &str) -> Option<u64> {
    let (unit, length) = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?;
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(length)
}

/// What `now` means in a query: the end of the second that is running. What was counted a moment ago
/// is in a range until now, in the first second of a minute as well, whose counts lie at its start.
///
/// ```
/// use tollgate_core::Time;
/// use tollgate_history::time_text::now_s;
/// assert_eq!(now_s(Time::new(60_000_001)), 61);
/// ```
pub fn now_s(now: Time) -> u64 {
    now.get().div_ceil(1_000_000)
}

/// A second as RFC 3339 in UTC.
pub fn rfc3339(second: u64) -> String {
    let at = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
    at.map_or_else(|| second.to_string(), |at| at.to_string())
}

/// The time that a query is about: from a second until before another.
///
/// ```
/// use tollgate_history::query::TimeRange;
/// let range = TimeRange::parse(None, None, Some("1h"), 1_800_000_000)?;
/// assert_eq!((range.from_s, range.to_s), (1_799_996_400, 1_800_000_000));
/// # Ok::<(), tollgate_history::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// The first second.
    pub from_s: u64,
    /// The second after the last.
    pub to_s: u64,
}

/// The range of a query that names no time.
const DEFAULT_S: u64 = 86_400;

impl TimeRange {
    /// From `from`, or `last` before `to`, until `to`; the last day by default.
    ///
    /// # Errors
    ///
    /// If a text is not a time, both `from` and `last` are given, or the range is
    /// empty.
    pub fn parse(from: Option<&str>, to: Option<&str>, last: Option<&str>, now_s: u64) -> Result<Self> {
        let to_s = to.filter(|text| !text.is_empty()).map_or(Ok(now_s), |text| instant(text, now_s))?;
        let from = from.filter(|text| !text.is_empty());
        let from_s = match (from, last) {
            (Some(_), Some(last)) => {
                return Err(Error::Query { what: "give a start or a length, not both", text: last.into() });
            }
            (Some(from), None) => instant(from, now_s)?,
            (None, Some(last)) => to_s.saturating_sub(duration(last)?),
            (None, None) => to_s.saturating_sub(DEFAULT_S),
        };
        if from_s >= to_s {
            let text = format!("{} to {}", rfc3339(from_s), rfc3339(to_s));
            return Err(Error::Query { what: "a span must end after it begins", text });
        }
        Ok(Self { from_s, to_s })
    }

    /// How long it is.
    pub const fn length_s(&self) -> u64 {
        self.to_s.saturating_sub(self.from_s)
    }

    /// The same range so many seconds earlier.
    pub(crate) const fn earlier(&self, by_s: u64) -> Self {
        Self { from_s: self.from_s.saturating_sub(by_s), to_s: self.to_s.saturating_sub(by_s) }
    }

    /// Whether a stored point of that length overlaps it.
    pub(crate) const fn touches(&self, second: u64, length_s: u64) -> bool {
        second < self.to_s && second + length_s > self.from_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_form_and_wrong_ones_are_named() {
        let now = 1_800_000_000;
        let good = [
            ("now", now),
            (" now-90s ", now - 90),
            ("now+1m", now + 60),
            ("now/h", now),
            ("now-30m/h", now - 3_600),
            ("2027-01-15T10:00:00+02:00", now),
            ("2027-01-15", now - 8 * 3_600),
            ("2027-01-15T08:00", now),
            ("2027-01-15 08:00:00", now),
            ("0", 0),
        ];
        for (text, second) in good {
            assert_eq!(instant(text, now).unwrap(), second, "{text}");
        }
        for text in ["", "now-", "now-6", "now-6x", "now*6h", "now/x", "yesterday", "-5", "1e9", "now--6h"] {
            let error = instant(text, now).unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
        assert_eq!((duration("24h").unwrap(), rfc3339(now).as_str()), (86_400, "2027-01-15T08:00:00Z"));
        for text in ["", "h", "0h", "-1h", "1", "99999999999999999999y", "+5m"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
