//! `tollgate check`: are these rule files right?
//!
//! Reads the files as the server reads them, and tells every mistake of every
//! file at once.
//!
//! Deliberately not here: what is right and wrong; that is for `tollgate_rules`.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tollgate_rules::{Options, Problem, Severity, SourceFile};

use crate::console::{BAD, Console, Exit, Format, GOOD, count, show_problems};

/// What standard input is called in messages, as compilers call it.
const STDIN_NAME: &str = "<stdin>";

/// Are these rule files right?
///
/// Every mistake of every file is shown at once, with its line and with what
/// to write instead. The server reads rules with the same code, so what passes
/// here loads there.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tollgate check rules/
  tollgate check shop.yaml mail.yaml --deny-warnings
  tollgate check rules/ --format json | jq '.problems[].message'
  helm template . --show-only templates/rules.yaml | tollgate check -

Exit codes: 0 right, 1 mistakes, 64 a path that cannot be read.")]
pub(crate) struct Args {
    /// Rule files, or folders of them; - is standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Let several files add to one domain
    #[arg(long)]
    merge_domains: bool,
    /// Fail on warnings too
    #[arg(long)]
    deny_warnings: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What was found.
#[derive(Debug, Serialize)]
struct CheckReport {
    ok: bool,
    files: usize,
    domains: usize,
    rules: usize,
    errors: usize,
    warnings: usize,
    problems: Vec<ProblemJson>,
}

/// A problem as programs read it.
#[derive(Debug, Serialize)]
pub(crate) struct ProblemJson {
    severity: String,
    file: String,
    /// From 1; 0 if the file as a whole is meant.
    line: usize,
    column: usize,
    message: String,
    help: String,
    text: String,
}

impl From<&Problem> for ProblemJson {
    fn from(problem: &Problem) -> Self {
        Self {
            severity: problem.severity.to_string(),
            file: problem.file.clone(),
            line: problem.line,
            column: problem.column,
            message: problem.message.clone(),
            help: problem.help.clone(),
            text: problem.text.clone(),
        }
    }
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let (sources, unreadable) = read(&args.paths);
    show_problems(console.err, &unreadable)?;
    if sources.is_empty() {
        return Ok(Exit::BadConfiguration);
    }
    let options = Options { merge_domains: args.merge_domains, ..Options::default() };
    let mut report = CheckReport {
        ok: false,
        files: sources.len(),
        domains: 0,
        rules: 0,
        errors: 0,
        warnings: 0,
        problems: Vec::new(),
    };
    let problems = match tollgate_rules::load(sources, &options) {
        Ok(loaded) => {
            report.files = loaded.files;
            report.domains = loaded.rules.domains().count();
            report.rules = loaded.rules.rules().len();
            loaded.warnings
        }
        Err(error) => error.problems,
    };
    let number = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    report.errors = number(Severity::Error) + unreadable.len();
    report.warnings = number(Severity::Warning);
    report.ok = report.errors == 0 && (report.warnings == 0 || !args.deny_warnings);
    match args.format {
        Format::Text => show(&report, &problems, console)?,
        Format::Json => {
            report.problems = unreadable.iter().chain(&problems).map(ProblemJson::from).collect();
            console.json(&report)?;
        }
    }
    Ok(match report.ok {
        _ if !unreadable.is_empty() => Exit::BadConfiguration,
        true => Exit::Fine,
        false => Exit::Failed,
    })
}

/// What can be read of the paths, and what cannot.
fn read(paths: &[PathBuf]) -> (Vec<SourceFile>, Vec<Problem>) {
    let (stdin, files): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.iter().cloned().partition(|path| path == Path::new("-"));
    let (mut sources, mut unreadable) = tollgate_rules::read_what_can_be(&files);
    if !stdin.is_empty() {
        match SourceFile::from_reader(STDIN_NAME.to_owned(), io::stdin()) {
            Ok(source) => sources.push(source),
            Err(problem) => unreadable.push(problem),
        }
    }
    (sources, unreadable)
}

fn show(report: &CheckReport, problems: &[Problem], console: &mut Console<'_>) -> io::Result<()> {
    show_problems(console.out, problems)?;
    let files = count(report.files, "file");
    let warnings = count(report.warnings, "warning");
    if report.errors > 0 {
        let errors = count(report.errors, "error");
        return writeln!(console.out, "{BAD}failed{BAD:#}: {files}, {errors}, {warnings}");
    }
    let held = format!("{}, {}", count(report.domains, "domain"), count(report.rules, "rule"));
    if report.ok {
        writeln!(console.out, "{GOOD}ok{GOOD:#}: {files}, {held}, {warnings}")
    } else {
        writeln!(console.out, "{BAD}failed{BAD:#}: {files}, {held}, {warnings}, and warnings are denied")
    }
}
