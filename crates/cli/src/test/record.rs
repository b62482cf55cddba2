//! `tollgate test --record`: a rule test from a slice of a log, with the verdicts of today.
//!
//! Lines → requests, by a mapping → the limiter at the log's own time → steps as YAML, for people to
//! edit into what the rules should say.
//!
//! Invariant: what is written passes as it is. So descriptors that no rule matches are left out, and so
//! are requests without any other.

use std::io::{self, BufRead, Read as _, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use tollgate_accesslog::{LineParser, LogFormat, LogLine, Parsed};
use tollgate_core::{Descriptor, Entry, Micros, Operation, Request, Rule, RuleSet, Time, Verdict};
use tollgate_http::{HttpRequestFacts, Mapping};
use tollgate_limiter::{Limiter, MemoryStore, NoSink, Reply, SystemClock};

use super::RecordArgs;
use crate::console::{Console, Exit, count, show_problems};
use crate::{log_file, replay};

/// The longest line; the rest of a longer one is another line, which is not understood.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// The beginning of a log, by which its format is found out.
const SAMPLE_LINES: usize = 200;

/// Lines of a log, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineSlice {
    first: u64,
    last: u64,
}

/// The most lines: more is for `tollgate replay`.
const LINES_MAX: u64 = 10_000;

/// `100` for the first hundred, or `1000-1100`.
pub(super) fn line_slice(text: &str) -> Result<LineSlice, String> {
    let wrong = || format!("'{text}' are no lines; write 100 for the first hundred, or 1000-1100");
    let (first, last) = text.split_once('-').unwrap_or(("1", text));
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    let (first, last) = (number(first)?, number(last)?);
    if first == 0 || last < first {
        return Err(wrong());
    }
    if last - first >= LINES_MAX {
        return Err(format!("these are more than {LINES_MAX} lines; take fewer, or use tollgate replay"));
    }
    Ok(LineSlice { first, last })
}

/// The lines of a slice.
struct LoggedLines {
    /// What the log begins with, by which its format is found out.
    head: Vec<Vec<u8>>,
    lines: Vec<Vec<u8>>,
}

/// A request of the log.
struct LoggedRequest {
    time: Time,
    descriptors: Vec<LoggedDescriptor>,
}

struct LoggedDescriptor {
    entries: Vec<(String, String)>,
    /// 0 where the mapping only asks whether anything is left.
    cost: u64,
}

pub(super) fn run(args: &super::Args, record: &RecordArgs, console: &mut Console<'_>) -> io::Result<Exit> {
    let Some(log) = &record.record else { return Ok(Exit::BadConfiguration) };
    let options = tollgate_rules::Options { merge_domains: args.merge_domains, ..Default::default() };
    let rules = tollgate_rules::read(&args.paths).and_then(|sources| tollgate_rules::load(sources, &options));
    let rules = match rules {
        Ok(loaded) => Arc::new(loaded.rules),
        Err(error) => {
            show_problems(console.err, &error.problems)?;
            return Ok(Exit::BadConfiguration);
        }
    };
    let Some(mapping) = replay::mapping(record.mapping.as_deref(), console)? else {
        return Ok(Exit::BadConfiguration);
    };
    let lines = match read_lines(log, record.lines) {
        Ok(lines) => lines,
        Err(error) => {
            let what = format!("cannot read {}: {error}", log.display());
            console.complain(&what, "name a log that is there, or - for standard input")?;
            return Ok(Exit::BadConfiguration);
        }
    };
    let requests = requests(&lines, record.log_format.clone(), &mapping);
    if requests.is_empty() {
        let what = format!("none of these lines of {} is understood", log.display());
        console.complain(&what, "say with --log-format what they are; tollgate replay --help shows how")?;
        return Ok(Exit::Failed);
    }
    let title = format!("{}, lines {} to {}", log.display(), record.lines.first, record.lines.last);
    let steps = steps(&rules, mapping.domain(), &requests);
    if steps.is_empty() {
        let what = format!("no rule matches any of the {}", count(requests.len(), "request"));
        console.complain(&what, "see with tollgate explain what they meet; --mapping says what they are")?;
        return Ok(Exit::Failed);
    }
    write(&title, &args.paths, &requests, &steps, console.out)?;
    Ok(Exit::Fine)
}

fn read_lines(log: &Path, slice: LineSlice) -> io::Result<LoggedLines> {
    let bar = log_file::bar(log);
    let mut reader = log_file::open(log, &bar)?;
    let (mut head, mut lines) = (Vec::new(), Vec::new());
    for number in 1..=slice.last {
        let mut line = Vec::new();
        if reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if head.len() < SAMPLE_LINES {
            head.push(line.clone());
        }
        if number >= slice.first {
            lines.push(line);
        }
    }
    bar.finish_and_clear();
    Ok(LoggedLines { head, lines })
}

/// The requests of the lines in the order of time.
fn requests(
    LoggedLines { head, lines }: &LoggedLines,
    format: Option<LogFormat>,
    mapping: &Mapping,
) -> Vec<LoggedRequest> {
    let sample = || head.iter().map(Vec::as_slice);
    let Some(format) = format.or_else(|| LogFormat::detect(sample())) else { return Vec::new() };
    let is_written_at_end = format.is_written_at_end();
    let mut parser = LineParser::new(Arc::new(format));
    // Names of columns stand at the beginning.
    for line in sample().filter(|line| line.starts_with(b"#")) {
        parser.parse(line);
    }
    let mut requests = Vec::new();
    for line in lines {
        if let Parsed::Request(line) = parser.parse(line) {
            let took = line.duration.filter(|_| is_written_at_end).unwrap_or(Micros::ZERO);
            requests.extend(request(&line, line.time.before(took), mapping));
        }
    }
    requests.sort_by_key(|request| request.time);
    requests
}

/// The request of a line; none if the mapping refuses it.
fn request(line: &LogLine<'_>, time: Time, mapping: &Mapping) -> Option<LoggedRequest> {
    let mut headers = HeaderMap::new();
    for (name, value) in &line.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(&**name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let address = line.address.as_deref();
    let peer = address.and_then(|address| address.parse::<IpAddr>().ok());
    let facts = HttpRequestFacts {
        peer,
        peer_name: address.filter(|_| peer.is_none()),
        method: &line.method,
        target: &line.target,
        host: line.host.as_deref(),
        headers: (&headers).into(),
    };
    let mapped = mapping.map(&facts, time).ok()?;
    let (mut descriptors, mut entries) = (Vec::new(), Vec::new());
    for (key, value, ended) in mapped.parts(line.status) {
        entries.push((key.to_owned(), value.to_owned()));
        if let Some(is_charged) = ended {
            let entries = std::mem::take(&mut entries);
            descriptors.push(LoggedDescriptor { entries, cost: u64::from(is_charged) });
        }
    }
    Some(LoggedRequest { time, descriptors })
}

/// One step for each request that a rule matches, without the instant.
fn steps(rules: &Arc<RuleSet>, domain: &str, requests: &[LoggedRequest]) -> Vec<(Time, String)> {
    let limiter = Limiter::with(Arc::clone(rules), MemoryStore::default(), SystemClock::new(), NoSink);
    let mut steps = Vec::new();
    for logged in requests {
        let borrowed: Vec<Vec<Entry<'_>>> = logged
            .descriptors
            .iter()
            .map(|own| own.entries.iter().map(|(key, value)| Entry { key, value }).collect())
            .collect();
        let descriptors: Vec<Descriptor<'_>> = borrowed
            .iter()
            .zip(&logged.descriptors)
            .map(|(entries, own)| Descriptor { cost: Some(own.cost), ..Descriptor::new(entries) })
            .collect();
        let reply =
            limiter.operate(&Request::new(domain, &descriptors), Operation::Check, logged.time).at_once();
        let is_met = |place: &usize| reply.free.get(*place).is_some_and(Option::is_none);
        let met: Vec<&LoggedDescriptor> = logged
            .descriptors
            .iter()
            .enumerate()
            .filter(|(place, _)| is_met(place))
            .map(|(_, own)| own)
            .collect();
        if !met.is_empty() {
            let descriptors: Vec<String> = met.into_iter().map(descriptor).collect();
            let request =
                format!("{{ domain: {}, descriptors: [{}] }}", text(domain), descriptors.join(", "));
            steps.push((logged.time, format!("request: {request}, {} }}", expected(&reply))));
        }
    }
    steps
}

fn expected(reply: &Reply) -> String {
    let mut parts = vec![format!("expect: {}", reply.verdict.word())];
    match reply.verdict {
        Verdict::Allow => {}
        Verdict::Delay { wait } => parts.push(format!("wait: {wait}")),
        Verdict::Deny { retry_after: Some(wait) } => parts.push(format!("retry_after: {wait}")),
        Verdict::Deny { retry_after: None } => parts.push("retry_after: never".to_owned()),
    }
    if reply.verdict != Verdict::Allow {
        let rule = reply.binding().and_then(|decision| reply.rule(decision)).map(Rule::name);
        parts.extend(rule.map(|rule| format!("rule: {}", text(rule))));
    }
    parts.join(", ")
}

/// `{ KEY: VALUE }`, or Envoy's form where that says more.
fn descriptor(own: &LoggedDescriptor) -> String {
    let is_twice = |(place, (key, _)): (usize, &(String, String))| {
        own.entries.iter().take(place).any(|(earlier, _)| earlier == key)
    };
    if own.cost == 1 && !own.entries.iter().enumerate().any(is_twice) {
        let pairs: Vec<String> =
            own.entries.iter().map(|(key, value)| format!("{}: {}", text(key), text(value))).collect();
        return format!("{{ {} }}", pairs.join(", "));
    }
    let entry = |(key, value): &(String, String)| format!("{{ key: {}, value: {} }}", text(key), text(value));
    let entries: Vec<String> = own.entries.iter().map(entry).collect();
    format!("{{ entries: [{}], cost: {} }}", entries.join(", "), own.cost)
}

fn write(
    title: &str,
    rules: &[std::path::PathBuf],
    requests: &[LoggedRequest],
    steps: &[(Time, String)],
    out: &mut dyn Write,
) -> io::Result<()> {
    let start = steps.first().map_or(Time::EPOCH, |(time, _)| *time);
    let start = Time::new(start.get() - start.get() % 1_000_000);
    let seconds = i64::try_from(start.get() / 1_000_000).unwrap_or(i64::MAX);
    let instant = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let paths: Vec<String> = rules.iter().map(|path| text(&path.to_string_lossy())).collect();
    writeln!(out, "# What these rules say today to recorded traffic. Edit it into what they should say.")?;
    writeln!(
        out,
        "# {} of {} meet a rule; the others are left out.",
        steps.len(),
        count(requests.len(), "request")
    )?;
    writeln!(out, "rules: [{}]\ntests:\n  - name: {}", paths.join(", "), text(title))?;
    writeln!(out, "    start: {instant}\n    steps:")?;
    for (time, step) in steps {
        writeln!(out, "      - {{ at: {}, {step}", time.since(start))?;
    }
    Ok(())
}

/// A word as it is, or else in double quotes, which JSON and YAML have in common.
fn text(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_read_as_typed() {
        assert_eq!(line_slice("100"), Ok(LineSlice { first: 1, last: 100 }));
        assert_eq!(line_slice("7-9"), Ok(LineSlice { first: 7, last: 9 }));
        for wrong in ["", "0", "9-7", "0-7", "x", "1-", "1-20000"] {
            assert!(line_slice(wrong).is_err(), "{wrong}");
        }
    }
}
