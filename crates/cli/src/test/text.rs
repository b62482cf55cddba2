//! Outcomes for people: a line for each test, what failed and why, the counts.

use std::io::{self, Write};

use tollgate_server::explain::words;

use super::runner::{FileOutcome, TestFailure, TestOutcome};
use crate::console::{BAD, BOLD, DIM, GOOD, clean, count, show_problems};
use crate::explain::limits_text;

/// Writes all outcomes.
pub(super) fn write(outcomes: &[FileOutcome], out: &mut dyn Write) -> io::Result<()> {
    for outcome in outcomes {
        writeln!(out, "{BOLD}{}{BOLD:#}", clean(&outcome.file))?;
        for test in &outcome.tests {
            one_line(test, out)?;
        }
        if !outcome.problems.is_empty() {
            writeln!(out, "  {BAD}wrong{BAD:#}   {}", count(outcome.problems.len(), "problem"))?;
        }
    }
    writeln!(out)?;
    for outcome in outcomes {
        show_problems(out, &outcome.problems)?;
        for test in &outcome.tests {
            if let Some(failure) = &test.failure {
                failed(&outcome.file, &test.name, failure, out)?;
            }
        }
    }
    summary(outcomes, out)
}

fn one_line(test: &TestOutcome, out: &mut dyn Write) -> io::Result<()> {
    let name = clean(&test.name);
    match &test.failure {
        None => writeln!(out, "  {GOOD}ok{GOOD:#}      {name}"),
        Some(_) => writeln!(out, "  {BAD}failed{BAD:#}  {name}"),
    }
}

fn failed(file: &str, name: &str, failure: &TestFailure, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{BAD}failed{BAD:#}: {}", clean(name))?;
    out.write_all(details(file, failure)?.as_slice())?;
    writeln!(out)
}

/// What a step was, what came instead, and why.
pub(super) fn details(file: &str, failure: &TestFailure) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let TestFailure { step, line, at, .. } = failure;
    write!(out, " --> {}:{line}, step {step}, at {at}", clean(file))?;
    if let Some((number, of)) = failure.repetition {
        write!(out, ", request {number} of {of}")?;
    }
    writeln!(out, "\n  request   {}", clean(&failure.request))?;
    writeln!(out, "  expected  {BOLD}{}{BOLD:#}", clean(&failure.expected))?;
    writeln!(out, "  got       {BOLD}{}{BOLD:#}", clean(&failure.got))?;
    writeln!(out, "            {BAD}{}{BAD:#}", failure.marks)?;
    writeln!(out, "  why")?;
    let story = &failure.story;
    if let Some(nearest) = &story.nearest_domain {
        writeln!(
            out,
            "    there is no domain '{}'; did you mean '{}'?",
            clean(&story.domain),
            clean(nearest)
        )?;
    }
    for told in &story.descriptors {
        let entries = told.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str()));
        writeln!(out, "    {}", clean(&words::descriptor(entries)))?;
        limits_text(told, "      ", &mut out)?;
    }
    writeln!(out, "  {DIM}more: {}{DIM:#}", clean(&failure.explain))?;
    if failure.steps_left > 0 {
        writeln!(out, "  {DIM}{} after it not run{DIM:#}", count(failure.steps_left, "step"))?;
    }
    Ok(out)
}

fn summary(outcomes: &[FileOutcome], out: &mut dyn Write) -> io::Result<()> {
    let tests: usize = outcomes.iter().map(|outcome| outcome.tests.len()).sum();
    let failed: usize = outcomes.iter().map(FileOutcome::failed).sum();
    let wrong = outcomes.iter().filter(|outcome| !outcome.problems.is_empty()).count();
    let held = format!("{}, {}", count(outcomes.len(), "file"), count(tests, "test"));
    if failed + wrong == 0 {
        return writeln!(out, "{GOOD}ok{GOOD:#}: {held}, all passed");
    }
    let mut parts = vec![held];
    if tests > 0 {
        parts.push(format!("{} passed, {failed} failed", tests - failed));
    }
    if wrong > 0 {
        parts.push(format!("{} not run", count(wrong, "file")));
    }
    writeln!(out, "{BAD}failed{BAD:#}: {}", parts.join(", "))
}
