//! `tollgate history import`: fills a history from the logs of web servers.
//!
//! `tollgate_history` reads the lines, and knows those that it has imported.

use std::io;
use std::path::PathBuf;

use tollgate_history::import::{ImportReport, Importer};
use tollgate_history::tables::{Access, RedbTables};
use tollgate_history::{Bounds, Error, LocalHistory};
use tollgate_limiter::{Clock as _, SystemClock};

use super::complain;
use super::table::grouped;
use crate::console::{Console, Exit, Format, GOOD, clean, count};
use crate::log_file::{bar, open};

/// Fill a history from access logs
///
/// Common and combined log format, gzipped or not. A line counts as one allowed
/// request to its path, the query string dropped. What was imported before is not
/// imported again: not under another name, nor if the log has grown since.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tollgate history import access.log
  tollgate history import /var/log/nginx/access.log* --data tollgate-data")]
pub(super) struct Args {
    /// Logs, gzipped or not
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The folder with the history; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "tollgate-data")]
    data: PathBuf,
    /// Import lines that are dated in the future, too; they are left out otherwise
    #[arg(long)]
    allow_future: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let opened = RedbTables::open(&args.data, Access::Write);
    let mut history = match opened.and_then(|tables| LocalHistory::open(tables, Bounds::default())) {
        Ok(history) => history,
        Err(error) => return complain(error, console),
    };
    let mut importer = Importer::new(&mut history, SystemClock::new().now());
    if args.allow_future {
        importer = importer.allow_future();
    }
    let mut sum = ImportReport::default();
    let mut exit = Exit::Fine;
    let mut files = 0;
    for path in &args.files {
        let bar = bar(path);
        let imported = importer.import(|| open(path, &bar), &mut |_| ());
        bar.finish_and_clear();
        match imported {
            Ok(imported) => {
                files += 1;
                sum.read += imported.read;
                sum.imported += imported.imported;
                sum.not_understood += imported.not_understood;
                sum.future += imported.future;
                sum.known_bytes += imported.known_bytes;
            }
            Err(Error::File { action, source, .. }) => {
                exit = complain(Error::File { action, path: path.clone(), source }, console)?;
            }
            Err(error) => return complain(error, console),
        }
    }
    if files > 0 || args.format == Format::Json {
        show(args, files, &sum, console)?;
    }
    Ok(exit)
}

fn show(args: &Args, files: usize, sum: &ImportReport, console: &mut Console<'_>) -> io::Result<()> {
    if args.format == Format::Json {
        return console.json(sum);
    }
    let [read, imported, not] = [sum.read, sum.imported, sum.not_understood].map(grouped);
    let files = count(files, "file");
    let told = format!("{read} lines read, {imported} imported, {not} not understood");
    writeln!(console.out, "{GOOD}done{GOOD:#}: {files}, {told}")?;
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
