//! The time stamps that logs have.
//!
//! Three kinds, told apart by their looks: `01/Aug/1995:00:00:01 -0400` of the common log format,
//! `2026-01-02T03:04:05.678Z` and its like, and seconds, milliseconds, microseconds or nanoseconds
//! since the epoch. One without an offset is taken as UTC.

use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;
use tollgate_core::{Micros, Time};

/// A time stamp that was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timestamp {
    pub(crate) time: Time,
    pub(crate) whole_second: bool,
}

/// The longest text that is remembered; RFC 3339 with nanoseconds has 35.
const REMEMBERED_MAX: usize = 40;

/// Remembers the last minute, `02/Jan/2026:03:04:` with its offset: nearly all lines of a log are of
/// the same minute as the one before, and then only the seconds are read.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimeCache {
    /// What stands before the seconds; empty if nothing is remembered.
    minute: Vec<u8>,
    /// What stands behind them and their fraction.
    zone: Vec<u8>,
    /// Its first second.
    start_s: u64,
}

impl TimeCache {
    /// The time that the text says.
    pub(crate) fn parse(&mut self, text: &[u8]) -> Option<Timestamp> {
        if let Some(time) = self.remembered(text) {
            return Some(time);
        }
        let time = timestamp(std::str::from_utf8(text).ok()?)?;
        self.remember(text, time);
        Some(time)
    }

    fn remembered(&self, text: &[u8]) -> Option<Timestamp> {
        if self.minute.is_empty() {
            return None;
        }
        let Clock { second, fraction_us, rest } = Clock::read(text.strip_prefix(&*self.minute)?)?;
        if rest != self.zone {
            return None;
        }
        let us = (self.start_s + second) * 1_000_000 + fraction_us.unwrap_or(0);
        Some(Timestamp { time: Time::new(us), whole_second: fraction_us.is_none() })
    }

    fn remember(&mut self, text: &[u8], time: Timestamp) {
        let length = match text {
            [_, _, b'/', _, _, _, b'/', _, _, _, _, b':', _, _, b':', _, _, b':', ..] => 18,
            [_, _, _, _, b'-', _, _, b'-', _, _, b'T' | b' ', _, _, b':', _, _, b':', ..] => 17,
            _ => return,
        };
        let Some((minute, clock)) = text.split_at_checked(length) else { return };
        if let Some(Clock { second, rest, .. }) = Clock::read(clock)
            && text.len() <= REMEMBERED_MAX
            && let Some(start_s) = (time.time.get() / 1_000_000).checked_sub(second)
        {
            self.minute.clear();
            self.minute.extend_from_slice(minute);
            self.zone.clear();
            self.zone.extend_from_slice(rest);
            self.start_s = start_s;
        }
    }

    /// The same of a date and a time of day.
    pub(crate) fn parse_pair(&mut self, date: &[u8], clock: &[u8]) -> Option<Timestamp> {
        self.parse(&[date, b"T", clock].concat())
    }
}

/// What stands behind hour and minute: `05 +0100` or `05.678Z`.
struct Clock<'a> {
    second: u64,
    fraction_us: Option<u64>,
    rest: &'a [u8],
}

impl<'a> Clock<'a> {
    fn read(text: &'a [u8]) -> Option<Self> {
        let [tens @ b'0'..=b'5', ones @ b'0'..=b'9', rest @ ..] = text else { return None };
        let second = u64::from(tens - b'0') * 10 + u64::from(ones - b'0');
        let [b'.', fraction @ ..] = rest else { return Some(Self { second, fraction_us: None, rest }) };
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (fraction, rest) = fraction.split_at_checked(digits)?;
        // Finer digits than microseconds are cut off.
        let padded = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(6);
        let us = padded.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        (1..=9).contains(&digits).then_some(Self { second, fraction_us: Some(us), rest })
    }
}

fn timestamp(text: &str) -> Option<Timestamp> {
    let text = text.trim().trim_matches(['[', ']']);
    let is_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    match text.as_bytes() {
        [_, b'/', ..] | [_, _, b'/', ..] => common(text),
        bytes if !bytes.is_empty() && bytes.iter().all(|byte| is_number(*byte)) => since_epoch(text),
        _ => iso(text),
    }
}

pub(crate) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `01/Aug/1995:00:00:01 -0400`; HAProxy adds milliseconds and leaves out the offset.
fn common(text: &str) -> Option<Timestamp> {
    let (local, offset) = match text.split_once(' ') {
        Some((local, offset)) => (local, offset_s(offset)?),
        None => (text, 0),
    };
    let mut parts = local.splitn(6, ['/', ':']);
    let mut next = || parts.next();
    let day = next()?.parse().ok()?;
    let name = next()?;
    let month = (1_i8..).zip(MONTHS).find(|(_, month)| month.eq_ignore_ascii_case(name))?.0;
    let date = Date::new(next()?.parse().ok()?, month, day).ok()?;
    let (hour, minute, second) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?);
    let (second, fraction) = second.split_once('.').unwrap_or((second, ""));
    let clock = jiff::civil::Time::new(hour, minute, second.parse().ok()?, 0).ok()?;
    at(date.to_datetime(clock), offset, fraction)
}

/// `-0400` in seconds.
fn offset_s(zone: &str) -> Option<i32> {
    let (sign, digits) = zone.split_at_checked(1)?;
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i32 = digits.parse().ok()?;
    let seconds = (number / 100) * 3_600 + (number % 100) * 60;
    match sign {
        "+" => Some(seconds),
        "-" => Some(-seconds),
        _ => None,
    }
}

fn at(local: DateTime, offset_s: i32, fraction: &str) -> Option<Timestamp> {
    let offset = Offset::from_seconds(offset_s).ok()?;
    let seconds = u64::try_from(offset.to_timestamp(local).ok()?.as_second()).ok()?;
    with_fraction(seconds, fraction)
}

fn with_fraction(seconds: u64, fraction: &str) -> Option<Timestamp> {
    let part = match fraction {
        "" => Micros::ZERO,
        digits => crate::decimal::duration(format!("0.{digits}").as_bytes(), 1_000_000_000)?,
    };
    let us = seconds.checked_mul(1_000_000)?.checked_add(part.get())?;
    Some(Timestamp { time: Time::new(us), whole_second: fraction.is_empty() })
}

/// `2026-01-02T03:04:05.678+01:00`, or with a blank between, or without an offset.
fn iso(text: &str) -> Option<Timestamp> {
    // jiff accepts much more, such as a date alone.
    let is_whole =
        matches!(text.as_bytes(), [_, _, _, _, b'-', _, _, b'-', _, _, b'T' | b' ', _, _, b':', ..]);
    if !is_whole {
        return None;
    }
    let whole_second = !text.contains(['.', ',']);
    let timestamp = match text.parse::<jiff::Timestamp>() {
        Ok(timestamp) => timestamp,
        Err(_) => Offset::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok()?,
    };
    let us = u64::try_from(timestamp.as_microsecond()).ok()?;
    Some(Timestamp { time: Time::new(us), whole_second })
}

/// Seconds until the year 5138; more digits are of finer units.
fn since_epoch(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let number = whole.parse::<u64>().ok()?;
    let us = match whole.len() {
        0..=11 => return with_fraction(number, fraction),
        12..=14 => number.checked_mul(1_000)?,
        15..=17 => number,
        _ => number / 1_000,
    };
    Some(Timestamp { time: Time::new(us), whole_second: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_is_understood_in_every_notation() {
        let (second, whole) = (1_767_323_045_000_000, true);
        for (text, us, whole_second) in [
            ("02/Jan/2026:03:04:05 +0000", second, whole),
            ("02/Jan/2026:04:34:05 +0130", second, whole),
            ("[02/jan/2026:03:04:05 +0000]", second, whole),
            ("02/Jan/2026:03:04:05.678", second + 678_000, false),
            ("2026-01-02T03:04:05Z", second, whole),
            ("2026-01-01T20:04:05.678-07:00", second + 678_000, false),
            ("2026-01-02 03:04:05", second, whole),
            ("2026-01-02T03:04:05.678123456Z", second + 678_123, false),
            ("1767323045", second, whole),
            ("1767323045.678", second + 678_000, false),
            ("1767323045678", second + 678_000, false),
            ("1767323045678123", second + 678_123, false),
            ("1767323045678123456", second + 678_123, false),
        ] {
            let expected = Timestamp { time: Time::new(us), whole_second };
            assert_eq!(timestamp(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_the_calendar_does_not_have_is_no_time() {
        for text in [
            "",
            "-",
            ".",
            "32/Jan/2000:00:00:00 +0000",
            "01/Foo/2000:00:00:00 +0000",
            "01/Jan/2000:24:00:00 +0000",
            "01/Jan/2000:00:00:00 0000",
            "01/Jan/1960:00:00:00 +0000",
            "01/Jan/2000:00:00:00 +9900",
            "2026-02-30T00:00:00Z",
            "2026-01-02",
            "99999999999999999999999",
            "1.2.3",
        ] {
            assert_eq!(timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_minute_is_remembered_and_not_mistaken() {
        let mut cache = TimeCache::default();
        // Each twice, the second time from memory, and behind what may be mistaken for it.
        for text in [
            "02/Jan/2026:03:04:05 +0000",
            "02/Jan/2026:03:04:59 +0000",
            "02/Jan/2026:03:04:05 +0130",
            "02/Jan/2026:03:05:05 +0130",
            "02/Jan/2026:03:05:05.678",
            "02/Jan/2026:03:05:06",
            "2026-01-02T03:04:05.678123456Z",
            "2026-01-02T03:04:07.5Z",
            "2026-01-02T03:04:07Z",
            "2026-01-02T03:04:07.5+01:00",
            "2026-01-02 03:04:07",
            "1767323045",
            "1767323046.25",
        ] {
            assert!(timestamp(text).is_some(), "{text}");
            assert_eq!([text, text].map(|text| cache.parse(text.as_bytes())), [timestamp(text); 2], "{text}");
            for wrong in ["nonsense", "2026-01-02T03:04:61Z", "02/Jan/2026:03:05:0", "2026-01-02T03:04:07.Z"]
            {
                assert_eq!(cache.parse(wrong.as_bytes()), timestamp(wrong), "{wrong} behind {text}");
            }
        }
    }
}
