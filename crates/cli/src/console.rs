//! Where commands write, how their complaints look, and how they end.
//!
//! Every command is handed a [`Console`] and returns an [`Exit`].
//!
//! Invariant: text that came from a file or an argument goes through [`clean`],
//! so that it cannot move the cursor or change the colours of a terminal.
//!
//! Deliberately not here: whether there is a terminal; the writers know.

use std::borrow::Cow;
use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use tollgate_rules::{Problem, Severity};

/// What went well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// What failed.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// What deserves a look.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default().bold();
/// What stands out.
pub(crate) const BOLD: Style = Style::new().bold();
/// What may be skipped.
pub(crate) const DIM: Style = Style::new().dimmed();

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: as it should.
    Fine,
    /// 1: it ran, and what it looked at is not right.
    Failed,
    /// 64: the command line, a path or a setting is wrong.
    BadConfiguration,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::Failed => 1,
            Exit::BadConfiguration => 64,
        })
    }
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Where a command writes.
pub(crate) struct Console<'a> {
    /// For results.
    pub(crate) out: &'a mut dyn Write,
    /// For complaints.
    pub(crate) err: &'a mut dyn Write,
}

impl Console<'_> {
    /// `error: what happened` and, on a line of its own, what to do.
    pub(crate) fn complain(&mut self, what: &str, help: &str) -> io::Result<()> {
        writeln!(self.err, "{BAD}error{BAD:#}: {}", clean(what))?;
        if help.is_empty() { Ok(()) } else { writeln!(self.err, "  = {}", clean(help)) }
    }

    /// The value as JSON on one document, with a line end.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *self.out, value)?;
        writeln!(self.out)
    }
}

/// The problems, each with its line and a caret, an empty line after each.
pub(crate) fn show_problems(out: &mut dyn Write, problems: &[Problem]) -> io::Result<()> {
    for problem in problems {
        let style = match problem.severity {
            Severity::Error => BAD,
            Severity::Warning => WARN,
        };
        let text = problem.render();
        let word = problem.severity.to_string();
        let rest = text.strip_prefix(&word).unwrap_or(&text);
        writeln!(out, "{style}{word}{style:#}{rest}")?;
    }
    Ok(())
}

/// `1 file`, `2 files`, `no files`.
pub(crate) fn count(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        more => format!("{more} {what}s"),
    }
}

/// The text without what a terminal would obey.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
    if text.contains(obeyed) { Cow::Owned(text.replace(obeyed, "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// The word as a shell takes it.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The text in lines of at most 80 columns, each with that indent.
pub(crate) fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![indent.to_owned()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        let length = line.chars().count();
        if length > indent.len() && length + 1 + word.chars().count() > 80 {
            lines.push(format!("{indent}{word}"));
        } else {
            line.push_str(if length > indent.len() { " " } else { "" });
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_command_the_terminal() {
        assert_eq!(clean("plain ü"), "plain ü");
        assert_eq!(clean("a\u{1b}[31m\nb"), "a\u{fffd}[31m\u{fffd}b");
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_read_it_otherwise() {
        assert_eq!(shell_word("user_id=42"), "user_id=42");
        assert_eq!(shell_word("it's a=*"), r"'it'\''s a=*'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn long_text_is_broken_between_words() {
        let text = wrapped(&"word ".repeat(20), "  ");
        assert!(text.lines().all(|line| line.chars().count() <= 80 && line.starts_with("  word")), "{text}");
        assert_eq!(text.split_whitespace().count(), 20);
        assert_eq!(wrapped(&"x".repeat(100), "  "), format!("  {}", "x".repeat(100)));
    }

    #[test]
    fn numbers_agree_with_their_words() {
        assert_eq!([0, 1, 2].map(|n| count(n, "file")), ["no files", "1 file", "2 files"]);
    }
}
