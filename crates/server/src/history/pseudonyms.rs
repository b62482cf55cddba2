//! Values that must not be read in the history: marked on the path of a request, hashed when they
//! leave the process.
//!
//! A hash for every decision would cost as much as the decision. `decision_counter` writes a value
//! between two marks into the name of its key, and what a flush takes over gets a pseudonym for it:
//! the few names that get a series, once in 15 seconds.
//!
//! Invariant: no text but a mark has the character of a mark, so that no value can end its own.

use std::borrow::Cow;

use tollgate_history::Label;

/// Stands before and after a value.
const MARK: char = '\0';

/// Appends a text that may be read.
pub(super) fn push_text(name: &mut String, text: &str) {
    match text.contains(MARK) {
        true => name.push_str(&text.replace(MARK, "\u{fffd}")),
        false => name.push_str(text),
    }
}

/// Appends a value that must not be read.
pub(super) fn push_hidden(name: &mut String, value: &str, salt: &str) {
    if value.contains(MARK) {
        return name.push_str(&Label::hashed(value, salt));
    }
    name.push(MARK);
    name.push_str(value);
    name.push(MARK);
}

/// A text that comes from elsewhere, without marks.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    match text.contains(MARK) {
        true => Cow::Owned(text.replace(MARK, "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

/// Whether a name has a value that must not be read.
pub(super) fn has_hidden(name: &str) -> bool {
    name.contains(MARK)
}

/// The same name with pseudonyms.
pub(super) fn hashed(name: &str, salt: &str) -> String {
    let mut shown = String::with_capacity(name.len() + 32);
    for (place, part) in name.split(MARK).enumerate() {
        match place % 2 {
            0 => shown.push_str(part),
            _ => shown.push_str(&Label::hashed(part, salt)),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(parts: &[(&str, bool)]) -> String {
        let mut name = String::new();
        for (text, is_hidden) in parts {
            match is_hidden {
                true => push_hidden(&mut name, text, "salt"),
                false => push_text(&mut name, text),
            }
        }
        name
    }

    #[test]
    fn a_hidden_value_becomes_its_pseudonym_whatever_is_in_it() {
        for secret in ["geheim", "", "a,b=c", "a\0b", "\0", "\0geheim\0"] {
            let marked = name(&[("api_key=", false), (secret, true), (",path=/a", false)]);
            let expected = format!("api_key={},path=/a", Label::hashed(secret, "salt"));
            assert_eq!(hashed(&marked, "salt"), expected, "{secret:?}");
        }
        let two = name(&[("a=", false), ("1", true), (",b=", false), ("2", true)]);
        let expected = ["a=", &Label::hashed("1", "salt"), ",b=", &Label::hashed("2", "salt")].concat();
        assert_eq!(hashed(&two, "salt"), expected);
    }

    #[test]
    fn what_may_be_read_has_no_marks() {
        let visible = name(&[("user=", false), ("a\0b\0", false)]);
        assert!(!has_hidden(&visible) && visible == "user=a\u{fffd}b\u{fffd}" && plain("a\0") == "a\u{fffd}");
        assert!(has_hidden(&name(&[("", true)])));
    }
}
