//! Runs rule tests: steps in, outcomes out.
//!
//! Each test gets a limiter of its own, with the memory store that serves; the
//! steps say what time it is.
//!
//! Invariant: a test ends at its first step that comes out otherwise than
//! expected; what follows builds on it. All tests are run.
//!
//! Deliberately not here: how outcomes are printed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tollgate_core::limit::WINDOW_MAX;
use tollgate_core::{Descriptor, Entry, Micros, Operation, Outcome, Request, Rule, RuleSet, Verdict};
use tollgate_limiter::{Limiter, LoadSource, MemoryStore, NoSink, Reply, SystemClock};
use tollgate_rules::{Options, SourceFile};
use tollgate_server::explain::{Story, words};
use tollgate_yaml::{Problem, Problems, nearest};

use super::file::{self, Expect, LIMIT_REASON, RuleTest, StepDescriptor, TestFile, TestStep};
use crate::console::shell_word;

/// The load that steps report.
const STEP_LOAD: LoadSource<'_> = LoadSource { name: "test", domain: None };

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
    /// The fields of a step that came out otherwise.
    pub(super) differs: Vec<&'static str>,
    /// Carets below those of them that `got` shows.
    pub(super) marks: String,
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

/// Runs files of tests, all with the same options.
pub(super) struct Runner {
    options: Options,
    /// By the paths they are read from: building rules can take longer than
    /// all tests of them.
    rule_sets: HashMap<Vec<PathBuf>, Arc<RuleSet>>,
    /// All paths of rules that tests name, readable or not.
    rule_paths: BTreeSet<PathBuf>,
}

/// A file whose tests can be run.
struct RunnableFile {
    file: TestFile,
    paths: Vec<PathBuf>,
    rules: Arc<RuleSet>,
}

impl Runner {
    /// Has read nothing yet.
    pub(super) fn new(options: Options) -> Self {
        Self { options, rule_sets: HashMap::new(), rule_paths: BTreeSet::new() }
    }

    /// The paths of all rules that the tests named.
    pub(super) fn into_rule_paths(self) -> BTreeSet<PathBuf> {
        self.rule_paths
    }

    /// Runs all tests of one file.
    pub(super) fn run(&mut self, path: &Path) -> FileOutcome {
        let file = path.display().to_string();
        match self.read(path) {
            Ok(runnable) => FileOutcome { file, problems: Vec::new(), tests: runnable.run() },
            Err(problems) => FileOutcome { file, problems, tests: Vec::new() },
        }
    }

    fn read(&mut self, path: &Path) -> Result<RunnableFile, Vec<Problem>> {
        let source = SourceFile::read(path).map_err(|problem| vec![problem])?;
        let mut problems = Problems::new(vec![source]);
        let Some(file) = file::read(&mut problems) else { return Err(problems.finish()) };
        let folder = path.parent().unwrap_or(Path::new(""));
        let paths: Vec<PathBuf> =
            file.rules.iter().map(|rules| shortened(&folder.join(&rules.value))).collect();
        self.rule_paths.extend(paths.iter().cloned());
        let rules = self.rules(&file, &paths, &mut problems)?;
        check_names(&file, &rules, &mut problems);
        if problems.error_count() > 0 {
            Err(problems.finish())
        } else {
            Ok(RunnableFile { file, paths, rules })
        }
    }

    fn rules(
        &mut self,
        file: &TestFile,
        paths: &[PathBuf],
        problems: &mut Problems,
    ) -> Result<Arc<RuleSet>, Vec<Problem>> {
        if let Some(rules) = self.rule_sets.get(paths) {
            return Ok(Arc::clone(rules));
        }
        let sources = tollgate_rules::read(paths).map_err(|error| {
            let elsewhere = misplaced(error.problems, file, paths, problems);
            let here = std::mem::replace(problems, Problems::new(Vec::new()));
            [here.finish(), elsewhere].concat()
        })?;
        let loaded = tollgate_rules::load(sources, &self.options).map_err(|error| error.problems)?;
        let rules = Arc::new(loaded.rules);
        self.rule_sets.insert(paths.to_vec(), Arc::clone(&rules));
        Ok(rules)
    }
}

impl RunnableFile {
    fn run(&self) -> Vec<TestOutcome> {
        let run_one = |test: &RuleTest| {
            let rules = Arc::clone(&self.rules);
            let limiter = Limiter::with(rules, MemoryStore::default(), SystemClock::new(), NoSink);
            let failure = run_test(test, &limiter, &self.paths);
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
fn check_names(file: &TestFile, rules: &RuleSet, problems: &mut Problems) {
    let names: HashSet<&str> = rules.rules().iter().map(Rule::name).collect();
    let steps = file.tests.iter().flat_map(|test| &test.steps);
    for rule in steps.filter_map(|step| step.expect.rule.as_ref()) {
        if !names.contains(rule.value.as_str()) {
            let help = match nearest(&rule.value, rules.rules().iter().map(Rule::name)) {
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
        if let Some(load) = step.load {
            // It stands until another step says otherwise.
            let reported = limiter.load().report(STEP_LOAD, load, WINDOW_MAX, now);
            reported.expect("one source is not too many");
        }
        let entries: Vec<Vec<Entry<'_>>> =
            step.request.descriptors.iter().map(|descriptor| borrowed(&descriptor.entries)).collect();
        let costs = step.request.descriptors.iter().map(|descriptor| descriptor.cost);
        let descriptors: Vec<Descriptor<'_>> = entries
            .iter()
            .zip(costs)
            .map(|(entries, cost)| Descriptor { cost, ..Descriptor::new(entries) })
            .collect();
        let request = Request::new(&step.request.domain, &descriptors).with_cost(step.request.cost);
        for number in 1..=step.times {
            let reply = limiter.operate(&request, step.operation, now).at_once();
            let differs = differences(&step.expect, &reply, number == step.times);
            if differs.is_empty() {
                continue;
            }
            let got = got_parts(&reply, &step.expect);
            return Some(TestFailure {
                step: index + 1,
                line: step.location.line,
                at: step.at,
                repetition: (step.times > 1).then_some((number, step.times)),
                request: request_words(step),
                expected: expected_words(&step.expect),
                marks: marks(&got, &differs),
                got: got.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", "),
                differs,
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

/// The fields that came out otherwise. The verdict and the rule hold for every
/// request of a step; the numbers are those of its last.
fn differences(expect: &Expect, reply: &Reply, is_last: bool) -> Vec<&'static str> {
    let binding = reply.binding();
    let name = binding.and_then(|decision| reply.rule(decision)).map(Rule::name);
    let remaining = binding.map(|decision| decision.remaining);
    let (wait_fits, retry_fits) = match reply.verdict {
        Verdict::Allow => (true, true),
        Verdict::Delay { wait } => (expect.wait.is_none_or(|expected| expected == wait), true),
        Verdict::Deny { retry_after } => {
            (true, expect.retry_after.is_none_or(|expected| expected == retry_after))
        }
    };
    let fits = [
        ("expect", expect.verdict == reply.verdict.word()),
        ("wait", !is_last || wait_fits),
        ("retry_after", !is_last || retry_fits),
        ("remaining", !is_last || expect.remaining.is_none_or(|expected| remaining == Some(expected))),
        ("rule", expect.rule.as_ref().is_none_or(|rule| name == Some(rule.value.as_str()))),
        ("reason", !is_last || expect.reason.is_none_or(|expected| reason(reply) == Some(expected))),
        ("outcome", !is_last || expect.outcome.is_none_or(|outcome| outcome == reply.outcome())),
    ];
    fits.into_iter().filter(|(_, fits)| !fits).map(|(field, _)| field).collect()
}

/// Why the request is denied; none if it is not.
fn reason(reply: &Reply) -> Option<&'static str> {
    let decision = reply.binding().filter(|_| reply.verdict.is_deny())?;
    Some(decision.reason().unwrap_or(LIMIT_REASON))
}

fn expected_words(expect: &Expect) -> String {
    let mut parts = vec![expect.verdict.to_owned()];
    parts.extend(expect.wait.map(|wait| format!("wait {wait}")));
    parts.extend(expect.retry_after.map(retry_words));
    parts.extend(expect.remaining.map(|remaining| format!("remaining {remaining}")));
    parts.extend(expect.rule.as_ref().map(|rule| format!("rule {}", rule.value)));
    parts.extend(expect.reason.map(|reason| format!("reason {reason}")));
    parts.extend(expect.outcome.map(|outcome| format!("outcome {}", outcome.name())));
    parts.join(", ")
}

/// What came, each part with the fields that it answers.
fn got_parts(reply: &Reply, expect: &Expect) -> Vec<(&'static [&'static str], String)> {
    let mut parts: Vec<(&'static [&'static str], String)> =
        vec![(&["expect"], reply.verdict.word().to_owned())];
    match reply.verdict {
        Verdict::Allow => {}
        Verdict::Delay { wait } => parts.push((&["wait"], format!("wait {wait}"))),
        Verdict::Deny { retry_after } => parts.push((&["retry_after"], retry_words(retry_after))),
    }
    match reply.binding() {
        Some(decision) if decision.exception.is_some() => {
            parts.push((&["remaining"], "on a deny list".to_owned()));
            parts.extend(reply.rule(decision).map(|rule| (&["rule"][..], format!("rule {}", rule.name()))));
        }
        Some(decision) => {
            parts.push((&["remaining"], format!("remaining {}", decision.remaining)));
            parts.extend(reply.rule(decision).map(|rule| (&["rule"][..], format!("rule {}", rule.name()))));
            let shown = reason(reply).filter(|reason| expect.reason.is_some() || *reason != LIMIT_REASON);
            parts.extend(shown.map(|reason| (&["reason"][..], format!("reason {reason}"))));
        }
        None if reply.decisions.is_empty() => {
            parts.push((&["remaining", "rule"], "no limit applies".to_owned()));
        }
        None => parts.push((&["remaining", "rule"], "no limit is enforced".to_owned())),
    }
    // What the verdict does not say by itself.
    if expect.outcome.is_some() || matches!(reply.outcome(), Outcome::Soft | Outcome::ShadowDenied) {
        parts.push((&["outcome"], format!("outcome {}", reply.outcome().name())));
    }
    parts
}

/// A line of carets below the parts that differ.
fn marks(parts: &[(&'static [&'static str], String)], differs: &[&str]) -> String {
    let mark = |(fields, text): &(&'static [&'static str], String)| {
        let is_marked = fields.iter().any(|field| differs.contains(field));
        (if is_marked { "^" } else { " " }).repeat(text.chars().count())
    };
    parts.iter().map(mark).collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

fn retry_words(retry_after: Option<Micros>) -> String {
    retry_after.map_or_else(|| "retry_after never".to_owned(), |wait| format!("retry_after {wait}"))
}

fn descriptor_words(step: &TestStep) -> Vec<String> {
    let pairs = |descriptor: &StepDescriptor| {
        let pairs = descriptor.entries.iter();
        words::descriptor(pairs.map(|(key, value)| (key.as_str(), value.as_str())))
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
    let own_cost = |(text, descriptor): (String, &StepDescriptor)| match descriptor.cost {
        Some(cost) => format!("{text} (cost {cost})"),
        None => text,
    };
    let descriptors = descriptor_words(step).into_iter().zip(&step.request.descriptors).map(own_cost);
    let descriptors: Vec<String> = descriptors.collect();
    format!("{operation} {} {}, cost {}", step.request.domain, descriptors.join(" "), step.request.cost)
}

fn explain_command(step: &TestStep, rules: &[PathBuf]) -> String {
    let mut words = vec!["tollgate".to_owned(), "explain".to_owned()];
    for path in rules {
        words.extend(["--rules".to_owned(), path.display().to_string()]);
    }
    words.push(step.request.domain.clone());
    words.extend(descriptor_words(step));
    let own = step.request.descriptors.iter().map(|descriptor| descriptor.cost.unwrap_or(step.request.cost));
    let mut costs: Vec<String> = own.map(|cost| cost.to_string()).collect();
    // One that is the same for all is written once.
    if costs.iter().all(|cost| Some(cost) == costs.first()) {
        costs.truncate(1);
    }
    if costs != ["1"] {
        words.extend(["--cost".to_owned(), costs.join(",")]);
    }
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 500 tests of 10,000 rules took 85 s when each built them.
    #[test]
    fn rules_are_built_once_however_many_files_test_them() {
        let folder = tempfile::tempdir().unwrap();
        let save = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        save(
            "a.yaml",
            "domain: a\ndescriptors:\n  - { key: k, rate_limit: { requests_per_unit: 1, unit: day } }\n",
        );
        let steps = "[{ at: 0s, request: { domain: a, descriptors: [{ k: v }] }, expect: allow }]";
        for name in ["one.test.yaml", "two.test.yaml"] {
            save(name, &format!("rules: a.yaml\ntests:\n  - name: first\n    steps: {steps}\n"));
        }
        let mut runner = Runner::new(Options::default());
        let sets = ["one.test.yaml", "two.test.yaml"].map(|name| {
            let runnable = runner.read(&folder.path().join(name)).unwrap();
            assert!(runnable.run().iter().all(|test| test.failure.is_none()), "counters are the test's own");
            runnable.rules
        });
        assert!(Arc::ptr_eq(&sets[0], &sets[1]));
    }

    #[test]
    fn the_parts_that_differ_are_marked() {
        let parts: Vec<(&'static [&'static str], String)> =
            vec![(&["expect"], "deny".into()), (&["retry_after"], "retry_after 50s".into())];
        assert_eq!(marks(&parts, &["retry_after"]), "      ^^^^^^^^^^^^^^^");
        assert_eq!(marks(&parts, &["expect", "retry_after"]), "^^^^  ^^^^^^^^^^^^^^^");
    }
}
