//! Where environment variables come from: the process, or a map in a test.

use std::collections::HashMap;

/// Texts by name.
pub trait Variables {
    /// The text of that name, if there is one.
    fn get(&self, name: &str) -> Option<String>;

    /// All names, in any order.
    fn names(&self) -> Vec<String>;
}

impl Variables for HashMap<String, String> {
    fn get(&self, name: &str) -> Option<String> {
        HashMap::get(self, name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }
}

/// The environment of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Environment;

impl Variables for Environment {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    fn get(&self, name: &str) -> Option<String> {
        match std::env::var(name) {
            Ok(text) => Some(text),
            Err(std::env::VarError::NotPresent) => None,
            // Whoever reads it complains about a text that makes no sense.
            Err(std::env::VarError::NotUnicode(bytes)) => Some(bytes.to_string_lossy().into_owned()),
        }
    }

    fn names(&self) -> Vec<String> {
        std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
    }
}
