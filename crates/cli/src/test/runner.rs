//! Runs rule tests: steps in, outcomes out.
//!
//! Each test gets a limiter of its own, with the memory store that serves; the
//! steps say what time it is.
//!
//! Invariant: a test ends at its first step that comes out otherwise than
//! expected; what follows builds on it. All tests are run.
//!
//! Deliberately not here: how outcomes are printed.

use std::fs;
use std::path::{Component, Path, PathBuf};

use tollgate_core::{Descriptor, Entry, Micros, Operation, Request, Verdict};
use tollgate_limiter::{Limiter, Reply};
use tollgate_rules::{Loaded, Options, SourceFile};
use tollgate_yaml::{Problem, Problems, nearest};

use super::file::{self, Expect, RuleTest, TestFile, TestStep};
use crate::explain::story::Story;
use crate::words;

/// What came of one file.
#[derive(Debug)]
pub(super) struct FileOutcome {
    pub(super) file: String,
    /// What is wrong with the file or its rules; no test was run then.
    pub(super) problems: Vec<Problem>,
    pub(super) tests: Vec<TestOutcome>,
}

/// What came of one test.
#[derive(Debug)]
pub(super) struct TestOutcome {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) failure: Option<TestFailure>,
}

/// The first step of a test that came out otherwise.
#[derive(Debug)]
pub(super) struct TestFailure {
    /// From 1.
    pub(super) step: usize,
    pub(super) line: usize,
    pub(super) at: Micros,
    /// Which request of how many, where the step is repeated.
    pub(super) repetition: Option<(u64, u64)>,
    pub(super) request: String,
    pub(super) expected: String,
    pub(super) got: String,
    pub(super) story: Story,
    /// The command that tells the walk through the rules.
    pub(super) explain: String,
    /// How many steps were not run.
    pub(super) steps_left: usize,
}

impl FileOutcome {
    /// Whether all went well.
    pub(super) fn is_good(&self) -> bool {
        self.problems.is_empty() && self.failed() == 0
    }

    /// How many tests failed.
    pub(super) fn failed(&self) -> usize {
        self.tests.iter().filter(|test| test.failure.is_some()).count()
    }
}

/// Runs all tests of one file.
pub(super) fn run(path: &Path, options: &Options) -> FileOutcome {
    let file = path.display().to_string();
    match RunnableFile::read(path, options) {
        Ok(runnable) => FileOutcome { file, problems: Vec::new(), tests: runnable.run(options) },
        Err(problems) => FileOutcome { file, problems, tests: Vec::new() },
    }
}

/// A file whose tests can be run.
struct RunnableFile {
    file: TestFile,
    paths: Vec<PathBuf>,
    sources: Vec<SourceFile>,
}

impl RunnableFile {
    fn read(path: &Path, options: &Options) -> Result<Self, Vec<Problem>> {
        let source = SourceFile::read(path).map_err(|problem| vec![problem])?;
        let mut problems = Problems::new(vec![source]);
        let Some(file) = file::read(&mut problems) else { return Err(problems.finish()) };
        let folder = path.parent().unwrap_or(Path::new(""));
        let paths: Vec<PathBuf> =
            file.rules.iter().map(|rules| shortened(&folder.join(&rules.value))).collect();
        let sources = match tollgate_rules::read(&paths) {
            Ok(sources) => sources,
            Err(error) => {
                let elsewhere = misplaced(error.problems, &file, &paths, &mut problems);
                return Err([problems.finish(), elsewhere].concat());
            }
        };
        let loaded = tollgate_rules::load(sources.clone(), options).map_err(|error| error.problems)?;
        check_names(&file, &loaded, &mut problems);
        if problems.error_count() > 0 { Err(problems.finish()) } else { Ok(Self { file, paths, sources }) }
    }

    fn run(&self, options: &Options) -> Vec<TestOutcome> {
        let run_one = |test: &RuleTest| {
            let loaded = tollgate_rules::load(self.sources.clone(), options)
                .expect("the same sources have just been loaded");
            let failure = run_test(test, &Limiter::new(loaded.rules), &self.paths);
            TestOutcome { name: test.name.clone(), line: test.at.line, failure }
        };
        self.file.tests.iter().map(run_one).collect()
    }
}

/// `tests/../rules` as `rules`, where that is the same place.
fn shortened(path: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for part in path.components() {
        let is_named = matches!(short.components().next_back(), Some(Component::Normal(_)));
        match part {
            Component::CurDir => {}
            Component::ParentDir if is_named => drop(short.pop()),
            Component::ParentDir | Component::Normal(_) | Component::Prefix(_) | Component::RootDir => {
                short.push(part)
            }
        }
    }
    let is_same = fs::canonicalize(path).ok().is_some_and(|real| fs::canonicalize(&short).ok() == Some(real));
    if is_same { short } else { path.to_owned() }
}

/// Tells what cannot be read where the test file names it, and hands back the
/// rest: what lies inside of a folder that it names.
fn misplaced(
    unreadable: Vec<Problem>,
    file: &TestFile,
    paths: &[PathBuf],
    problems: &mut Problems,
) -> Vec<Problem> {
    let mut elsewhere = Vec::new();
    for problem in unreadable {
        let is_it = |path: &PathBuf| path.display().to_string() == problem.file;
        match paths.iter().position(is_it).and_then(|index| file.rules.get(index)) {
            Some(rules) => {
                problems.error(rules.at, format!("{}: {}", problem.file, problem.message), problem.help)
            }
            None => elsewhere.push(problem),
        }
    }
    elsewhere
}

/// A rule that a step names must exist.
fn check_names(file: &TestFile, loaded: &Loaded, problems: &mut Problems) {
    let steps = file.tests.iter().flat_map(|test| &test.steps);
    for rule in steps.filter_map(|step| step.expect.rule.as_ref()) {
        let names = || loaded.rules.rules().iter().map(tollgate_core::Rule::name);
        if !names().any(|name| name == rule.value) {
            let help = match nearest(&rule.value, names()) {
                Some(name) => format!("write {name}"),
                None => "write the name of a limit, or its path, as tollgate explain shows them".to_owned(),
            };
            problems.error(rule.at, format!("the rules have no rule '{}'", rule.value), help);
        }
    }
}

fn run_test(test: &RuleTest, limiter: &Limiter, rules: &[PathBuf]) -> Option<TestFailure> {
    for (index, step) in test.steps.iter().enumerate() {
        let now = test.start + step.at;
        let entries: Vec<Vec<Entry<'_>>> =
            step.request.descriptors.iter().map(|entries| borrowed(entries)).collect();
        let descriptors: Vec<Descriptor<'_>> =
            entries.iter().map(|entries| Descriptor::new(entries)).collect();
        let request = Request::new(&step.request.domain, &descriptors).with_cost(step.request.cost);
        for number in 1..=step.times {
            let reply = limiter.operate(&request, step.operation, now).at_once();
            if is_as_expected(&step.expect, &reply, number == step.times) {
                continue;
            }
            return Some(TestFailure {
                step: index + 1,
                line: step.location.line,
                at: step.at,
                repetition: (step.times > 1).then_some((number, step.times)),
                request: request_words(step),
                expected: expected_words(&step.expect),
                got: got_words(&reply),
                story: Story::new(&request, &reply),
                explain: explain_command(step, rules),
                steps_left: test.steps.len() - index - 1,
            });
        }
    }
    None
}

fn borrowed(entries: &[(String, String)]) -> Vec<Entry<'_>> {
    entries.iter().map(|(key, value)| Entry { key, value }).collect()
}

/// The verdict and the rule hold for every request of a step; the numbers are
/// those of its last.
fn is_as_expected(expect: &Expect, reply: &Reply, is_last: bool) -> bool {
    let name = reply.binding().and_then(|decision| reply.rule(decision)).map(tollgate_core::Rule::name);
    let rule_fits = expect.rule.as_ref().is_none_or(|rule| name == Some(rule.value.as_str()));
    let wait_fits = match reply.verdict {
        Verdict::Allow => true,
        Verdict::Delay { wait } => expect.wait.is_none_or(|expected| expected == wait),
        Verdict::Deny { retry_after } => expect.retry_after.is_none_or(|expected| expected == retry_after),
    };
    let remaining = reply.binding().map(|decision| decision.remaining);
    let remaining_fits = expect.remaining.is_none_or(|expected| remaining == Some(expected));
    expect.verdict == reply.verdict.word() && rule_fits && (!is_last || (wait_fits && remaining_fits))
}

fn expected_words(expect: &Expect) -> String {
    let mut parts = vec![expect.verdict.to_owned()];
    parts.extend(expect.wait.map(|wait| format!("wait {wait}")));
    parts.extend(expect.retry_after.map(retry_words));
    parts.extend(expect.remaining.map(|remaining| format!("remaining {remaining}")));
    parts.extend(expect.rule.as_ref().map(|rule| format!("rule {}", rule.value)));
    parts.join(", ")
}

fn got_words(reply: &Reply) -> String {
    let mut parts = vec![reply.verdict.word().to_owned()];
    match reply.verdict {
        Verdict::Allow => {}
        Verdict::Delay { wait } => parts.push(format!("wait {wait}")),
        Verdict::Deny { retry_after } => parts.push(retry_words(retry_after)),
    }
    match reply.binding() {
        Some(decision) => {
            parts.push(format!("remaining {}", decision.remaining));
            parts.extend(reply.rule(decision).map(|rule| format!("rule {}", rule.name())));
        }
        None if reply.decisions.is_empty() => parts.push("no limit applies".to_owned()),
        None => parts.push("no limit is enforced".to_owned()),
    }
    parts.join(", ")
}

fn retry_words(retry_after: Option<Micros>) -> String {
    retry_after.map_or_else(|| "retry_after never".to_owned(), |wait| format!("retry_after {wait}"))
}

fn descriptor_words(step: &TestStep) -> Vec<String> {
    let pairs = |entries: &Vec<(String, String)>| {
        words::descriptor(entries.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    };
    step.request.descriptors.iter().map(pairs).collect()
}

fn request_words(step: &TestStep) -> String {
    let operation = match step.operation {
        Operation::Check => "check",
        Operation::Peek => "peek",
        Operation::Report => "report",
        Operation::Refund => "refund",
    };
    format!(
        "{operation} {} {}, cost {}",
        step.request.domain,
        descriptor_words(step).join(" "),
        step.request.cost
    )
}

fn explain_command(step: &TestStep, rules: &[PathBuf]) -> String {
    let mut words = vec!["tollgate".to_owned(), "explain".to_owned()];
    for path in rules {
        words.extend(["--rules".to_owned(), path.display().to_string()]);
    }
    words.push(step.request.domain.clone());
    words.extend(descriptor_words(step));
    if step.request.cost != 1 {
        words.extend(["--cost".to_owned(), step.request.cost.to_string()]);
    }
    words.iter().map(|word| words::shell(word)).collect::<Vec<_>>().join(" ")
}
