//! `tollgate history import`: fills a history from the logs of web servers.
//!
//! `tollgate_accesslog` reads the lines, and `tollgate_history` knows those that it has imported.
//!
//! Invariant: a log of which no line is understood leaves no trace, so that it can be imported once
//! its format is given.

use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use tempfile::NamedTempFile;
use tollgate_accesslog::{FORMAT_NAMES, LineParser, LogFormat, Parsed};
use tollgate_core::{Micros, Outcome, Time};
use tollgate_history::import::{ImportLine, ImportReport, Importer};
use tollgate_history::route::normalise;
use tollgate_history::tables::{Access, RedbTables};
use tollgate_history::{Bounds, Error, LocalHistory};
use tollgate_http::PathTemplates;
use tollgate_limiter::{Clock as _, SystemClock};
use tollgate_settings::{ConfigFile, Flags, Settings, SettingsError};

use super::complain;
use super::table::grouped;
use crate::console::{Console, Exit, Format, GOOD, clean, count};
use crate::log_file::{bar, open};

/// The beginning of a log, by which its format is found out.
const HEAD_BYTES: u64 = 1 << 20;
/// Lines that were not understood are shown up to this number, and each up to this length.
const SHOWN_MAX: usize = 5;
const SHOWN_CHARS_MAX: usize = 200;

/// Fill a history from access logs
///
/// Logs of nginx, Apache, Envoy, Traefik, Caddy, HAProxy, AWS and others, packed or not. A line counts
/// as one request to its path, the query string dropped: a denied one if its status is 429, and else an
/// allowed one. What was imported before is not imported again: not under another name, nor if the log
/// has grown since.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The format of a log is found out by its first lines. Templates of routes are those of tollgate.yaml.

Examples:
  tollgate history import access.log
  tollgate history import /var/log/nginx/access.log* --data tollgate-data
  kubectl logs deploy/ingress | tollgate history import -

Exit codes: 0 imported, 1 a log of which no line is understood, 64 what cannot be read.")]
pub(super) struct Args {
    /// Logs, packed with gzip, bzip2 or zstd or not; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The folder with the history; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "tollgate-data")]
    data: PathBuf,
    /// The format of the logs: a name, or the format string of nginx, Apache or Envoy
    #[arg(long, value_name = "FORMAT", value_parser = LogFormat::parse)]
    log_format: Option<LogFormat>,
    /// The file with templates of routes; tollgate.yaml if it exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Import lines that are dated in the future, too; they are left out otherwise
    #[arg(long)]
    allow_future: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What came of all logs.
#[derive(Debug, Default, Serialize)]
struct ImportTotals {
    #[serde(flatten)]
    sum: ImportReport,
    /// The first lines that were not understood.
    not_understood_lines: Vec<String>,
    #[serde(skip)]
    files: usize,
}

/// Says what the lines of one log are.
struct LogReader<'a> {
    parser: LineParser,
    is_written_at_end: bool,
    templates: &'a [PathTemplates],
    /// The first lines that were not understood, of all logs.
    shown: &'a mut Vec<String>,
}

pub(super) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let templates = match templates(args.config.as_deref()) {
        Ok(templates) => templates,
        Err(error) => {
            for mistake in &error.mistakes {
                console.complain(&mistake.to_string(), "")?;
            }
            return Ok(Exit::BadConfiguration);
        }
    };
    let opened = RedbTables::open(&args.data, Access::Write);
    let mut history = match opened.and_then(|tables| LocalHistory::open(tables, Bounds::default())) {
        Ok(history) => history,
        Err(error) => return complain(error, console),
    };
    let mut importer = Importer::new(&mut history, SystemClock::new().now());
    if args.allow_future {
        importer = importer.allow_future();
    }
    let mut totals = ImportTotals::default();
    let mut exit = Exit::Fine;
    for path in &args.files {
        let imported = match import_one(path, args, &templates, &mut importer, &mut totals) {
            Ok(Some(imported)) => imported,
            Ok(None) => {
                let what = format!("no line of {} is understood", path.display());
                let help = format!(
                    "say with --log-format what it is: {}, or the format string of nginx, Apache or Envoy",
                    FORMAT_NAMES.join(", ")
                );
                console.complain(&what, &help)?;
                exit = if exit == Exit::Fine { Exit::Failed } else { exit };
                continue;
            }
            Err(Error::File { action, source, .. }) => {
                exit = complain(Error::File { action, path: path.clone(), source }, console)?;
                continue;
            }
            Err(error) => return complain(error, console),
        };
        totals.files += 1;
        totals.sum += imported;
    }
    if totals.files > 0 || !totals.not_understood_lines.is_empty() || args.format == Format::Json {
        show(args, &totals, console)?;
    }
    Ok(exit)
}

/// Imports one log; none if no line of its beginning is understood.
fn import_one(
    path: &Path,
    args: &Args,
    templates: &[PathTemplates],
    importer: &mut Importer<'_, LocalHistory<RedbTables>>,
    totals: &mut ImportTotals,
) -> Result<Option<ImportReport>, Error> {
    let unreadable = |source| Error::File { action: "read", path: path.to_owned(), source };
    // A log is read up to three times, and standard input can be only once.
    let copy = if path == Path::new("-") { Some(standard_input().map_err(unreadable)?) } else { None };
    let place = copy.as_ref().map_or(path, |copy| copy.path());
    let bar = bar(place);
    let mut head = Vec::new();
    open(place, &bar).and_then(|log| log.take(HEAD_BYTES).read_to_end(&mut head)).map_err(unreadable)?;
    let lines = || head.split(|byte| *byte == b'\n');
    let format = args.log_format.clone().or_else(|| LogFormat::detect(lines()));
    let shown = &mut totals.not_understood_lines;
    let Some(mut reader) = format.map(|format| LogReader::new(format, templates, shown)) else {
        let written = lines().filter(|line| !line.trim_ascii().is_empty());
        totals.not_understood_lines.extend(written.take(SHOWN_MAX).map(shown_line));
        return Ok(if head.is_empty() { Some(ImportReport::default()) } else { None });
    };
    if !head.is_empty() && !reader.understands(lines()) {
        return Ok(None);
    }
    let imported = importer.import(|| open(place, &bar), &mut |line| reader.read(line));
    bar.finish_and_clear();
    imported.map(Some)
}

/// A copy of standard input.
fn standard_input() -> io::Result<NamedTempFile> {
    let mut copy = NamedTempFile::new()?;
    io::copy(&mut io::stdin(), &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

/// The templates that routes have on a server with these settings.
fn templates(config: Option<&Path>) -> Result<Vec<PathTemplates>, SettingsError> {
    let Some(file) = ConfigFile::find(config)? else { return Ok(Vec::new()) };
    let none = std::collections::HashMap::new();
    let (settings, _) = Settings::resolve(&Flags::default(), &none, Some(&file))?;
    let of_mapping = settings.mapping.and_then(|own| own.mapping.paths().cloned());
    Ok(of_mapping.into_iter().chain(settings.history.map(|history| history.templates)).collect())
}

impl<'a> LogReader<'a> {
    fn new(format: LogFormat, templates: &'a [PathTemplates], shown: &'a mut Vec<String>) -> Self {
        let is_written_at_end = format.is_written_at_end();
        Self { parser: LineParser::new(Arc::new(format)), is_written_at_end, templates, shown }
    }

    /// Whether any of these lines is a request; the names of columns are learnt by the way.
    fn understands<'l>(&mut self, lines: impl Iterator<Item = &'l [u8]>) -> bool {
        let mut first = Vec::new();
        for line in lines {
            match self.parser.parse(line) {
                Parsed::Request(_) => return true,
                Parsed::NotUnderstood if first.len() < SHOWN_MAX => first.push(shown_line(line)),
                Parsed::NotUnderstood | Parsed::Comment => {}
            }
        }
        self.shown.extend(first);
        self.shown.truncate(SHOWN_MAX);
        false
    }

    fn read(&mut self, line: &[u8]) -> ImportLine {
        let request = match self.parser.parse(line) {
            Parsed::Request(request) => request,
            Parsed::Comment => return ImportLine::Comment,
            Parsed::NotUnderstood => {
                if self.shown.len() < SHOWN_MAX {
                    self.shown.push(shown_line(line));
                }
                return ImportLine::NotUnderstood;
            }
        };
        let took = request.duration.filter(|_| self.is_written_at_end).unwrap_or(Micros::ZERO);
        let target = String::from_utf8_lossy(&request.target);
        let path = target.split(['?', '#']).next().unwrap_or_default();
        let template = self.templates.iter().find_map(|templates| templates.matched(path.as_bytes()));
        ImportLine::Request {
            second: request.time.before(took).since(Time::EPOCH).get() / Micros::from_secs(1).get(),
            route: template.map_or_else(|| normalise(&target).into_owned(), str::to_owned),
            outcome: if request.status == Some(429) { Outcome::Denied } else { Outcome::Allowed },
        }
    }
}

fn shown_line(line: &[u8]) -> String {
    let most = line.get(..SHOWN_CHARS_MAX * 4).unwrap_or(line);
    clean(String::from_utf8_lossy(most).trim_end()).chars().take(SHOWN_CHARS_MAX).collect()
}

fn show(args: &Args, totals: &ImportTotals, console: &mut Console<'_>) -> io::Result<()> {
    if args.format == Format::Json {
        return console.json(totals);
    }
    let sum = &totals.sum;
    if totals.files > 0 {
        let [read, imported, not] = [sum.read, sum.imported, sum.not_understood].map(grouped);
        let files = count(totals.files, "file");
        let told = format!("{read} lines read, {imported} imported, {not} not understood");
        writeln!(console.out, "{GOOD}done{GOOD:#}: {files}, {told}")?;
    }
    if sum.denied > 0 {
        writeln!(console.out, "{} had the status 429 and count as denied", grouped(sum.denied))?;
    }
    if !totals.not_understood_lines.is_empty() {
        writeln!(console.out, "not understood:")?;
        for line in &totals.not_understood_lines {
            writeln!(console.out, "  {line}")?;
        }
    }
    if sum.future > 0 {
        let future = grouped(sum.future);
        let fix = "to count them, import into a new folder with --allow-future";
        writeln!(console.out, "{future} lines are dated in the future and were left out; {fix}")?;
    }
    if sum.known_bytes > 0 {
        let known = grouped(sum.known_bytes);
        writeln!(console.out, "{known} bytes were imported before and do not count again")?;
    }
    if sum.imported > 0 {
        let data = args.data.to_string_lossy();
        let data = clean(&data);
        let range = "--from 0 --data";
        writeln!(console.out, "look at it: tollgate history top {range} {data}")?;
    }
    Ok(())
}
