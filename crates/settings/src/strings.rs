//! Where named texts come from: the environment, or a map in a test.

use std::collections::HashMap;

/// Texts by name.
///
/// ```
/// use std::collections::HashMap;
/// use tollgate_settings::Strings;
/// let strings = HashMap::from([("PORT".to_owned(), "8080".to_owned())]);
/// assert_eq!(Strings::get(&strings, "PORT").as_deref(), Some("8080"));
/// ```
pub trait Strings {
    /// The text of that name, if there is one.
    fn get(&self, name: &str) -> Option<String>;
}

impl Strings for HashMap<String, String> {
    fn get(&self, name: &str) -> Option<String> {
        HashMap::get(self, name).cloned()
    }
}

/// The environment of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Environment;

impl Strings for Environment {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    fn get(&self, name: &str) -> Option<String> {
        match std::env::var(name) {
            Ok(text) => Some(text),
            Err(std::env::VarError::NotPresent) => None,
            // Whoever reads it complains about a text that makes no sense.
            Err(std::env::VarError::NotUnicode(bytes)) => Some(bytes.to_string_lossy().into_owned()),
        }
    }
}
