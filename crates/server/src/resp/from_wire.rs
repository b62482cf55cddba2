//! Words of a command → numbers, keys and texts.

use std::fmt;

use crate::bounds::VALUE_MAX;

/// How many bytes of a word an error repeats.
const EXCERPT_MAX: usize = 64;

/// A word as an error repeats it: cut short, and as text.
pub(super) struct Excerpt<'a>(pub(super) &'a [u8]);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = self.0.get(..EXCERPT_MAX).unwrap_or(self.0);
        f.write_str(&String::from_utf8_lossy(cut))?;
        if cut.len() < self.0.len() { f.write_str("…") } else { Ok(()) }
    }
}

/// Numbers of so many digits fit whatever they are.
const DIGITS_SAFE: usize = 18;

/// A whole number.
pub(super) fn integer(word: &[u8]) -> Option<i64> {
    // Nearly all are short and have no sign; several of them come with every CL.THROTTLE.
    let digit = |sum: i64, byte: &u8| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0'));
    let is_short = (1..=DIGITS_SAFE).contains(&word.len());
    let plain = if is_short { word.iter().try_fold(0, digit) } else { None };
    plain.or_else(|| std::str::from_utf8(word).ok()?.parse().ok())
}

/// A text that can be part of a key.
pub(super) fn text<'a>(what: &'static str, word: &'a [u8], max: usize) -> Result<&'a str, TextError> {
    debug_assert!(max <= VALUE_MAX, "no longer text can be part of a key");
    if word.len() > max {
        return Err(TextError::TooLong { what, bytes: word.len(), max });
    }
    std::str::from_utf8(word).map_err(|_| TextError::NotUtf8 { what })
}

/// Why a word cannot be part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TextError {
    #[error("the {what} is not UTF-8; send text, or encode it as hex or base64")]
    NotUtf8 { what: &'static str },
    #[error("the {what} has {bytes} bytes, which are too many; send at most {max}")]
    TooLong { what: &'static str, bytes: usize, max: usize },
}

/// No name of ours is longer.
const NAME_MAX: usize = 24;

/// A word in capitals, cut to the length of our longest name.
pub(super) fn upper(word: &[u8]) -> smallvec::SmallVec<[u8; NAME_MAX]> {
    word.iter().take(NAME_MAX).map(u8::to_ascii_uppercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_what_the_standard_library_says() {
        let words = [
            "",
            "0",
            "7",
            "007",
            "+7",
            "-7",
            "--7",
            "1_000",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "x",
            "é",
            "-",
            "+",
            "999999999999999999",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775808",
            "0000000000000000000000000001",
            "99999999999999999999",
        ];
        for word in words {
            assert_eq!(integer(word.as_bytes()), word.parse().ok(), "{word:?}");
        }
        assert_eq!(integer(b"1\xff"), None);
    }
}
