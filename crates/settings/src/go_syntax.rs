//! Values as envoyproxy/ratelimit takes them: Go's truth values and durations.
//!
//! Every parser gives the value, or says what is wrong and what to write.

use std::time::Duration;

use tollgate_core::{DurationError, Micros};

/// Go's truth values.
pub(crate) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false; write true or false")),
    }
}

/// A duration with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let span: Micros = text.parse().map_err(|error: DurationError| error.to_string())?;
    Ok(Duration::from_micros(span.get()))
}

/// A duration that is not 0, for whatever nothing could meet.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(format!("'{text}' would cut everything off; write such as 5s")),
        time => Ok(time),
    }
}

/// A whole number.
pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is not a whole number in range; write one such as 1000"))
}

/// A port.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("'{text}' is not a port; write a number from 0 to 65535"))
}

/// A part of a whole.
pub(crate) fn ratio(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a part of a whole; write a number from 0 to 1, such as 0.8");
    let number: f64 = text.parse().map_err(|_| wrong())?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err(wrong()) }
}

/// A part of a whole, in thousandths.
pub(crate) fn permille(text: &str) -> Result<u32, String> {
    // A duration of that many seconds has as many milliseconds, without arithmetic on fractions.
    let ms = Duration::try_from_secs_f64(ratio(text)?).map_or(0, |span| span.as_millis());
    Ok(u32::try_from(ms).unwrap_or(1_000))
}

/// One of some words, in capital letters or not; `wrong` says what another is
/// not, such as "is not a level".
pub(crate) fn choice<T: Copy>(text: &str, wrong: &str, words: &[(&str, T)]) -> Result<T, String> {
    match words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)) {
        Some((_, value)) => Ok(*value),
        None => {
            Err(format!("'{text}' {wrong}; {}", tollgate_yaml::one_of(words.iter().map(|(word, _)| *word))))
        }
    }
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

    #[test]
    fn a_choice_names_all_words() {
        let words = [("tcp", 1), ("udp", 2)];
        assert_eq!(choice("UDP", "is not a protocol", &words), Ok(2));
        assert_eq!(
            choice("icmp", "is not a protocol", &words).unwrap_err(),
            "'icmp' is not a protocol; write tcp or udp"
        );
    }
}
