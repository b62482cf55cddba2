//! How long a value may be.
//!
//! Values come from clients, and a key in a shared store holds them. A longer
//! one keeps its beginning, so that rules by prefix still apply, and ends in a
//! hash of the whole, so that two long values do not share a counter.
//!
//! Invariant: what is cut depends on the value alone, so that all nodes and all
//! versions agree.

use std::borrow::Cow;
use std::fmt::Write as _;

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

/// The longest value in bytes. A session cookie or an API key is shorter; a
/// token that is longer is a claim's business.
pub const VALUE_MAX: usize = 256;

/// What is kept of a longer one, before `~` and the hash in hexadecimal.
const KEPT: usize = VALUE_MAX - 1 - 2 * SHA256_OUTPUT_LEN;

/// The value itself if it is short enough; else its first 191 bytes, or a few
/// less so that no character is split, `~`, and its SHA-256 in hexadecimal.
pub fn bound(value: Cow<'_, str>) -> Cow<'_, str> {
    if value.len() <= VALUE_MAX {
        return value;
    }
    let mut short = cut(&value, KEPT).to_owned();
    short.push('~');
    for byte in digest(&SHA256, value.as_bytes()).as_ref() {
        // Writing to a text cannot fail.
        let _infallible = write!(short, "{byte:02x}");
    }
    Cow::Owned(short)
}

/// The first `max` bytes, or a few less so that no character is split.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// Bytes as text; what is no UTF-8 becomes U+FFFD, so that all such values of
/// one shape share a counter, which harms only who sends them.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    // Nearly all are, and whoever looks for the bad ones takes longer to see that.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_cut_only_where_it_is_too_long() {
        let fits = "é".repeat(VALUE_MAX / 2);
        assert_eq!(bound(Cow::Borrowed(&fits)), fits);
        let longer = format!("{fits}x");
        let short = bound(Cow::Borrowed(&longer));
        assert!(short.len() <= VALUE_MAX && longer.starts_with(short.split_once('~').unwrap().0), "{short}");
    }

    #[test]
    fn the_rule_is_written_down() {
        let hash = "9835fa6bf4e20a9b9ea812506302e98982721a6cf8d2cae67af57129bf21ae90";
        assert_eq!(bound("a".repeat(300).into()), format!("{}~{hash}", "a".repeat(191)));
    }
}
