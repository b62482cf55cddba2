//! `tollgate test`: do the rules do what the rule tests say?
//!
//! In the order of the flow:
//!
//! | module | what it does |
//! |---|---|
//! | `file` | text → checked steps, by `tollgate_yaml` |
//! | `runner` | steps → the limiter on a virtual clock → outcomes |
//! | `text`, `json`, `junit`, `tap` | outcomes → what people and programs read |
//! | `record` | a slice of a log → a rule test |
//! | `watch` | again after every change |
//!
//! Invariant: what decides is the limiter that serves, with its memory store;
//! only the clock is another.

mod file;
mod json;
mod junit;
mod record;
mod runner;
mod tap;
mod text;
mod watch;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use tollgate_accesslog::LogFormat;
use tollgate_rules::Options;

use crate::console::{Console, Exit, show_problems};
use record::LineSlice;
use runner::{FileOutcome, Runner};

/// Do the rules do what the rule tests say?
///
/// Rule tests are files named *.test.yaml: timed requests and the verdicts
/// that must come. They run on a virtual clock with the code that
/// serves, each test on counters that nobody has used before.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A rule test, shop.test.yaml:
  rules: shop.yaml                  # a file, a folder or a list, as seen from this file
  tests:
    - name: two a minute, rolling
      start: 2026-01-01T00:00:00Z   # the epoch if left out
      steps:
        - { at: 40s, times: 2, request: { domain: shop, descriptors: [{ user_id: 42 }] }, expect: allow }
        - { at: 70s, request: { domain: shop, descriptors: [{ user_id: 42 }] }, expect: deny, retry_after: 30s }

A step has at (since start), request (domain, descriptors, cost) and expect (allow, delay or deny).
It may have times; operation (check, peek, report or refund); and wait, retry_after, remaining, rule
and outcome (allowed, soft, delayed, denied or shadow_denied), which must then come as written. With
times, all of these but rule are those of the last request.

Examples:
  tollgate test rules/
  tollgate test rules/ --watch
  tollgate test shop.test.yaml --format junit > report.xml
  tollgate test rules/ --record access.log --lines 1000-1200 > recorded.test.yaml

Exit codes: 0 all pass, 1 some fail or there are none, 64 a path that cannot be read.")]
pub(crate) struct Args {
    /// Rule test files, or folders of them; with --record rule files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Let several rule files add to one domain
    #[arg(long)]
    merge_domains: bool,
    /// Run again whenever a test or a rule file changes
    #[arg(long)]
    watch: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: TestFormat,
    #[command(flatten)]
    record: RecordArgs,
}

/// A rule test from a log.
#[derive(Debug, clap::Args)]
struct RecordArgs {
    /// Write a rule test from this log, with what the rules say today; - is standard input
    #[arg(long, value_name = "LOG", conflicts_with_all = ["watch", "format"])]
    record: Option<PathBuf>,
    /// Which lines of it: 100 for the first hundred, or 1000-1100
    #[arg(long, value_name = "LINES", default_value = "100", value_parser = record::line_slice, requires = "record")]
    lines: LineSlice,
    /// A tollgate.yaml whose mapping turns lines into requests; the gateway's own if left out
    #[arg(long, value_name = "FILE", requires = "record")]
    mapping: Option<PathBuf>,
    /// The format of the log: a name, or the format string of nginx, Apache or Envoy
    #[arg(long, value_name = "FORMAT", value_parser = LogFormat::parse, requires = "record")]
    log_format: Option<LogFormat>,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum TestFormat {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
    /// JUnit XML, for build servers
    Junit,
    /// The Test Anything Protocol, version 13
    Tap,
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    if args.record.record.is_some() {
        return record::run(args, &args.record, console);
    }
    if args.watch {
        return watch::run(args, console);
    }
    run_once(args, console).map(|(exit, _)| exit)
}

/// Runs all tests; returns the paths of the rules, too.
fn run_once(args: &Args, console: &mut Console<'_>) -> io::Result<(Exit, BTreeSet<PathBuf>)> {
    let files = match tollgate_rules::test_files(&args.paths) {
        Ok(files) => files,
        Err(error) => {
            show_problems(console.err, &error.problems)?;
            return Ok((Exit::BadConfiguration, BTreeSet::new()));
        }
    };
    let options = Options { merge_domains: args.merge_domains, ..Options::default() };
    let mut runner = Runner::new(options);
    let outcomes: Vec<FileOutcome> = files.iter().map(|file| runner.run(file)).collect();
    match args.format {
        TestFormat::Text if outcomes.is_empty() => {}
        TestFormat::Text => text::write(&outcomes, console.out)?,
        TestFormat::Json => console.json(&json::TestReport::new(&outcomes))?,
        TestFormat::Junit => junit::write(&outcomes, console.out)?,
        TestFormat::Tap => tap::write(&outcomes, console.out)?,
    }
    if outcomes.is_empty() {
        let paths: Vec<_> = args.paths.iter().map(|path| path.display().to_string()).collect();
        let what = format!("there are no rule tests in {}", paths.join(", "));
        console.complain(&what, "write one in a file named *.test.yaml; tollgate test --help shows how")?;
    }
    let is_good = !outcomes.is_empty() && outcomes.iter().all(FileOutcome::is_good);
    Ok((if is_good { Exit::Fine } else { Exit::Failed }, runner.into_rule_paths()))
}
