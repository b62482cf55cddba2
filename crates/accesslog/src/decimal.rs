//! Durations as logs write them: a decimal number of some unit, without floats.

use tollgate_core::Micros;

/// A decimal number of units of so many nanoseconds; a negative one counts as nothing.
pub(crate) fn duration(text: &[u8], nanos: u64) -> Option<Micros> {
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with('-') {
        return Some(Micros::ZERO);
    }
    // nginx lists the times of several upstreams; the last is the one that answered.
    let text = text.rsplit([',', ' ']).next()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.parse::<u64>().ok()?.checked_mul(nanos)?;
    let digits = fraction.get(..fraction.len().min(9))?;
    let mut part = 0;
    if !digits.is_empty() {
        let scale = 10_u64.pow(u32::try_from(digits.len()).ok()?);
        part = digits.parse::<u64>().ok()?.checked_mul(nanos)? / scale;
    }
    Some(Micros::new(whole.checked_add(part)? / 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_in_every_unit() {
        let second = 1_000_000_000;
        for (text, nanos, us) in [
            ("0.113", second, 113_000),
            ("12", 1_000_000, 12_000),
            ("357313", 1, 357),
            ("1.000001", second, 1_000_001),
            ("-1", 1_000_000, 0),
            ("0.001, 0.250", second, 250_000),
            ("0.0000019999999", second, 1),
        ] {
            assert_eq!(duration(text.as_bytes(), nanos), Some(Micros::new(us)), "{text}");
        }
        for text in ["", "x", "1.x", "99999999999999999999"] {
            assert_eq!(duration(text.as_bytes(), second), None, "{text}");
        }
    }
}
