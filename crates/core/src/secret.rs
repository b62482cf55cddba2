//! A text that nobody prints by accident.
//!
//! Passwords, tokens, private keys and salts of all crates are of this type.
//!
//! Invariant: only [`Secret::expose`] gives the text away.

use std::fmt;

/// A token, a password, or what may hold one.
///
/// ```
/// use tollgate_core::Secret;
/// let token = Secret::new("hunter2");
/// assert_eq!(format!("{token:?}"), "[hidden]");
/// assert_eq!(token.expose(), "hunter2");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one who checks or sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}
