//! Texts as the settings of envoyproxy/ratelimit are written: Go's words.
//!
//! Every parser gives the value, or says what is wrong and what to write.

use std::time::Duration;

use tollgate_core::{DurationError, Micros};

/// Go's truth values.
pub(super) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false; write true or false")),
    }
}

/// A duration with its unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let span: Micros = text.parse().map_err(|error: DurationError| error.to_string())?;
    Ok(Duration::from_micros(span.get()))
}

/// A whole number.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is not a whole number in range; write one such as 1000"))
}

/// A port.
pub(super) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("'{text}' is not a port; write a number from 0 to 65535"))
}

/// A part of a whole.
pub(super) fn ratio(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a part of a whole; write a number from 0 to 1, such as 0.8");
    let number: f64 = text.parse().map_err(|_| wrong())?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err(wrong()) }
}

/// A part of a whole, in thousandths.
pub(super) fn permille(text: &str) -> Result<u32, String> {
    // A duration of that many seconds has as many milliseconds, without arithmetic on fractions.
    let ms = Duration::try_from_secs_f64(ratio(text)?).map_or(0, |span| span.as_millis());
    Ok(u32::try_from(ms).unwrap_or(1_000))
}

/// `a,b,c`.
pub(super) fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// `k:v,k2:v2`, with what stands between key and value.
pub(super) fn pairs(text: &str, between: &[char]) -> Result<Vec<(String, String)>, String> {
    let sign = between.first().copied().unwrap_or(':');
    let pair = |item: String| {
        let (key, value) = item.split_once(between).unwrap_or((&item, ""));
        let is_whole = item.contains(between) && !key.trim().is_empty();
        let own = || (key.trim().to_owned(), value.trim().to_owned());
        // What stands there may be a secret, and is not repeated.
        is_whole.then(own).ok_or_else(|| {
            format!("an item is no pair of a name and a value; write name{sign}value,name{sign}value")
        })
    };
    list(text).into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_is_what_go_says() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(truth(text), Ok(true));
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(truth(text), Ok(false));
        }
        assert_eq!(truth("yes").unwrap_err(), "'yes' is neither true nor false; write true or false");
    }

    #[test]
    fn pairs_are_split_at_the_first_sign() {
        let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(pairs("a:1, b:2:3,", &[':']), Ok(vec![own("a", "1"), own("b", "2:3")]));
        assert_eq!(
            pairs("authorization=Bearer a:b", &['=', ':']),
            Ok(vec![own("authorization", "Bearer a:b")])
        );
        assert!(pairs("lonely", &[':']).is_err());
        assert!(pairs(":nameless", &[':']).is_err());
    }

    #[test]
    fn a_part_is_kept_in_thousandths() {
        assert_eq!(permille("0.5"), Ok(500));
        assert_eq!(permille("1"), Ok(1_000));
        assert!(permille("1.1").is_err());
        assert!(ratio("NaN").is_err());
    }

    #[test]
    fn a_duration_without_a_unit_is_refused_with_what_to_write() {
        assert_eq!(duration("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(duration("10").unwrap_err(), "'10' has no unit; write 10s, 10ms or 10m");
    }
}
