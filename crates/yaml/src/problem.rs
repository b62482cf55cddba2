//! What is wrong with a file, and where.
//!
//! Every step of reading adds to [`Problems`]; at the end [`Problems::finish`]
//! makes a list of them, in an order that depends on nothing but the files.
//!
//! Invariant: a problem prints on one line, whatever the file holds: control
//! characters are replaced, and long pieces cut.
//!
//! Deliberately not here: what is right and wrong; colours and terminals.

use std::sync::Arc;
use std::{fmt, io};

/// The most errors, and the most warnings, that are collected: beyond that
/// nobody reads on, and a hostile file must not fill the memory with them.
pub const PROBLEMS_MAX: usize = 1_000;
/// The most characters of a source line that a problem carries.
const EXCERPT_MAX: usize = 240;
/// Where a line is longer, so many characters before the column are kept.
const EXCERPT_BEFORE: usize = 60;
/// The most characters of a piece of a file that a message quotes.
const QUOTE_MAX: usize = 60;

/// A file's text and what to call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// The path as the user gave it; messages show it.
    pub name: String,
    /// The YAML.
    pub text: String,
}

/// A place in one of several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Location {
    /// Which file, by its index in [`crate::Problems::new`].
    pub file: usize,
    /// From 1; 0 for the file as a whole.
    pub line: usize,
    /// From 1, in characters; 0 for the file as a whole.
    pub column: usize,
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The file is not used.
    Error,
    /// The file is used, and probably does not do what was meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// One thing that is wrong in one place of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was named by the user.
    pub file: String,
    /// The line, from 1; 0 if the file as a whole is meant.
    pub line: usize,
    /// The column in characters, from 1; 0 if the file as a whole is meant.
    pub column: usize,
    /// The line of the file, or the part of a long one that matters.
    pub text: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
    /// How bad it is.
    pub severity: Severity,
}

impl Problem {
    /// An error about a file as a whole.
    pub fn of_file(file: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: 0,
            column: 0,
            text: String::new(),
            message: message.into(),
            help: help.into(),
            severity: Severity::Error,
        }
    }

    /// A file or folder that is there and cannot be read.
    pub fn unreadable(file: &str, error: &io::Error) -> Self {
        Self::of_file(file, format!("cannot be read: {error}"), "let the user that runs tollgate read it")
    }

    /// The problem with the line it is about and a caret below the place.
    ///
    /// ```
    /// use tollgate_yaml::{Location, Problems, SourceFile};
    /// let source = SourceFile { name: "shop.yaml".into(), text: "naem: Corner\n".into() };
    /// let mut problems = Problems::new(vec![source]);
    /// problems.error(Location { file: 0, line: 1, column: 1 }, "unknown key 'naem'", "write name");
    /// let expected = "\
    /// error: unknown key 'naem'
    ///  --> shop.yaml:1:1
    ///   |
    /// 1 | naem: Corner
    ///   | ^
    ///   = write name
    /// ";
    /// assert_eq!(problems.finish()[0].render(), expected);
    /// ```
    pub fn render(&self) -> String {
        let Self { severity, message, help, .. } = self;
        let mut out = format!("{severity}: {message}\n");
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        out.push_str(&format!("{margin}--> {}\n", self.place()));
        if self.line > 0 {
            let before =
                if self.text.starts_with('…') { EXCERPT_BEFORE + 1 } else { self.column.max(1) - 1 };
            let caret = " ".repeat(before);
            out.push_str(&format!("{margin} |\n{number} | {}\n{margin} | {caret}^\n", self.text));
        }
        if !help.is_empty() {
            out.push_str(&format!("{margin} = {help}\n"));
        }
        out
    }

    /// `file:line:column`, or the file alone.
    pub fn place(&self) -> String {
        match self.line {
            0 => self.file.clone(),
            line => format!("{}:{line}:{}", self.file, self.column),
        }
    }
}

/// `file:line:column: error: what is wrong; what to write instead`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place(), self.severity, self.message)?;
        if self.help.is_empty() { Ok(()) } else { write!(f, "; {}", self.help) }
    }
}

/// Why files are not used: everything that is wrong with all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// The errors, then the warnings, each by file and line.
    pub problems: Vec<Problem>,
}

/// One line each.
impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}

/// What was found wrong so far in some files; every step of reading them adds to it.
#[derive(Debug)]
pub struct Problems {
    sources: Arc<[SourceFile]>,
    errors: ProblemList,
    warnings: ProblemList,
}

impl Problems {
    /// Nothing is wrong yet with these files.
    pub fn new(sources: Vec<SourceFile>) -> Self {
        let (errors, warnings) = Default::default();
        Self { sources: sources.into(), errors, warnings }
    }

    /// The files.
    pub fn sources(&self) -> Arc<[SourceFile]> {
        Arc::clone(&self.sources)
    }

    /// What that file is called.
    pub fn name_of(&self, file: usize) -> &str {
        self.sources.get(file).map_or("", |source| source.name.as_str())
    }

    /// Something for which the files are not used.
    pub fn error(&mut self, at: Location, message: impl Into<String>, help: impl Into<String>) {
        self.errors.add(at, message.into(), help.into());
    }

    /// Something that is used as it is, and said.
    pub fn warning(&mut self, at: Location, message: impl Into<String>, help: impl Into<String>) {
        self.warnings.add(at, message.into(), help.into());
    }

    /// An error whose text says, after a semicolon, what to write instead.
    pub fn error_from(&mut self, at: Location, error: &impl fmt::Display) {
        let text = error.to_string();
        let (message, help) = text.split_once("; ").unwrap_or((&text, ""));
        self.error(at, message, help);
    }

    /// How many errors there were so far, with those that were not kept.
    pub const fn error_count(&self) -> usize {
        self.errors.seen
    }

    /// Whether a further error would not be kept.
    pub const fn is_full(&self) -> bool {
        self.errors.list.len() >= PROBLEMS_MAX
    }

    /// The errors, then the warnings, each by file and line and with the text
    /// they are about.
    pub fn finish(self) -> Vec<Problem> {
        let Self { errors, warnings, sources } = self;
        let mut problems = errors.finish(Severity::Error, &sources);
        problems.append(&mut warnings.finish(Severity::Warning, &sources));
        problems
    }
}

/// Problems of one severity, as many as anyone reads.
#[derive(Debug, Default)]
struct ProblemList {
    list: Vec<(Location, String, String)>,
    /// How many there were, with those that were not kept.
    seen: usize,
    /// The first that was not kept.
    first_left_out: Option<Location>,
}

impl ProblemList {
    fn add(&mut self, at: Location, message: String, help: String) {
        self.seen += 1;
        if self.list.len() < PROBLEMS_MAX {
            self.list.push((at, message, help));
        } else if self.first_left_out.is_none() {
            self.first_left_out = Some(at);
        }
    }

    fn finish(mut self, severity: Severity, sources: &[SourceFile]) -> Vec<Problem> {
        self.list.sort();
        // What an alias repeats is wrong in one place only.
        self.list.dedup();
        let mut lines = SourceLines::default();
        let mut problems: Vec<Problem> = Vec::with_capacity(self.list.len() + 1);
        for (at, message, help) in self.list {
            let Some(source) = sources.get(at.file) else { continue };
            let text = lines.excerpt(at, source);
            let file = source.name.clone();
            problems.push(Problem { file, line: at.line, column: at.column, text, message, help, severity });
        }
        if let Some(source) = self.first_left_out.and_then(|at| sources.get(at.file)) {
            let message = format!("there are more than {PROBLEMS_MAX} {severity}s; the rest is left out");
            let left_out = Problem::of_file(&source.name, message, "correct these first");
            problems.push(Problem { severity, ..left_out });
        }
        problems
    }
}

/// Where the lines of one source begin; found once, and only if it has problems.
#[derive(Default)]
struct SourceLines {
    file: Option<usize>,
    starts: Vec<usize>,
}

impl SourceLines {
    fn excerpt(&mut self, at: Location, source: &SourceFile) -> String {
        if at.line == 0 {
            return String::new();
        }
        if self.file != Some(at.file) {
            self.file = Some(at.file);
            self.starts = line_starts(&source.text);
        }
        let start = self.starts.get(at.line - 1).copied().unwrap_or(source.text.len());
        let rest = source.text.get(start..).unwrap_or_default();
        let line = rest.split(['\n', '\r']).next().unwrap_or_default();
        excerpt(line, at.column)
    }
}

/// Lines end with LF, CR or both, as in YAML.
fn line_starts(text: &str) -> Vec<usize> {
    let mut starts = vec![if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }];
    let bytes = text.as_bytes();
    for (index, byte) in bytes.iter().enumerate() {
        if *byte == b'\n' || (*byte == b'\r' && bytes.get(index + 1) != Some(&b'\n')) {
            starts.push(index + 1);
        }
    }
    starts
}

fn excerpt(line: &str, column: usize) -> String {
    let is_short = column + EXCERPT_BEFORE < EXCERPT_MAX;
    let skipped = if is_short { 0 } else { column - 1 - EXCERPT_BEFORE };
    let mut out = String::new();
    if skipped > 0 {
        out.push('…');
    }
    let mut chars = line.chars().skip(skipped);
    out.extend(chars.by_ref().take(EXCERPT_MAX).map(printable));
    if chars.next().is_some() {
        out.push('…');
    }
    out
}

/// The character, or a stand-in for what would move the cursor or change the
/// colour of a terminal.
fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) => '\u{fffd}',
        c => c,
    }
}

/// A piece of a file as a message quotes it: on one line, and not too long.
pub fn quoted(text: &str) -> String {
    let mut chars = text.chars();
    let mut out = String::from("'");
    for c in chars.by_ref().take(QUOTE_MAX) {
        match c {
            '\n' => out.push_str("\\n"),
            c => out.push(printable(c)),
        }
    }
    out.push_str(if chars.next().is_some() { "…'" } else { "'" });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Problems {
        Problems::new(vec![SourceFile { name: "a.yaml".into(), text: text.into() }])
    }

    fn line(line: usize) -> Location {
        Location { file: 0, line, column: 1 }
    }

    #[test]
    fn a_long_line_is_cut_around_the_column() {
        let mut problems = problems(&format!("{}X{}", "a".repeat(999), "b".repeat(999)));
        problems.error(Location { file: 0, line: 1, column: 1_000 }, "here", "");
        let errors = problems.finish();
        assert_eq!(errors[0].text, format!("…{}X{}…", "a".repeat(60), "b".repeat(179)));
        let rendered = errors[0].render();
        let lines: Vec<&str> = rendered.lines().collect();
        assert_eq!(lines[3].find('X').map(|at| lines[3][..at].chars().count()), lines[4].find('^'));
    }

    #[test]
    fn what_would_change_a_terminal_is_replaced() {
        assert_eq!(quoted("a\u{1b}[31m\nb\tc"), "'a\u{fffd}[31m\\nb c'");
        assert_eq!(excerpt("\tkey: \u{7}", 2), " key: \u{fffd}");
    }

    #[test]
    fn problems_come_in_the_order_of_the_files_and_each_once() {
        let mut problems = problems("a\nb\r\nc\rd");
        for number in [3, 1, 3, 2] {
            problems.error(line(number), "wrong", "write it right");
        }
        problems.warning(line(1), "odd", "");
        let errors = problems.finish();
        let texts: Vec<(usize, &str)> =
            errors.iter().map(|error| (error.line, error.text.as_str())).collect();
        assert_eq!(texts, [(1, "a"), (2, "b"), (3, "c"), (1, "a")]);
    }

    #[test]
    fn more_problems_than_anyone_reads_are_left_out_and_that_is_said() {
        let mut problems = problems("");
        for number in 1..=PROBLEMS_MAX + 5 {
            problems.error(line(number), "wrong", "");
        }
        assert_eq!(problems.error_count(), PROBLEMS_MAX + 5);
        let errors = problems.finish();
        assert_eq!(errors.len(), PROBLEMS_MAX + 1);
        let last =
            "a.yaml: error: there are more than 1000 errors; the rest is left out; correct these first";
        assert_eq!(errors[PROBLEMS_MAX].to_string(), last);
    }
}
