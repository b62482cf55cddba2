//! Spans of time as people write them: `150us`, `10s`, `1m30s`, `1.5h`.
//!
//! Rule files, rule tests and settings read durations with
//! [`Micros::from_str`]. The form is that of Go, plus days.
//!
//! Invariant: what is accepted is kept exactly, to the microsecond.
//!
//! Deliberately not here: points in time, calendars, and negative spans.

use std::fmt;
use std::str::FromStr;

use crate::time::Micros;

/// The units and their length in microseconds. A longer name stands before
/// a shorter one that it begins with.
const UNITS: [(&str, u64); 8] = [
    ("us", 1),
    ("µs", 1), // U+00B5, micro sign
    ("μs", 1), // U+03BC, Greek mu
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

/// More digits after the point are no whole number of microseconds in any unit
/// that is written with so many, unless they are zeros.
const FRACTION_DIGITS_MAX: usize = 12;

/// The most characters of a text that a message repeats.
const QUOTE_MAX: usize = 60;

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurationError {
    /// Nothing at all.
    Empty,
    /// A number stands without its unit.
    NoUnit {
        /// The text.
        text: String,
        /// The number without a unit.
        number: String,
    },
    /// It begins with a minus sign.
    Negative {
        /// The text.
        text: String,
    },
    /// It is finer than can be kept.
    TooFine {
        /// The text.
        text: String,
    },
    /// It is longer than can be kept.
    TooLong {
        /// The text.
        text: String,
    },
    /// It is no duration.
    NotADuration {
        /// The text.
        text: String,
    },
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const EXAMPLE: &str = "write one such as 2s, 500ms or 1m30s";
        match self {
            Self::Empty => write!(f, "a duration is missing; {EXAMPLE}"),
            Self::NoUnit { text, number } => {
                write!(f, "'{text}' has no unit; write {number}s, {number}ms or {number}m")
            }
            Self::Negative { text } => write!(f, "'{text}' is negative; write 0s or more"),
            Self::TooFine { text } => {
                write!(f, "'{text}' is no whole number of microseconds; write it to the microsecond")
            }
            Self::TooLong { text } => write!(f, "'{text}' is too long; write {} or less", Micros::MAX),
            Self::NotADuration { text } => write!(f, "'{text}' is not a duration; {EXAMPLE}"),
        }
    }
}

impl std::error::Error for DurationError {}

/// Numbers with the units `us`, `ms`, `s`, `m`, `h` and `d`, one after the
/// other, or a plain `0`.
///
/// ```
/// use tollgate_core::Micros;
/// assert_eq!("1m30s".parse(), Ok(Micros::from_secs(90)));
/// let error = "10".parse::<Micros>().unwrap_err();
/// assert_eq!(error.to_string(), "'10' has no unit; write 10s, 10ms or 10m");
/// ```
impl FromStr for Micros {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        if text.is_empty() {
            return Err(DurationError::Empty);
        }
        if text.starts_with('-') {
            return Err(DurationError::Negative { text: shortened(text) });
        }
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        let no_duration = || DurationError::NotADuration { text: shortened(text) };
        if rest.is_empty() {
            return Err(no_duration());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (number, after) = split_number(rest);
            if !number.bytes().any(|byte| byte.is_ascii_digit()) {
                return Err(no_duration());
            }
            if after.is_empty() {
                return Err(DurationError::NoUnit { text: shortened(text), number: shortened(number) });
            }
            let unit = UNITS.iter().find_map(|(name, us)| after.strip_prefix(name).map(|after| (after, *us)));
            let (after, unit_us) = unit.ok_or_else(no_duration)?;
            let piece = piece_us(number, unit_us).ok_or_else(|| match is_fraction(number) {
                true => DurationError::TooFine { text: shortened(text) },
                false => DurationError::TooLong { text: shortened(text) },
            })?;
            total = total.saturating_add(piece);
            rest = after;
        }
        if total > Self::MAX.get() {
            return Err(DurationError::TooLong { text: shortened(text) });
        }
        Ok(Self::new(total))
    }
}

/// The text as a message repeats it: on one line, and not too long.
fn shortened(text: &str) -> String {
    let mut chars = text.chars();
    let printable = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut short: String = chars.by_ref().take(QUOTE_MAX).map(printable).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

fn split_number(text: &str) -> (&str, &str) {
    let mut points = 0;
    let end = text.find(|c: char| {
        points += usize::from(c == '.');
        !(c.is_ascii_digit() || (c == '.' && points == 1))
    });
    text.split_at(end.unwrap_or(text.len()))
}

fn is_fraction(number: &str) -> bool {
    number.split_once('.').is_some_and(|(_, fraction)| fraction.bytes().any(|byte| byte != b'0'))
}

/// `number` times the unit; none if that is not whole, or does not fit.
fn piece_us(number: &str, unit_us: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let whole_us = whole.checked_mul(unit_us)?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Some(whole_us);
    }
    if fraction.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let scaled = fraction.parse::<u128>().ok()? * u128::from(unit_us);
    let part = scaled.is_multiple_of(scale).then(|| scaled / scale)?;
    whole_us.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_as_go_reads_it() {
        let cases = [
            ("0", 0),
            ("0s", 0),
            ("150us", 150),
            ("150µs", 150),
            ("500ms", 500_000),
            ("1.5ms", 1_500),
            ("2s", 2_000_000),
            ("+2s", 2_000_000),
            (".5s", 500_000),
            ("1.s", 1_000_000),
            ("1m30s", 90_000_000),
            ("1h30m", 5_400_000_000),
            ("1.5h", 5_400_000_000),
            ("1h1h", 7_200_000_000),
            ("7d", 604_800_000_000),
            ("0.000001000s", 1),
            ("9007199254740991us", 9_007_199_254_740_991),
        ];
        for (text, us) in cases {
            assert_eq!(text.parse(), Ok(Micros::new(us)), "{text}");
        }
    }

    #[test]
    fn what_a_span_prints_reads_back() {
        for us in [0, 1, 999, 1_000, 1_500, 61_000_000, 86_400_500_000, 604_800_000_000, Micros::MAX.get()] {
            let span = Micros::new(us);
            assert_eq!(span.to_string().parse(), Ok(span));
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_its_reason() {
        let cases = [
            ("", "a duration is missing; write one such as 2s, 500ms or 1m30s"),
            ("10", "'10' has no unit; write 10s, 10ms or 10m"),
            ("1m30", "'1m30' has no unit; write 30s, 30ms or 30m"),
            ("-1s", "'-1s' is negative; write 0s or more"),
            ("1ns", "'1ns' is not a duration; write one such as 2s, 500ms or 1m30s"),
            ("s", "'s' is not a duration; write one such as 2s, 500ms or 1m30s"),
            ("+", "'+' is not a duration; write one such as 2s, 500ms or 1m30s"),
            (".s", "'.s' is not a duration; write one such as 2s, 500ms or 1m30s"),
            ("1.2.3s", "'1.2.3s' is not a duration; write one such as 2s, 500ms or 1m30s"),
            ("2 s", "'2 s' is not a duration; write one such as 2s, 500ms or 1m30s"),
            ("1e3s", "'1e3s' is not a duration; write one such as 2s, 500ms or 1m30s"),
            ("1.5us", "'1.5us' is no whole number of microseconds; write it to the microsecond"),
            ("0.0000001s", "'0.0000001s' is no whole number of microseconds; write it to the microsecond"),
            ("9007199254740992us", "'9007199254740992us' is too long; write 104249d23h47m34.740991s or less"),
            (
                "99999999999999999999999s",
                "'99999999999999999999999s' is too long; write 104249d23h47m34.740991s or less",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(text.parse::<Micros>().unwrap_err().to_string(), message);
        }
    }
}
