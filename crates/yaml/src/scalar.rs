//! What a bare word, number or date means in YAML 1.1.
//!
//! The rules of the parser of envoyproxy/ratelimit: `on` is a truth value,
//! `0x1f`, `017` and `1_000` are whole numbers, `1.5` and `2020-01-01` are not
//! texts.
//!
//! Deliberately not here: values of floating point numbers and dates; what
//! takes them reads the text.

/// A scalar as written.
#[derive(Debug)]
pub struct YamlScalar {
    /// The text, with quotes and escapes taken off.
    pub text: String,
    /// Written so that it may mean something else than its text.
    pub is_plain: bool,
}

/// What a scalar means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarType {
    /// `null`, `~` or nothing at all.
    Null,
    /// `true`, `yes`, `on` and their opposites.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number, also a whole one too large for 64 bits with a sign.
    Float,
    /// A date, with a time of day or without.
    Timestamp,
    /// Anything else, and whatever is in quotes.
    Text,
}

impl YamlScalar {
    /// What it means.
    pub fn resolve(&self) -> ScalarType {
        if self.is_plain { resolve(&self.text) } else { ScalarType::Text }
    }

    /// Whether this is `<<`, the key whose value is merged into the map.
    pub fn is_merge(&self) -> bool {
        self.is_plain && self.text == "<<"
    }
}

fn resolve(text: &str) -> ScalarType {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => ScalarType::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            ScalarType::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            ScalarType::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => ScalarType::Float,
        _ if is_infinity(text) => ScalarType::Float,
        _ if text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => number(text),
        _ => ScalarType::Text,
    }
}

fn is_infinity(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(text, ".inf" | ".Inf" | ".INF")
}

fn number(text: &str) -> ScalarType {
    if is_timestamp(text) {
        return ScalarType::Timestamp;
    }
    let plain = text.replace('_', "");
    match integer(&plain) {
        Some(number) => i64::try_from(number).map_or(ScalarType::Float, ScalarType::Int),
        None if is_float(&plain) => ScalarType::Float,
        None => ScalarType::Text,
    }
}

/// A whole number with a base: `0x`, `0o`, `0b`, a leading 0 for octal.
fn integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let prefixes = [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2), ("0", 8), ("", 10)];
    let (digits, base) = match digits {
        "0" => ("0", 10),
        _ => prefixes.iter().find_map(|(prefix, base)| Some((digits.strip_prefix(prefix)?, *base)))?,
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    // Numbers that not even 64 bits without a sign hold are floats to the reference.
    u64::from_str_radix(digits, base).ok().map(|number| sign * i128::from(number))
}

/// Digits with a point or an exponent or both, or more digits than fit.
fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    let is_exponent = |text: &str| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        !digits.is_empty() && are_digits(digits)
    };
    has_digits && are_digits(whole) && are_digits(fraction) && exponent.is_none_or(is_exponent)
}

/// `2020-1-2`, alone or with a time of day.
fn is_timestamp(text: &str) -> bool {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at..)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let (Some(year), Some(month), Some(day), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    if year.len() != 4 || !year.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let in_range = |text: &str, range: std::ops::RangeInclusive<u32>| {
        text.len() <= 2
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && text.parse().is_ok_and(|number: u32| range.contains(&number))
    };
    let days = match month.trim_start_matches('0') {
        "2" => 29,
        "4" | "6" | "9" | "11" => 30,
        _ => 31,
    };
    in_range(month, 1..=12)
        && in_range(day, 1..=days)
        && time.is_none_or(|time| is_time_of_day(time, in_range))
}

/// `T15:4:5.9Z`, `t15:4:5+02:00`, or ` 15:4:5` without a zone.
fn is_time_of_day(text: &str, in_range: impl Fn(&str, std::ops::RangeInclusive<u32>) -> bool) -> bool {
    let has_zone = !text.starts_with(' ');
    let text = text.get(1..).unwrap_or_default();
    let text = match text.strip_suffix('Z') {
        _ if !has_zone => text,
        Some(text) => text,
        None => {
            let Some((text, zone)) = text.rsplit_once(['+', '-']) else { return false };
            let is_zone = zone.len() == 5
                && zone.split_once(':').is_some_and(|(h, m)| in_range(h, 0..=24) && in_range(m, 0..=59));
            if !is_zone {
                return false;
            }
            text
        }
    };
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = clock.split(':');
    let (Some(hour), Some(minute), Some(second), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    in_range(hour, 0..=23) && in_range(minute, 0..=59) && in_range(second, 0..=59) && is_fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_words_mean_what_they_mean_in_yaml_1_1() {
        use ScalarType::{Bool, Float, Int, Null, Text, Timestamp};
        let cases = [
            ("", Null),
            ("~", Null),
            ("NULL", Null),
            ("nULL", Text),
            ("on", Bool(true)),
            ("Y", Bool(true)),
            ("No", Bool(false)),
            ("yEs", Text),
            ("0", Int(0)),
            ("-0", Int(0)),
            ("5", Int(5)),
            ("+5", Int(5)),
            ("-5", Int(-5)),
            ("1_000", Int(1_000)),
            ("0x1F", Int(31)),
            ("-0x1f", Int(-31)),
            ("017", Int(15)),
            ("0o17", Int(15)),
            ("0b101", Int(5)),
            ("00", Int(0)),
            ("089", Float),
            ("9223372036854775807", Int(i64::MAX)),
            ("-9223372036854775808", Int(i64::MIN)),
            ("9223372036854775808", Float),
            ("99999999999999999999999", Float),
            ("1.5", Float),
            ("1.", Float),
            (".5", Float),
            (".", Text),
            ("-", Text),
            ("1e3", Float),
            ("1e", Text),
            ("-1.5E-3", Float),
            (".inf", Float),
            ("-.INF", Float),
            (".nan", Float),
            ("1.2.3.4", Text),
            ("10.0.0.0/8", Text),
            ("0x", Text),
            ("0xg", Text),
            ("5s", Text),
            ("1:30", Text),
            ("2020-01-01", Timestamp),
            ("2020-1-2", Timestamp),
            ("2020-02-30", Text),
            ("2020-13-01", Text),
            ("20-01-01", Text),
            ("2020-01-01T10:00:00Z", Timestamp),
            ("2020-01-01t10:00:00.25+02:00", Timestamp),
            ("2020-01-01 10:00:00", Timestamp),
            ("2020-01-01 10:00:00Z", Text),
            ("2020-01-01T10:00:00", Text),
            ("/path", Text),
            ("ümlaut", Text),
            ("2020-é", Text),
        ];
        for (text, meaning) in cases {
            let scalar = YamlScalar { text: text.into(), is_plain: true };
            assert_eq!(scalar.resolve(), meaning, "{text}");
            let quoted = YamlScalar { text: text.into(), is_plain: false };
            assert_eq!(quoted.resolve(), Text, "{text}");
        }
    }
}
