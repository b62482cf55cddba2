//! `tollgate history`: how many, of what, when.
//!
//! Turns flags into queries, and results into curves and tables: `source` is a data
//! folder or a running server, `ask` queries it, `draw` draws curves, `table` writes the
//! rest, `import` fills a history from logs.
//!
//! Deliberately not here: what is counted and how it is kept; `tollgate_history` knows.

mod ask;
mod draw;
mod import;
mod source;
mod table;

use std::io;
use std::path::PathBuf;

use tollgate_history::query::{RuleFilter, TimeRange, TopOrder};
use tollgate_history::{Error, SeriesKind, time_text};
use tollgate_limiter::{Clock as _, SystemClock};

use crate::console::{Console, Exit};
use crate::remote;
pub(crate) use draw::{bars, columns};
use source::SourceError;
pub(crate) use table::{grouped, moment, share, shorten, top as write_top, with_rule};

/// How many requests, of what, when: the curve and the counts.
///
/// With a route alone, its curve; with nothing, the curve of everything.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  tollgate history import access.log --data tollgate-data
  tollgate history /cart --last 24h
  tollgate history top --by route --last 1h --limit 10
  tollgate history summary --from 2026-01-01 --to 2026-02-01 --format json
  tollgate history top --by key --order denied --server http://127.0.0.1:6070

Times are RFC 3339, unix seconds, or now-6h; spans are 90s, 15m, 24h, 7d, 4w, 1y.
A folder that a server has open cannot be read beside it: ask the server with --server, and
with TOLLGATE_ADMIN_TOKEN in the environment if it wants a token.

Exit codes: 0 fine, 1 the history cannot be read or written, 64 a wrong flag or path.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<HistoryCommand>,
    /// The route whose curve to show; a * at its end for all that begin so
    #[arg(value_name = "ROUTE")]
    route: Option<String>,
    #[command(flatten)]
    history: HistoryArgs,
    #[command(flatten)]
    time: TimeArgs,
}

impl Args {
    /// `--server /cart` means the usual server and a route: no address begins with a slash.
    fn history_and_route(&self) -> (HistoryArgs, Option<String>) {
        let mut history = self.history.clone();
        if self.route.is_none() && self.history.server.as_ref().is_some_and(|text| text.starts_with('/')) {
            let route = history.server.replace(remote::USUAL.to_owned());
            return (history, route);
        }
        (history, self.route.clone())
    }
}

#[derive(Debug, clap::Subcommand)]
enum HistoryCommand {
    Series(SeriesArgs),
    Top(TopArgs),
    Summary(SummaryArgs),
    Import(import::Args),
    Forget(ForgetArgs),
}

/// The curve of a route, a rule or a key, by outcome
#[derive(Debug, clap::Args)]
struct SeriesArgs {
    /// What kind of series
    #[arg(long, value_enum, default_value_t)]
    by: KindArg,
    /// Its name; a * at its end for all that begin so; everything if not given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    rules: RuleArgs,
    /// From one point to the next, such as 5m; chosen if not given
    #[arg(long, value_name = "SPAN")]
    step: Option<String>,
    /// Also of an earlier time: previous_period, previous_week or previous_year
    #[arg(long, value_name = "WHEN")]
    compare: Option<String>,
    #[command(flatten)]
    history: HistoryArgs,
    #[command(flatten)]
    time: TimeArgs,
}

/// The routes, rules or keys with the most, and the rest in one row
#[derive(Debug, clap::Args)]
struct TopArgs {
    /// What kind of series
    #[arg(long, value_enum, default_value_t)]
    by: KindArg,
    #[command(flatten)]
    rules: RuleArgs,
    /// Rows at most
    #[arg(long, value_name = "ROWS", default_value_t = 10)]
    limit: usize,
    /// What comes first
    #[arg(long, value_enum, default_value_t)]
    order: OrderArg,
    #[command(flatten)]
    history: HistoryArgs,
    #[command(flatten)]
    time: TimeArgs,
}

/// All requests in a few numbers
#[derive(Debug, clap::Args)]
struct SummaryArgs {
    #[command(flatten)]
    history: HistoryArgs,
    #[command(flatten)]
    time: TimeArgs,
}

/// Erase a key from the history
///
/// No answer has it any more, and its name is not in the files, or in Redis. Its counts
/// stay in the totals, without a name.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tollgate history forget user_id=42
  tollgate history forget user_id=42 --rule login --domain shop --server http://127.0.0.1:6070

On Redis any server that shares it can be asked with --server.")]
struct ForgetArgs {
    /// The key, as 'history top --by key' shows it, or with its values in clear where
    /// that shows hashes
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    rules: RuleArgs,
    /// The folder with the history
    #[arg(long, value_name = "DIR", default_value = "tollgate-data")]
    data: PathBuf,
    /// A running server to ask instead of a folder: its admin listener
    #[arg(long, value_name = "URL", conflicts_with = "data", num_args = 0..=1, default_missing_value = crate::remote::USUAL)]
    server: Option<String>,
}

/// Of which rules.
#[derive(Debug, clap::Args)]
struct RuleArgs {
    /// Only rules of this domain, and their keys
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// Only this rule, and its keys
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
}

impl From<&RuleArgs> for RuleFilter {
    fn from(args: &RuleArgs) -> Self {
        Self { domain: args.domain.clone(), rule: args.rule.clone() }
    }
}

/// Where the history is, and how to print results.
#[derive(Debug, Clone, clap::Args)]
struct HistoryArgs {
    /// The folder with the history
    #[arg(long, value_name = "DIR", default_value = "tollgate-data")]
    data: PathBuf,
    /// A running server to ask instead of a folder: its admin listener
    #[arg(long, value_name = "URL", conflicts_with = "data", num_args = 0..=1, default_missing_value = crate::remote::USUAL)]
    server: Option<String>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t)]
    format: HistoryFormat,
}

/// The time that a query is about.
#[derive(Debug, clap::Args)]
struct TimeArgs {
    /// So long until now, or until --to; a day if nothing is given
    #[arg(long, value_name = "SPAN", conflicts_with = "from")]
    last: Option<String>,
    /// From when on
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Until when; now if not given
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
}

impl TimeArgs {
    fn range(&self, now_s: u64) -> Result<TimeRange, Error> {
        TimeRange::parse(self.from.as_deref(), self.to.as_deref(), self.last.as_deref(), now_s)
    }
}

/// A kind of series, as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum KindArg {
    /// The path of the request, by template.
    #[default]
    Route,
    /// The rule that ruled.
    Rule,
    /// The key that was charged.
    Key,
}

impl From<KindArg> for SeriesKind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Route => Self::Route,
            KindArg::Rule => Self::Rule,
            KindArg::Key => Self::Key,
        }
    }
}

/// What a top list is sorted by, as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum OrderArg {
    /// By all requests or decisions.
    #[default]
    Total,
    /// By how many of them were denied.
    Denied,
}

impl From<OrderArg> for TopOrder {
    fn from(sorting: OrderArg) -> Self {
        match sorting {
            OrderArg::Total => Self::Total,
            OrderArg::Denied => Self::Denied,
        }
    }
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum HistoryFormat {
    /// For people: a drawn curve, or a table.
    #[default]
    Table,
    /// For spreadsheets; no cell is a formula.
    Csv,
    /// For programs, one document.
    Json,
    /// For programs, one object a line.
    Ndjson,
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let now_s = time_text::now_s(SystemClock::new().now());
    let done = match &args.command {
        None => {
            let (history, route) = args.history_and_route();
            let query = args.time.range(now_s).map(|range| ask::series_of_route(route, range));
            query.map_err(SourceError::from).and_then(|query| ask::series(&history, query, console))
        }
        Some(HistoryCommand::Series(args)) => ask::series_query(args, now_s)
            .map_err(SourceError::from)
            .and_then(|query| ask::series(&args.history, query, console)),
        Some(HistoryCommand::Top(args)) => ask::top(args, now_s, console),
        Some(HistoryCommand::Summary(args)) => ask::summary(args, now_s, console),
        Some(HistoryCommand::Forget(args)) => ask::forget(args, console),
        Some(HistoryCommand::Import(args)) => return import::run(args, console),
    };
    match done {
        Ok(printed) => printed.map(|()| Exit::Fine),
        Err(error) => complain(error, console),
    }
}

/// Says what is wrong and what to do about it.
fn complain(error: impl Into<SourceError>, console: &mut Console<'_>) -> io::Result<Exit> {
    let error = error.into();
    let (help, exit) = match &error {
        SourceError::Folder(error) => help_for(error),
        SourceError::Server(error) => (error.fix(), exit_for(error)),
    };
    console.complain(&error.to_string(), help)?;
    Ok(exit)
}

pub(crate) const fn exit_for(error: &remote::Error) -> Exit {
    match error {
        remote::Error::Url { .. } | remote::Error::Token { .. } => Exit::BadConfiguration,
        remote::Error::Unreachable { .. }
        | remote::Error::Slow { .. }
        | remote::Error::Refused { .. }
        | remote::Error::Nonsense { .. } => Exit::Failed,
    }
}

const fn help_for(error: &Error) -> (&'static str, Exit) {
    match error {
        Error::InUse { .. } => {
            ("ask that server with --server http://127.0.0.1:6070, or stop it first", Exit::Failed)
        }
        Error::Missing { .. } => {
            let help =
                "name the folder with --data DIR, or fill one: tollgate history import access.log --data DIR";
            (help, Exit::BadConfiguration)
        }
        Error::TooNew { .. } => ("use the version of tollgate that wrote it, or a newer one", Exit::Failed),
        Error::TooOld { .. } => ("move the folder away; a new one is begun", Exit::Failed),
        Error::Corrupt { .. } | Error::DamagedFile { .. } => {
            ("restore the folder from a backup, or start a new one", Exit::Failed)
        }
        Error::File { .. } => ("check the path and its permissions", Exit::BadConfiguration),
        Error::Query { .. } => ("'tollgate history --help' has examples", Exit::BadConfiguration),
        Error::Tables { .. } | _ => ("", Exit::Failed),
    }
}
