//! Outcomes as JUnit XML, which build servers read.
//!
//! A file is a test suite; a file that is wrong is one case with an error.
//!
//! Invariant: what is written is well-formed XML 1.0 whatever the files hold.

use std::io::{self, Write};

use super::runner::{FileOutcome, TestOutcome};
use super::text;

/// Writes all outcomes.
pub(super) fn write(outcomes: &[FileOutcome], out: &mut dyn Write) -> io::Result<()> {
    let tests: usize = outcomes.iter().map(cases).sum();
    let failures: usize = outcomes.iter().map(FileOutcome::failed).sum();
    let errors: usize = outcomes.iter().map(errors).sum();
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        out,
        r#"<testsuites name="tollgate test" tests="{tests}" failures="{failures}" errors="{errors}">"#
    )?;
    for outcome in outcomes {
        suite(outcome, out)?;
    }
    writeln!(out, "</testsuites>")
}

fn errors(outcome: &FileOutcome) -> usize {
    usize::from(!outcome.problems.is_empty())
}

fn cases(outcome: &FileOutcome) -> usize {
    outcome.tests.len() + errors(outcome)
}

fn suite(outcome: &FileOutcome, out: &mut dyn Write) -> io::Result<()> {
    let file = escaped(&outcome.file);
    let (cases, failed, errors) = (cases(outcome), outcome.failed(), errors(outcome));
    writeln!(out, r#"  <testsuite name="{file}" tests="{cases}" failures="{failed}" errors="{errors}">"#)?;
    for test in &outcome.tests {
        case(&outcome.file, test, out)?;
    }
    if let Some(first) = outcome.problems.first() {
        let message = escaped(&first.to_string());
        let all: Vec<String> = outcome.problems.iter().map(ToString::to_string).collect();
        let all = escaped(&all.join("\n"));
        writeln!(out, r#"    <testcase name="the file can be read" classname="{file}">"#)?;
        writeln!(out, r#"      <error message="{message}">{all}</error>"#)?;
        writeln!(out, "    </testcase>")?;
    }
    writeln!(out, "  </testsuite>")
}

fn case(file: &str, test: &TestOutcome, out: &mut dyn Write) -> io::Result<()> {
    let (name, class, line) = (escaped(&test.name), escaped(file), test.line);
    write!(out, r#"    <testcase name="{name}" classname="{class}" file="{class}" line="{line}""#)?;
    let Some(failure) = &test.failure else { return writeln!(out, "/>") };
    let message =
        escaped(&format!("step {}: expected {}; got {}", failure.step, failure.expected, failure.got));
    let details = anstream::adapter::strip_bytes(&text::details(file, failure)?).into_vec();
    let details = escaped(&String::from_utf8_lossy(&details));
    writeln!(out, ">")?;
    writeln!(out, r#"      <failure message="{message}">{details}</failure>"#)?;
    writeln!(out, "    </testcase>")
}

/// The text for an attribute or an element: escaped, and without the
/// characters that XML 1.0 does not have at all.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' => out.push('\n'),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_does_not_have_is_replaced_and_the_rest_escaped() {
        assert_eq!(
            escaped("a<b>&\"c\"'\u{1}\u{ffff}\nü"),
            "a&lt;b&gt;&amp;&quot;c&quot;&apos;\u{fffd}\u{fffd}\nü"
        );
    }
}
