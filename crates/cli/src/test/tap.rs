//! Outcomes by the Test Anything Protocol, version 13, which `prove` and many harnesses read.
//!
//! A test is a line; a file that is wrong is one line that is not ok.
//!
//! Invariant: whatever the files hold, a name stays on its line and is no directive, and what is
//! said about a failure is YAML.

use std::io::{self, Write};

use super::runner::{FileOutcome, TestFailure};
use super::text;
use crate::console::clean;

/// Writes all outcomes.
pub(super) fn write(outcomes: &[FileOutcome], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "TAP version 13")?;
    let wrong = outcomes.iter().filter(|outcome| !outcome.problems.is_empty()).count();
    let tests = outcomes.iter().map(|outcome| outcome.tests.len()).sum::<usize>() + wrong;
    if tests == 0 {
        return writeln!(out, "Bail out! There are no rule tests.");
    }
    writeln!(out, "1..{tests}")?;
    let mut number = 0;
    for outcome in outcomes {
        for test in &outcome.tests {
            number += 1;
            let name = description(&outcome.file, &test.name);
            match &test.failure {
                None => writeln!(out, "ok {number} - {name}")?,
                Some(failure) => {
                    writeln!(out, "not ok {number} - {name}")?;
                    diagnostics(&message(failure), &outcome.file, failure.line, out)?;
                    let details =
                        anstream::adapter::strip_bytes(&text::details(&outcome.file, failure)?).into_vec();
                    block("why", &String::from_utf8_lossy(&details), out)?;
                }
            }
        }
        if let Some(first) = outcome.problems.first() {
            number += 1;
            writeln!(out, "not ok {number} - {}", description(&outcome.file, "the file can be read"))?;
            diagnostics(&first.message, &first.file, first.line, out)?;
            let all: Vec<String> = outcome.problems.iter().map(|problem| problem.render()).collect();
            block("problems", &all.join("\n"), out)?;
        }
    }
    Ok(())
}

fn message(failure: &TestFailure) -> String {
    format!("step {}: expected {}; got {}", failure.step, failure.expected, failure.got)
}

/// The name of a test; a `#` would begin a directive.
fn description(file: &str, name: &str) -> String {
    clean(&format!("{file}: {name}")).replace('\\', r"\\").replace('#', r"\#")
}

/// Opens the YAML below a line that is not ok; [`block`] closes it.
fn diagnostics(message: &str, file: &str, line: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  ---")?;
    writeln!(out, "  message: {}", scalar(message))?;
    writeln!(out, "  file: {}\n  line: {line}", scalar(file))
}

fn block(key: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  {key}: |")?;
    // The indent of the first line is that of the block.
    for line in text.trim_start().lines() {
        writeln!(out, "    {}", clean(line))?;
    }
    writeln!(out, "  ...")
}

/// Text in double quotes, which JSON and YAML have in common.
fn scalar(text: &str) -> String {
    serde_json::Value::from(clean(text)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_and_no_directive() {
        assert_eq!(
            description("a.test.yaml", "b # SKIP\nok 2 \\"),
            "a.test.yaml: b \\# SKIP\u{fffd}ok 2 \\\\"
        );
    }
}
