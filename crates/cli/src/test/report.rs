//! What is wrong with a rule test file, and where.
//!
//! Every step of reading adds to a [`Report`], which becomes [`Problem`]s of
//! the same kind, and the same look, as those of rule files.

use tollgate_yaml::{PROBLEMS_MAX, Problem, Severity};

use crate::console::clean;

/// The most characters of a source line that are shown.
const EXCERPT_MAX: usize = 400;
/// The most characters of a piece of a file that a message quotes.
const QUOTE_MAX: usize = 60;

/// A place in the file; line 0 is the file as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Place {
    /// From 1.
    pub(super) line: usize,
    /// From 1, in characters.
    pub(super) column: usize,
}

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    found: Vec<(Place, String, String)>,
}

impl Report {
    /// Something for which the file is refused.
    pub(super) fn error(&mut self, at: Place, message: impl Into<String>, help: impl Into<String>) {
        if self.found.len() < PROBLEMS_MAX {
            self.found.push((at, message.into(), help.into()));
        }
    }

    /// Whether the file is refused.
    pub(super) fn has_errors(&self) -> bool {
        !self.found.is_empty()
    }

    /// The problems by line, each with the text it is about.
    pub(super) fn finish(mut self, file: &str, text: &str) -> Vec<Problem> {
        self.found.sort();
        // What an alias repeats is wrong in one place only.
        self.found.dedup();
        let lines: Vec<&str> = text.strip_prefix('\u{feff}').unwrap_or(text).lines().collect();
        let problem = |(at, message, help): (Place, String, String)| {
            let line = at.line.checked_sub(1).and_then(|index| lines.get(index)).copied().unwrap_or_default();
            let line: String =
                line.chars().take(EXCERPT_MAX).map(|c| if c == '\t' { ' ' } else { c }).collect();
            Problem {
                file: file.to_owned(),
                line: at.line,
                column: at.column,
                text: clean(&line).into_owned(),
                message,
                help,
                severity: Severity::Error,
            }
        };
        self.found.into_iter().map(problem).collect()
    }
}

/// A problem with a file as a whole.
pub(super) fn of_file(file: &str, message: &str, help: &str) -> Problem {
    Problem {
        file: file.to_owned(),
        line: 0,
        column: 0,
        text: String::new(),
        message: message.to_owned(),
        help: help.to_owned(),
        severity: Severity::Error,
    }
}

/// A piece of a file as a message quotes it: on one line, and not too long.
pub(super) fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(QUOTE_MAX).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("'{}{more}'", clean(&cut))
}
