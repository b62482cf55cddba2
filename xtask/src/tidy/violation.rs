//! What a rule reports: where, what, and what to do about it.

use std::fmt;

/// One place where the repository breaks a house rule. Sorts by path, then by line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Violation {
    path: String,
    line: usize,
    what: String,
    remedy: String,
}

impl Violation {
    pub(super) fn new(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), remedy: remedy.into() }
    }

    /// `path:line`, which editors make clickable.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.path, self.line)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place(), self.what, self.remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_says_where_what_and_what_to_do() {
        let violation = Violation::new("src/a.rs", 7, "it is wrong", "make it right");
        assert_eq!(violation.to_string(), "src/a.rs:7: it is wrong; make it right");
    }
}
