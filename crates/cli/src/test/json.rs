//! Outcomes for programs.

use serde::Serialize;

use super::runner::{FileOutcome, TestFailure};
use crate::check::ProblemJson;
use tollgate_server::explain::Story;

/// All outcomes.
#[derive(Debug, Serialize)]
pub(super) struct TestReport<'a> {
    ok: bool,
    tests: usize,
    passed: usize,
    failed: usize,
    files: Vec<FileJson<'a>>,
}

#[derive(Debug, Serialize)]
struct FileJson<'a> {
    file: &'a str,
    problems: Vec<ProblemJson>,
    tests: Vec<TestJson<'a>>,
}

#[derive(Debug, Serialize)]
struct TestJson<'a> {
    name: &'a str,
    line: usize,
    passed: bool,
    failure: Option<FailureJson<'a>>,
}

#[derive(Debug, Serialize)]
struct FailureJson<'a> {
    step: usize,
    line: usize,
    at_us: u64,
    /// Which request of the step, from 1.
    repetition: u64,
    request: &'a str,
    expected: &'a str,
    got: &'a str,
    /// The fields of the step that came out otherwise.
    differs: &'a [&'static str],
    why: &'a Story,
    explain: &'a str,
}

impl<'a> TestReport<'a> {
    /// The outcomes as they are written.
    pub(super) fn new(outcomes: &'a [FileOutcome]) -> Self {
        let tests = outcomes.iter().map(|outcome| outcome.tests.len()).sum();
        let failed: usize = outcomes.iter().map(FileOutcome::failed).sum();
        Self {
            ok: tests > 0 && outcomes.iter().all(FileOutcome::is_good),
            tests,
            passed: tests - failed,
            failed,
            files: outcomes.iter().map(FileJson::new).collect(),
        }
    }
}

impl<'a> FileJson<'a> {
    fn new(outcome: &'a FileOutcome) -> Self {
        let tests = outcome.tests.iter().map(|test| TestJson {
            name: &test.name,
            line: test.line,
            passed: test.failure.is_none(),
            failure: test.failure.as_ref().map(FailureJson::new),
        });
        Self {
            file: &outcome.file,
            problems: outcome.problems.iter().map(ProblemJson::from).collect(),
            tests: tests.collect(),
        }
    }
}

impl<'a> FailureJson<'a> {
    fn new(failure: &'a TestFailure) -> Self {
        Self {
            step: failure.step,
            line: failure.line,
            at_us: failure.at.get(),
            repetition: failure.repetition.map_or(1, |(number, _)| number),
            request: &failure.request,
            expected: &failure.expected,
            got: &failure.got,
            differs: &failure.differs,
            why: &failure.story,
            explain: &failure.explain,
        }
    }
}
