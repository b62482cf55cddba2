//! Spans, instants and verdicts as the vectors write them.
//!
//! A span is a sum of terms, each a decimal number with its unit: `1.5s`,
//! `1m40s` is not one but `1m+40s` is, and so is `1h-1us`.
//!
//! Invariant: exact. What is not a whole number of microseconds is refused.

use tollgate_core::{Micros, Time, Verdict};

const UNITS: [(&str, u64); 7] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
    ("y", 31_536_000_000_000),
];

pub(super) fn span(text: &str) -> Result<Micros, String> {
    let wrong = || format!("`{text}` is no span; write a sum like 1.5s or 1h-1us");
    let mut total: i128 = 0;
    let mut rest = text;
    let mut sign = 1;
    loop {
        let end = rest.find(['+', '-']).unwrap_or(rest.len());
        let (term, tail) = rest.split_at(end);
        total += sign * micros(term).ok_or_else(wrong)?;
        let mut chars = tail.chars();
        sign = match chars.next() {
            None => break,
            Some('-') => -1,
            Some(_) => 1,
        };
        rest = chars.as_str();
    }
    let micros = u64::try_from(total).map_err(|_| wrong())?;
    if Micros::new(micros).get() != micros { Err(wrong()) } else { Ok(Micros::new(micros)) }
}

/// One term, `12.5ms`.
fn micros(term: &str) -> Option<i128> {
    let split = term.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, name) = term.split_at(split);
    let (_, unit) = UNITS.iter().find(|(unit, _)| *unit == name)?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let digits: u64 = format!("{whole}{decimals}").parse().ok()?;
    let scaled = i128::from(digits) * i128::from(*unit);
    let scale = 10_i128.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    (scaled % scale == 0).then_some(scaled / scale)
}

pub(super) fn instant(text: &str) -> Result<Time, String> {
    Ok(Time::EPOCH + span(text)?)
}

/// `allow`, `delay 0.5s`, `deny 20s` or `deny never`.
pub(super) fn verdict(text: &str) -> Result<Verdict, String> {
    match text.split_once(' ') {
        None if text == "allow" => Ok(Verdict::Allow),
        Some(("delay", wait)) => Ok(Verdict::Delay { wait: span(wait)? }),
        Some(("deny", "never")) => Ok(Verdict::Deny { retry_after: None }),
        Some(("deny", after)) => Ok(Verdict::Deny { retry_after: Some(span(after)?) }),
        _ => Err(format!("`{text}` is no verdict; write allow, delay 0.5s, deny 20s or deny never")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_a_sum_of_exact_terms() {
        for (text, us) in [("0s", 0), ("1.5s", 1_500_000), ("1m+40s", 100_000_000), ("1h-1us", 3_599_999_999)]
        {
            assert_eq!(span(text), Ok(Micros::new(us)), "{text}");
        }
        for text in ["", "5", "s", "1.5us", "1s-2s", "1x", "1m40s", "300y"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
