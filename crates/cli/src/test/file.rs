//! Rule tests as they are written: text in, checked steps out.
//!
//! After the YAML tree and before the run. All mistakes of a file are
//! reported at once, each with its place.
//!
//! Invariant: the steps of a test never go back in time, and none lies beyond
//! the last instant that the algorithms can tell.
//!
//! Deliberately not here: the rules, and what the steps come to.

use tollgate_core::algorithm::NOW_MAX;
use tollgate_core::{DurationError, Micros, Operation, Outcome, Time};
use tollgate_limiter::Load;
use tollgate_yaml::{Located, Location, MapSchema, Problems, YamlMap, YamlNode, YamlValue, parse, quoted};

/// A step is repeated at most this often: enough for any bucket that people
/// test, and over in a second.
pub(super) const TIMES_MAX: u64 = 1_000_000;
/// No request costs more, and no limit has more remaining; the algorithms
/// treat more as this.
const COST_MAX: u64 = tollgate_core::algorithm::COST_MAX;

const FILE: MapSchema = MapSchema {
    what: "a rule test file",
    keys: &["rules", "tests"],
    example: "rules: PATH, and below it tests:",
};
const TEST: MapSchema = MapSchema {
    what: "a test",
    keys: &["name", "start", "steps"],
    example: "name: what is promised, and below it steps:",
};
const STEP: MapSchema = MapSchema {
    what: "a step",
    keys: &[
        "at",
        "times",
        "load",
        "operation",
        "request",
        "expect",
        "wait",
        "retry_after",
        "remaining",
        "rule",
        "reason",
        "outcome",
    ],
    example: "{ at: 0s, request: { domain: NAME, descriptors: [{ KEY: VALUE }] }, expect: allow }",
};
const REQUEST: MapSchema = MapSchema {
    what: "a request",
    keys: &["domain", "descriptors", "cost"],
    example: "{ domain: NAME, descriptors: [{ KEY: VALUE }] }",
};
/// Envoy's form, which allows a key twice and a cost of its own.
const DESCRIPTOR: MapSchema = MapSchema {
    what: "a descriptor with entries",
    keys: &["entries", "cost"],
    example: "{ entries: [{ key: KEY, value: VALUE }], cost: 2 }",
};
const ENTRY: MapSchema =
    MapSchema { what: "an entry", keys: &["key", "value"], example: "{ key: KEY, value: VALUE }" };

const VERDICTS: [&str; 3] = ["allow", "delay", "deny"];
const OPERATIONS: [(&str, Operation); 4] = [
    ("check", Operation::Check),
    ("peek", Operation::Peek),
    ("report", Operation::Report),
    ("refund", Operation::Refund),
];

/// What one file says.
#[derive(Debug)]
pub(super) struct TestFile {
    /// Paths of rule files and folders, relative to the file.
    pub(super) rules: Vec<Located<String>>,
    pub(super) tests: Vec<RuleTest>,
}

/// Requests in a row, on counters that nobody has used before.
#[derive(Debug)]
pub(super) struct RuleTest {
    pub(super) name: String,
    pub(super) at: Location,
    pub(super) start: Time,
    pub(super) steps: Vec<TestStep>,
}

/// One request, or several at the same instant, and what must come of it.
#[derive(Debug)]
pub(super) struct TestStep {
    pub(super) location: Location,
    /// Since the start.
    pub(super) at: Micros,
    pub(super) times: u64,
    /// What is reported at this time.
    pub(super) load: Option<Load>,
    pub(super) operation: Operation,
    pub(super) request: StepRequest,
    pub(super) expect: Expect,
}

/// What is asked in a step.
#[derive(Debug)]
pub(super) struct StepRequest {
    pub(super) domain: String,
    pub(super) descriptors: Vec<StepDescriptor>,
    pub(super) cost: u64,
}

/// One descriptor of a step.
#[derive(Debug)]
pub(super) struct StepDescriptor {
    pub(super) entries: Vec<(String, String)>,
    /// Where it differs from the request's.
    pub(super) cost: Option<u64>,
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
    pub(super) rule: Option<Located<String>>,
    pub(super) reason: Option<&'static str>,
    pub(super) outcome: Option<Outcome>,
}

/// Why a limit denies.
const REASONS: [&str; 2] = [LIMIT_REASON, "penalty"];
/// It is used up.
pub(super) const LIMIT_REASON: &str = "limit";

/// Reads a file; none if anything is wrong with it, which is reported.
pub(super) fn read(problems: &mut Problems) -> Option<TestFile> {
    let document = parse(0, problems)?;
    let root = &document.root;
    if let Some(at) = document.second {
        let help = "write further tests in the list below tests:";
        problems.error(at, "only the first document of a file is read", help);
    }
    if root.is_null() {
        problems.error(root.at, "the file is empty", format!("write {}", FILE.example));
        return None;
    }
    if root.has_key("domain") && !root.has_key("tests") {
        let help = "write tollgate check PATH to check it; rule tests are named *.test.yaml";
        problems.error(root.at, "this is a rule file and not a rule test", help);
        return None;
    }
    let fields = YamlMap::read(root, &FILE, problems)?;
    let rules = rules(&fields, problems);
    let mut tests: Vec<RuleTest> = Vec::new();
    for node in fields.nonempty_list("tests", "name: what is promised", problems) {
        let Some(test) = test(node, problems) else { continue };
        if let Some(earlier) = tests.iter().find(|earlier| earlier.name == test.name) {
            let message =
                format!("{} is also the name of the test at line {}", quoted(&test.name), earlier.at.line);
            problems.error(test.at, message, "write a name of its own");
        }
        tests.push(test);
    }
    (problems.error_count() == 0).then_some(TestFile { rules, tests })
}

fn rules(fields: &YamlMap, problems: &mut Problems) -> Vec<Located<String>> {
    let example = "shop.yaml, the rule file that is tested, as seen from this file";
    let Some(field) = fields.required("rules", example, problems) else { return Vec::new() };
    if matches!(&*field.node.value, YamlValue::List(items) if items.is_empty()) {
        problems.error(field.node.at, "rules is empty", "write at least one - PATH");
    }
    fields.texts("rules", "PATH", problems)
}

fn test(node: &YamlNode, problems: &mut Problems) -> Option<RuleTest> {
    let fields = YamlMap::read(node, &TEST, problems)?;
    fields.required("name", "what is promised", problems);
    let name = fields.text("name", problems);
    let start = fields.parsed("start", parse_instant, problems).map_or(Time::EPOCH, |at| at.value);
    let mut steps: Vec<TestStep> = Vec::new();
    for node in fields.nonempty_list("steps", "at: 0s", problems) {
        let Some(step) = step(node, problems) else { continue };
        if let Some(before) = steps.last().filter(|before| before.at > step.at) {
            let message = format!("the step before is at {}, this one at {}", before.at, step.at);
            let help = "write the steps in the order of time; at counts from start";
            problems.error(step.location, message, help);
        }
        if start.get().saturating_add(step.at.get()) > NOW_MAX.get() {
            let help = "write an earlier start, or a smaller at";
            problems.error(step.location, "this is after the year 2112", help);
        }
        steps.push(step);
    }
    Some(RuleTest { name: name?.value, at: node.at, start, steps })
}

fn step(node: &YamlNode, problems: &mut Problems) -> Option<TestStep> {
    let fields = YamlMap::read(node, &STEP, problems)?;
    fields.required("at", "0s, the time since start", problems);
    let at = fields.parsed("at", str::parse::<Micros>, problems);
    let times = fields.number("times", 1..=TIMES_MAX, problems).unwrap_or(1);
    let load = fields.parsed("load", parse_load, problems);
    let find = |word: &str| OPERATIONS.into_iter().find(|(name, _)| *name == word);
    let operation = fields.choice("operation", &OPERATIONS.map(|(name, _)| name), find, problems);
    let request = fields.required("request", REQUEST.example, problems);
    let request = request.and_then(|field| request_of(&field.node, problems));
    let expect = expect(&fields, problems);
    Some(TestStep {
        location: node.at,
        at: at?.value,
        times,
        load: load.map(|load| load.value),
        operation: operation.map_or(Operation::Check, |(_, operation)| operation),
        request: request?,
        expect: expect?,
    })
}

fn request_of(node: &YamlNode, problems: &mut Problems) -> Option<StepRequest> {
    let fields = YamlMap::read(node, &REQUEST, problems)?;
    fields.required("domain", "NAME", problems);
    let domain = fields.text("domain", problems);
    let items = fields.nonempty_list("descriptors", "{ KEY: VALUE }", problems);
    let descriptors = items.iter().filter_map(|node| descriptor(node, problems)).collect();
    let cost = fields.number("cost", 0..=COST_MAX, problems).unwrap_or(1);
    Some(StepRequest { domain: domain?.value, descriptors, cost })
}

/// `{ user_id: "42", plan: free }`, or Envoy's `{ entries: [{ key: user_id, value: "42" }], cost: 2 }`.
fn descriptor(node: &YamlNode, problems: &mut Problems) -> Option<StepDescriptor> {
    let help = "write { KEY: VALUE }, with one KEY: VALUE for each entry, in order";
    let YamlValue::Map(pairs) = &*node.value else {
        node.must_be("a descriptor", "a map of entries", help, problems);
        return None;
    };
    let is_entries = |(key, value): &(YamlNode, YamlNode)| {
        key.as_str() == Some("entries") && matches!(*value.value, YamlValue::List(_))
    };
    if pairs.iter().any(is_entries) {
        return envoy_descriptor(node, problems);
    }
    let pairs = node.entries(|| help.to_owned(), problems);
    if pairs.is_empty() {
        problems.error(node.at, "a descriptor needs an entry", help);
        return None;
    }
    let mut entries: Vec<(String, String)> = Vec::new();
    for pair in pairs {
        let value = pair.value.text(pair.name, "VALUE", problems)?;
        if entries.iter().any(|(earlier, _)| earlier == pair.name) {
            let help = format!("write entries: and below it a - {} for each", ENTRY.example);
            problems.error(pair.key.at, format!("{} is given twice", quoted(pair.name)), help);
        }
        entries.push((pair.name.to_owned(), value.value));
    }
    Some(StepDescriptor { entries, cost: None })
}

fn envoy_descriptor(node: &YamlNode, problems: &mut Problems) -> Option<StepDescriptor> {
    let fields = YamlMap::read(node, &DESCRIPTOR, problems)?;
    let items = fields.nonempty_list("entries", ENTRY.example, problems);
    let entries: Option<Vec<_>> = items.iter().map(|item| envoy_entry(item, problems)).collect();
    let cost = fields.number("cost", 0..=COST_MAX, problems);
    Some(StepDescriptor { entries: entries?, cost })
}

fn envoy_entry(node: &YamlNode, problems: &mut Problems) -> Option<(String, String)> {
    let fields = YamlMap::read(node, &ENTRY, problems)?;
    fields.required("key", "KEY", problems);
    let key = fields.text("key", problems)?;
    // An entry without a value has an empty one, as in Envoy.
    let value = match fields.get("value") {
        Some(_) => fields.text("value", problems)?.value,
        None => String::new(),
    };
    Some((key.value, value))
}

fn expect(fields: &YamlMap, problems: &mut Problems) -> Option<Expect> {
    fields.required("expect", "allow, delay or deny", problems);
    let find = |word: &str| VERDICTS.into_iter().find(|verdict| *verdict == word);
    let verdict = fields.choice("expect", &VERDICTS, find, problems);
    let wait = fields.parsed("wait", str::parse::<Micros>, problems);
    let retry_after = fields.parsed("retry_after", parse_retry_after, problems);
    let remaining = fields.number("remaining", 0..=COST_MAX, problems);
    let rule = fields.text("rule", problems);
    let find = |word: &str| REASONS.into_iter().find(|reason| *reason == word);
    let reason = fields.choice("reason", &REASONS, find, problems);
    let outcome = fields.choice("outcome", &Outcome::ALL.map(Outcome::name), Outcome::from_name, problems);
    let verdict = verdict?;
    for (key, goes_with) in [("wait", "delay"), ("retry_after", "deny"), ("reason", "deny")] {
        if let Some(field) = fields.get(key).filter(|_| verdict != goes_with) {
            let message = format!("{key} never comes with expect: {verdict}");
            problems.error(field.node.at, message, format!("write expect: {goes_with}, or leave {key} out"));
        }
    }
    Some(Expect {
        verdict,
        wait: wait.map(|wait| wait.value),
        retry_after: retry_after.map(|wait| wait.value),
        remaining,
        rule,
        reason,
        outcome,
    })
}

fn parse_load(text: &str) -> Result<Load, String> {
    let load = text.parse().ok().and_then(Load::new);
    load.ok_or_else(|| format!("{} is no load; write a number from 0 to 1", quoted(text)))
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
