//! `tollgate suggest`: limits that fit the traffic, and rules that do not.
//!
//! Rules and how they were used, from a running server or from a data folder with rule files → for each
//! rule what is found about it, why, and what other limits would do.
//!
//! Invariant: what is found is the server's word, the same that the dashboard shows; nothing is judged
//! here. Never one number alone is suggested.
//!
//! Deliberately not here: logs; `tollgate replay --suggest` reads those.

use std::io::{self, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tollgate_core::Micros;
use tollgate_history::query::TimeRange;
use tollgate_history::tables::{Access, RedbTables};
use tollgate_history::{Bounds, History as _, LocalHistory, time_text};
use tollgate_limiter::{Clock as _, SystemClock};
use tollgate_rules::Options;
use tollgate_server::explain::words::rate;
use tollgate_server::rule_usage::{FindingLevel, RuleUsage, share, span};

use crate::console::{BAD, BOLD, Console, DIM, Exit, Format, GOOD, clean, show_problems, wrapped};
use crate::history::grouped;
use crate::remote::{self, Remote};

/// Limits that fit the traffic, and rules that do not
///
/// Tells for each rule what a server has counted in the last week: how much its keys ask for in their
/// busiest window, and how many keys and requests other limits would deny. A rule that never matches,
/// never denies or denies too much is told with the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
History has counts of minutes that become coarser as they age, so that what is told about a limit by
the second is a mean. Logs tell more exactly: tollgate replay.

Examples:
  tollgate suggest
  tollgate suggest --server http://10.0.0.7:6070 --last 24h
  tollgate suggest --data tollgate-data --rules rules/ --format json | jq '.rules[].finding'

Exit codes: 0 told, 1 the server or the history cannot be asked, 64 rules that are wrong.")]
pub(crate) struct Args {
    /// The admin listener of a running server
    #[arg(long, value_name = "URL", default_value = remote::USUAL, conflicts_with = "data")]
    server: String,
    /// A folder with history, in place of a server
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// With --data: the rules, a file or a folder of them; may be given several times
    #[arg(long, value_name = "PATH", default_value = "rules", requires = "data")]
    rules: Vec<PathBuf>,
    /// How far to look back
    #[arg(long, value_name = "SPAN", default_value = "7d", value_parser = str::parse::<Micros>)]
    last: Micros,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// All rules with their usage.
#[derive(Debug, Serialize)]
struct SuggestReport {
    from: u64,
    to: u64,
    rules: Vec<RuleReport>,
}

#[derive(Debug, Serialize)]
struct RuleReport {
    name: String,
    path: String,
    algorithm: String,
    limit_words: String,
    mode: String,
    #[serde(flatten)]
    usage: RuleUsage,
}

/// A server's rules, as far as they matter here.
#[derive(Debug, Deserialize)]
struct ServerRules {
    rules: Vec<ServerRule>,
}

#[derive(Debug, Deserialize)]
struct ServerRule {
    name: String,
    path: String,
    algorithm: String,
    requests_per_unit: u32,
    unit: String,
    unit_multiplier: u32,
    mode: String,
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let to_s = time_text::now_s(SystemClock::new().now());
    let range = TimeRange { from_s: to_s.saturating_sub(args.last.get() / 1_000_000), to_s };
    let rules = match &args.data {
        Some(data) => match of_folder(data, args, range, console)? {
            Ok(rules) => rules,
            Err(exit) => return Ok(exit),
        },
        None => match of_server(&args.server, range) {
            Ok(rules) => rules,
            Err(error) => {
                console.complain(&error.to_string(), error.fix())?;
                return Ok(Exit::Failed);
            }
        },
    };
    let report = SuggestReport { from: range.from_s, to: range.to_s, rules };
    match args.format {
        Format::Json => console.json(&report)?,
        Format::Text => write(args, &report, console.out)?,
    }
    Ok(Exit::Fine)
}

fn of_server(url: &str, range: TimeRange) -> Result<Vec<RuleReport>, remote::Error> {
    let server = Remote::new(url)?;
    let listed: ServerRules = server.json("/v1/rules", &[])?;
    let mut rules = Vec::new();
    for rule in listed.rules {
        let parameters = [
            ("path", rule.path.clone()),
            ("name", rule.name.clone()),
            ("from", range.from_s.to_string()),
            ("to", range.to_s.to_string()),
        ];
        let usage = server.json("/v1/rules/usage", &parameters)?;
        rules.push(RuleReport {
            limit_words: rate(rule.requests_per_unit, &rule.unit, rule.unit_multiplier),
            name: rule.name,
            path: rule.path,
            algorithm: rule.algorithm,
            mode: rule.mode,
            usage,
        });
    }
    Ok(rules)
}

/// The same from a folder; what is wrong is told.
fn of_folder(
    data: &std::path::Path,
    args: &Args,
    range: TimeRange,
    console: &mut Console<'_>,
) -> io::Result<Result<Vec<RuleReport>, Exit>> {
    let loaded = tollgate_rules::read(&args.rules).and_then(|sources| {
        tollgate_rules::load(sources, &Options { merge_domains: true, ..Options::default() })
    });
    let rules = match loaded {
        Ok(loaded) => loaded.rules,
        Err(error) => {
            show_problems(console.err, &error.problems)?;
            return Ok(Err(Exit::BadConfiguration));
        }
    };
    let opened =
        RedbTables::open(data, Access::Read).and_then(|tables| LocalHistory::open(tables, Bounds::default()));
    let read = opened.and_then(|history| {
        let reader = history.reader()?;
        let mut reports = Vec::new();
        for id in rules.ids() {
            let Some(rule) = rules.rule(id) else { continue };
            let Some(usage) = RuleUsage::read(&reader, &rules, id, range)? else { continue };
            reports.push(RuleReport {
                name: rule.name().to_owned(),
                path: rule.path.clone(),
                algorithm: rule.limit.algorithm().name().to_owned(),
                limit_words: rate(rule.limit.count(), rule.unit.name(), rule.unit_multiplier),
                mode: tollgate_server::rule_log::mode_name(rule.mode).to_owned(),
                usage,
            });
        }
        Ok(reports)
    });
    match read {
        Ok(reports) => Ok(Ok(reports)),
        Err(error) => {
            let help = "name the folder of --data of a server that is not running, or ask it with --server";
            console.complain(&error.full(), help)?;
            Ok(Err(Exit::Failed))
        }
    }
}

fn write(args: &Args, report: &SuggestReport, out: &mut dyn Write) -> io::Result<()> {
    let place = args.data.as_ref().map_or_else(|| args.server.clone(), |data| data.display().to_string());
    writeln!(out, "the last {}, as {} has counted it", args.last, clean(&place))?;
    if report.rules.is_empty() {
        writeln!(out, "\nno rules are in force")?;
    }
    for rule in &report.rules {
        writeln!(out)?;
        one_rule(rule, out)?;
    }
    Ok(())
}

fn one_rule(rule: &RuleReport, out: &mut dyn Write) -> io::Result<()> {
    let usage = &rule.usage;
    let mode =
        if rule.mode == "enforce" { String::new() } else { format!(", {}", rule.mode.replace('_', " ")) };
    let numbers = format!("{}, {}{mode}", rule.limit_words, rule.algorithm);
    writeln!(out, "{BOLD}{}{BOLD:#}  {}", clean(&rule.name), clean(&numbers))?;
    if rule.path != rule.name {
        writeln!(out, "  {DIM}{}{DIM:#}", clean(&rule.path))?;
    }
    let style = match usage.finding.level {
        FindingLevel::Bad => BAD,
        FindingLevel::Note => DIM,
        FindingLevel::Good => GOOD,
    };
    writeln!(out, "  {style}{}{style:#}", clean(&usage.finding.text))?;
    writeln!(out, "{}", wrapped(&clean(&usage.finding.reason), "    "))?;
    if usage.total == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "  {} decisions, {} denied; {} keys, {} of them over the limit",
        grouped(usage.total),
        grouped(usage.denied),
        usage.keys,
        usage.denied_keys
    )?;
    if usage.keys == 0 {
        return Ok(());
    }
    let (peaks, window) = (&usage.peaks, span(usage.window_s));
    writeln!(
        out,
        "  busiest {window} of a key: p50 {}, p90 {}, p99 {}, max {}",
        peaks.p50, peaks.p90, peaks.p99, peaks.max
    )?;
    writeln!(out, "  {:>12}  {:>16}  {:>20}", format!("per {window}"), "keys hit", "requests hit")?;
    let keys = wide(usage.keys);
    for effect in &usage.limits {
        let mark = if effect.limit == usage.limit { "  <- in force" } else { "" };
        let hit = format!("{} ({})", effect.keys, share(wide(effect.keys), keys));
        let requests = format!("{} ({})", effect.requests, share(effect.requests, usage.total));
        writeln!(out, "  {:>12}  {hit:>16}  {requests:>20}{mark}", effect.limit)?;
    }
    writeln!(out, "  {} per {window} is the lowest that denies at most 0.1 % of the requests", usage.fits)
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
