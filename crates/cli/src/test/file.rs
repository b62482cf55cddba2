//! Rule tests as they are written: text in, checked steps out.
//!
//! After the YAML tree and before the play. All mistakes of a file are
//! reported at once, each with its place.
//!
//! Invariant: the steps of a test never go back in time, and none lies beyond
//! the last instant that the algorithms can tell.
//!
//! Deliberately not here: the rules, and what the steps come to.

use tollgate_core::algorithm::NOW_MAX;
use tollgate_core::{DurationError, Micros, Operation, Time};

use super::fields::{At, Fields, text_of};
use super::report::{Place, Report, quoted};
use super::yaml::{self, Kind, Node};

/// A step is repeated at most this often: enough for any bucket that people
/// test, and over in a second.
pub(super) const TIMES_MAX: u64 = 1_000_000;
/// No request costs more, and no limit has more remaining; the algorithms
/// treat more as this.
const COST_MAX: u64 = tollgate_core::algorithm::COST_MAX;

/// What one file says.
#[derive(Debug)]
pub(super) struct TestFile {
    /// Paths of rule files and folders, relative to the file.
    pub(super) rules: Vec<At<String>>,
    pub(super) tests: Vec<Test>,
}

/// Requests in a row, on counters that nobody has used before.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) at: Place,
    pub(super) start: Time,
    pub(super) steps: Vec<Step>,
}

/// One request, or several at the same instant, and what must come of it.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) place: Place,
    /// Since the start.
    pub(super) at: Micros,
    pub(super) times: u64,
    pub(super) operation: Operation,
    pub(super) domain: String,
    /// The entries of each descriptor.
    pub(super) descriptors: Vec<Vec<(String, String)>>,
    pub(super) cost: u64,
    pub(super) expect: Expect,
}

/// What must come.
#[derive(Debug, Clone)]
pub(super) struct Expect {
    /// The word of the verdict.
    pub(super) verdict: &'static str,
    pub(super) wait: Option<Micros>,
    /// `Some(None)` for never.
    pub(super) retry_after: Option<Option<Micros>>,
    pub(super) remaining: Option<u64>,
    pub(super) rule: Option<At<String>>,
}

/// Reads a file; none if anything is wrong with it, which is reported.
pub(super) fn read(text: &str, report: &mut Report) -> Option<TestFile> {
    let Some(root) = yaml::parse(text, report) else {
        if !report.has_errors() {
            let at = Place { line: 1, column: 1 };
            report.error(at, "the file is empty", "write rules: PATH, and below it tests:");
        }
        return None;
    };
    if is_rule_file(&root) {
        let message = "this is a rule file and not a rule test";
        report.error(
            root.at,
            message,
            "write tollgate check PATH to check it; rule tests are named *.test.yaml",
        );
        return None;
    }
    let fields = Fields::read(&root, "a rule test file", &["rules", "tests"], report)?;
    let rules = rules(&fields, report);
    let mut tests: Vec<Test> = Vec::new();
    for node in fields.list("tests", "name: what is promised", report) {
        let Some(test) = test(node, report) else { continue };
        if let Some(earlier) = tests.iter().find(|earlier| earlier.name == test.name) {
            let message =
                format!("{} is also the name of the test at line {}", quoted(&test.name), earlier.at.line);
            report.error(test.at, message, "write a name of its own");
        }
        tests.push(test);
    }
    (!report.has_errors()).then_some(TestFile { rules, tests })
}

fn is_rule_file(root: &Node) -> bool {
    let Kind::Map(pairs) = &*root.kind else { return false };
    let has = |name: &str| {
        pairs.iter().any(|(key, _)| matches!(&*key.kind, Kind::Scalar { text, .. } if text == name))
    };
    has("domain") && !has("tests")
}

fn rules(fields: &Fields<'_>, report: &mut Report) -> Vec<At<String>> {
    let example = "shop.yaml, the rule file that is tested, as seen from this file";
    let Some(node) = fields.need("rules", example, report) else { return Vec::new() };
    match &*node.kind {
        Kind::List(items) if !items.is_empty() => {
            items.iter().filter_map(|item| text_of(item, "rules", "PATH", report)).collect()
        }
        Kind::Scalar { .. } | Kind::List(_) | Kind::Map(_) => {
            text_of(node, "rules", "PATH, or a list of paths", report).into_iter().collect()
        }
    }
}

fn test(node: &Node, report: &mut Report) -> Option<Test> {
    let fields = Fields::read(node, "a test", &["name", "start", "steps"], report)?;
    fields.need("name", "what is promised", report);
    let name = fields.text("name", report);
    let start = fields.parsed("start", parse_instant, report).map_or(Time::EPOCH, |at| at.value);
    let mut steps: Vec<Step> = Vec::new();
    for node in fields.list("steps", "at: 0s", report) {
        let Some(step) = step(node, report) else { continue };
        if let Some(before) = steps.last().filter(|before| before.at > step.at) {
            let message = format!("the step before is at {}, this one at {}", before.at, step.at);
            report.error(step.place, message, "write the steps in the order of time; at counts from start");
        }
        if start.get().saturating_add(step.at.get()) > NOW_MAX.get() {
            report.error(
                step.place,
                "this is after the year 2112",
                "write an earlier start, or a smaller at",
            );
        }
        steps.push(step);
    }
    Some(Test { name: name?.value, at: node.at, start, steps })
}

const STEP_KEYS: &[&str] =
    &["at", "times", "operation", "request", "expect", "wait", "retry_after", "remaining", "rule"];

fn step(node: &Node, report: &mut Report) -> Option<Step> {
    let fields = Fields::read(node, "a step", STEP_KEYS, report)?;
    fields.need("at", "0s, the time since start", report);
    let at = fields.parsed("at", str::parse::<Micros>, report);
    let times = fields.number("times", 1, TIMES_MAX, report).unwrap_or(1);
    let operation =
        fields.parsed("operation", parse_operation, report).map_or(Operation::Check, |at| at.value);
    let request = fields.need("request", "{ domain: NAME, descriptors: [{ KEY: VALUE }] }", report);
    let request = request.and_then(|node| request_of(node, report));
    let expect = expect(&fields, report);
    let Asked { domain, descriptors, cost } = request?;
    Some(Step { place: node.at, at: at?.value, times, operation, domain, descriptors, cost, expect: expect? })
}

/// What is asked in a step.
struct Asked {
    domain: String,
    descriptors: Vec<Vec<(String, String)>>,
    cost: u64,
}

fn request_of(node: &Node, report: &mut Report) -> Option<Asked> {
    let fields = Fields::read(node, "a request", &["domain", "descriptors", "cost"], report)?;
    fields.need("domain", "NAME", report);
    let domain = fields.text("domain", report);
    let items = fields.list("descriptors", "{ KEY: VALUE }", report);
    let descriptors = items.iter().filter_map(|node| descriptor(node, report)).collect();
    let cost = fields.number("cost", 0, COST_MAX, report).unwrap_or(1);
    Some(Asked { domain: domain?.value, descriptors, cost })
}

/// `{ user_id: "42", plan: free }`, or Envoy's `{ entries: [{ key: user_id, value: "42" }] }`.
fn descriptor(node: &Node, report: &mut Report) -> Option<Vec<(String, String)>> {
    let pairs = match &*node.kind {
        Kind::Map(pairs) if pairs.is_empty() => Err("a descriptor needs an entry".to_owned()),
        Kind::Map(pairs) => Ok(pairs),
        Kind::List(_) | Kind::Scalar { .. } => {
            Err(format!("a descriptor must be a map of entries, this is {}", node.shown()))
        }
    };
    let help = "write { KEY: VALUE }, with one KEY: VALUE for each entry, in order";
    let pairs = pairs.map_err(|message| report.error(node.at, message, help)).ok()?;
    if let [(key, value)] = pairs.as_slice()
        && let (Kind::Scalar { text, .. }, Kind::List(items)) = (&*key.kind, &*value.kind)
        && text == "entries"
    {
        if items.is_empty() {
            report.error(value.at, "entries is empty", "write at least one - { key: KEY, value: VALUE }");
        }
        return items.iter().map(|item| envoy_entry(item, report)).collect();
    }
    let mut entries: Vec<(String, String)> = Vec::new();
    for (key, value) in pairs {
        let key = text_of(key, "an entry's key", "KEY", report)?;
        let value = text_of(value, &key.value, "VALUE", report)?;
        if entries.iter().any(|(earlier, _)| *earlier == key.value) {
            let help = "write entries: and below it a - { key: KEY, value: VALUE } for each";
            report.error(key.at, format!("{} is given twice", quoted(&key.value)), help);
        }
        entries.push((key.value, value.value));
    }
    Some(entries)
}

fn envoy_entry(node: &Node, report: &mut Report) -> Option<(String, String)> {
    let fields = Fields::read(node, "an entry", &["key", "value"], report)?;
    fields.need("key", "KEY", report);
    let key = fields.text("key", report)?;
    // An entry without a value has an empty one, as in Envoy.
    let value =
        if fields.get("value").is_some() { fields.text("value", report)?.value } else { String::new() };
    Some((key.value, value))
}

fn expect(fields: &Fields<'_>, report: &mut Report) -> Option<Expect> {
    fields.need("expect", "allow, delay or deny", report);
    let verdict = fields.parsed("expect", parse_verdict, report);
    let wait = fields.parsed("wait", str::parse::<Micros>, report);
    let retry_after = fields.parsed("retry_after", parse_retry_after, report);
    let remaining = fields.number("remaining", 0, COST_MAX, report);
    let rule = fields.text("rule", report);
    let verdict = verdict?.value;
    for (key, at, goes_with) in [
        ("wait", wait.as_ref().map(|wait| wait.at), "delay"),
        ("retry_after", retry_after.as_ref().map(|wait| wait.at), "deny"),
    ] {
        if let Some(at) = at.filter(|_| verdict != goes_with) {
            let message = format!("{key} never comes with expect: {verdict}");
            report.error(at, message, format!("write expect: {goes_with}, or leave {key} out"));
        }
    }
    Some(Expect {
        verdict,
        wait: wait.map(|wait| wait.value),
        retry_after: retry_after.map(|wait| wait.value),
        remaining,
        rule,
    })
}

fn parse_verdict(text: &str) -> Result<&'static str, String> {
    let words = ["allow", "delay", "deny"];
    words
        .into_iter()
        .find(|word| *word == text)
        .ok_or_else(|| format!("{} is no verdict; write allow, delay or deny", quoted(text)))
}

fn parse_operation(text: &str) -> Result<Operation, String> {
    match text {
        "check" => Ok(Operation::Check),
        "peek" => Ok(Operation::Peek),
        "report" => Ok(Operation::Report),
        "refund" => Ok(Operation::Refund),
        _ => Err(format!("{} is no operation; write check, peek, report or refund", quoted(text))),
    }
}

fn parse_retry_after(text: &str) -> Result<Option<Micros>, String> {
    if text == "never" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error: DurationError| format!("{error}, or never"))
}

fn parse_instant(text: &str) -> Result<Time, String> {
    let help = "write it as 2026-01-01T00:00:00Z";
    let instant: jiff::Timestamp =
        text.parse().map_err(|_| format!("{} is no point in time; {help}", quoted(text)))?;
    let us = u64::try_from(instant.as_microsecond()).ok().filter(|us| *us <= NOW_MAX.get());
    us.map(Time::new).ok_or_else(|| format!("{} is not between 1970 and 2112; {help}", quoted(text)))
}
