//! Words of a command → numbers, keys and texts.

use std::cell::OnceCell;
use std::fmt;

use crate::bounds::{RESP_READ, VALUE_MAX};

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

/// What was read, as text where it is text.
///
/// Most words of most commands must be UTF-8. To look at all that was read at once takes a small part of the
/// time that looking at each word takes, and it is done when the first whole command asks for it.
#[derive(Debug)]
pub(super) struct ReadText<'a> {
    bytes: &'a [u8],
    /// As many of the first bytes as are text.
    text: OnceCell<&'a str>,
}

impl<'a> ReadText<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, text: OnceCell::new() }
    }

    /// A word that can be part of a key.
    pub(super) fn text(&self, what: &'static str, word: &'a [u8], max: usize) -> Result<&'a str, TextError> {
        debug_assert!(max <= VALUE_MAX, "no longer text can be part of a key");
        if word.len() > max {
            return Err(TextError::TooLong { what, bytes: word.len(), max });
        }
        let text = self.part(word).or_else(|| std::str::from_utf8(word).ok());
        text.ok_or(TextError::NotUtf8 { what })
    }

    /// A word that stands among the bytes that are known to be text.
    fn part(&self, word: &'a [u8]) -> Option<&'a str> {
        let text = self.text.get_or_init(|| self.valid());
        let start = word.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
        text.get(start..start.checked_add(word.len())?)
    }

    /// No more than one read is looked at, because a long command comes in many, and would be looked at each
    /// time that one more has come.
    fn valid(&self) -> &'a str {
        let bytes = self.bytes.get(..RESP_READ).unwrap_or(self.bytes);
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => bytes
                .get(..error.valid_up_to())
                .and_then(|valid| std::str::from_utf8(valid).ok())
                .unwrap_or_default(),
        }
    }
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
    fn a_word_is_text_if_it_is_text_by_itself_wherever_it_stands() {
        let long = [b"ab\xc3\xa9".repeat(RESP_READ / 4), b"xyz\xc3\xa9".to_vec()].concat();
        for bytes in [&b"ab\xc3\xa9cd\xe2\x82\xac"[..], b"ab\xffcd\xc3\xa9", b"\xa9ab", b"ab\xe2\x82", &long]
        {
            let (text, places) = (ReadText::new(bytes), bytes.len().saturating_sub(12)..=bytes.len());
            for (start, end) in places.clone().flat_map(|start| places.clone().map(move |end| (start, end))) {
                let Some(word) = bytes.get(start..end) else { continue };
                assert_eq!(
                    text.text("word", word, 12).ok(),
                    std::str::from_utf8(word).ok(),
                    "{start}..{end}"
                );
            }
        }
        let (text, other) = (ReadText::new(b"abc"), b"de\xc3\xa9".to_vec());
        assert_eq!(text.text("word", &other, 12), Ok("deé"), "a word from elsewhere");
        assert_eq!(text.text("word", &[], 12), Ok(""));
        assert!(text.text("word", &[b'a'; 13], 12).is_err());
    }

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
