//! `tollgate replay`: who would have been limited on recorded traffic, and by what.
//!
//! Rules, mapping and logs are read here; `tollgate_replay` decides; `replay/text.rs`,
//! `replay/trials.rs` and `replay/html.rs` show the report to people.
//!
//! Deliberately not here: what a log line means, and what a rule decides.

mod html;
mod text;
mod trials;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_accesslog::LogFormat;
use tollgate_core::RuleSet;
use tollgate_gateway::default_mapping;
use tollgate_http::Mapping;
use tollgate_replay::{LogSource, Replay, ReplayReport, ReplaySettings, Share, Spread};
use tollgate_rules::Options;
use tollgate_settings::{ConfigFile, Flags, Settings};

use crate::console::{Console, Exit, Format, clean, show_problems};
use crate::log_file;

/// Who would have been limited on recorded traffic, and by what
///
/// Reads access logs of nginx, Apache, Envoy, Traefik, Caddy, HAProxy, AWS and others, packed or not,
/// turns each line into a request as the gateway would, and decides it by the rules at the time of the
/// log.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The format of a log is found out by its first lines. Requests get the descriptors (remote_address),
(method, path) and (path, remote_address) in the domain gateway, unless --mapping names another mapping.

Examples:
  tollgate replay --rules new/ access.log
  tollgate replay --rules new/ --against old/ access.log.*.gz access.log
  tollgate replay --rules new/ --mapping tollgate.yaml --format json access.log | jq '.rules[]'
  tollgate replay --rules new/ --suggest 0.1% --algorithms access.log
  tollgate replay --rules new/ --explain remote_address=192.0.2.1 access.log
  tollgate replay --rules new/ --html report.html access.log
  zcat access.log.gz | tollgate replay --rules new/ --fail-if-denied 1% -

Exit codes: 0 replayed, 1 more denied than --fail-if-denied or a log that cannot be read, 64 rules or
options that are wrong.")]
pub(crate) struct Args {
    /// The rules to try: a file, or a folder of them; may be given several times
    #[arg(long, value_name = "PATH", required = true)]
    rules: Vec<PathBuf>,
    /// Rules to compare them with
    #[arg(long, value_name = "PATH")]
    against: Vec<PathBuf>,
    /// Let several files add to one domain
    #[arg(long)]
    merge_domains: bool,
    /// A tollgate.yaml whose mapping turns lines into requests
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// The format of the logs: a name, or the format string of nginx, Apache or Envoy
    #[arg(long, value_name = "FORMAT", value_parser = LogFormat::parse)]
    log_format: Option<LogFormat>,
    /// Where in a second its requests are, if the log has whole seconds
    #[arg(long, value_enum, default_value_t)]
    spread: SpreadArg,
    /// Rows of each list
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Exit 1 if more requests are denied than this share, such as 1% or 0.1%
    #[arg(long, value_name = "SHARE")]
    fail_if_denied: Option<Share>,
    /// Decide the same numbers by all six algorithms besides
    #[arg(long)]
    algorithms: bool,
    /// For each rule, which limits would deny how much; the smallest that keeps below this share
    #[arg(long, value_name = "SHARE")]
    suggest: Option<Share>,
    /// Tell one key's story: remote_address=10.0.0.1, or a value alone
    #[arg(long, value_name = "KEY")]
    explain: Option<String>,
    /// Write the report as a page, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Logs, packed with gzip, bzip2 or zstd or not; - is standard input
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
}

/// [`Spread`] as it is typed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum SpreadArg {
    /// At equal distances
    #[default]
    Even,
    /// All at its start
    None,
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let Some(rules) = load_rules(&args.rules, args, console)? else { return Ok(Exit::BadConfiguration) };
    let against = match args.against.as_slice() {
        [] => None,
        paths => match load_rules(paths, args, console)? {
            Some(rules) => Some(rules),
            None => return Ok(Exit::BadConfiguration),
        },
    };
    let Some(mapping) = mapping(args.mapping.as_deref(), console)? else { return Ok(Exit::BadConfiguration) };
    let bar = log_file::bar_of(&args.logs);
    let mut sources = Vec::new();
    for path in &args.logs {
        let name = path.to_string_lossy().into_owned();
        match log_file::open(path, &bar) {
            Ok(lines) => sources.push(LogSource { name, lines, format: args.log_format.clone() }),
            Err(error) => {
                console.complain(
                    &format!("cannot read {name}: {error}"),
                    "name logs that are there, or - for standard input",
                )?;
                return Ok(Exit::Failed);
            }
        }
    }
    let spread = match args.spread {
        SpreadArg::Even => Spread::Even,
        SpreadArg::None => Spread::None,
    };
    let settings = ReplaySettings {
        rules,
        against,
        mapping,
        spread,
        rows: args.limit,
        algorithms: args.algorithms,
        suggest: args.suggest,
        explain: args.explain.clone(),
    };
    let replayed = Replay::run(&settings, sources, &mut |_| ());
    bar.finish_and_clear();
    match replayed {
        Ok(report) => show(args, &settings, &report, console),
        Err(error) => {
            console.complain(
                &error.to_string(),
                "what was read before it is not reported; unpack it and look at its end",
            )?;
            Ok(Exit::Failed)
        }
    }
}

fn show(
    args: &Args,
    settings: &ReplaySettings,
    report: &ReplayReport,
    console: &mut Console<'_>,
) -> io::Result<Exit> {
    match args.format {
        Format::Json => console.json(report)?,
        Format::Text => text::write(settings, report, console.out)?,
    }
    if let Some(path) = &args.html
        && let Err(error) = std::fs::write(path, html::page(settings, report))
    {
        let what = format!("cannot write {}: {error}", path.display());
        console.complain(&what, "name a file in a folder that is there and may be written to")?;
        return Ok(Exit::Failed);
    }
    if report.requests == 0 {
        let what = if report.lines == 0 { "the logs are empty" } else { "no line of the logs is understood" };
        let help = format!(
            "say with --log-format what they are: {}, or the format string of nginx, Apache or Envoy",
            tollgate_accesslog::FORMAT_NAMES.join(", ")
        );
        console.complain(what, &help)?;
        return Ok(Exit::Failed);
    }
    if let (Some(key), Some([])) = (&args.explain, report.explain.as_deref()) {
        let help = "name a key as the report does, such as remote_address=192.0.2.1; it must be one that a rule limits";
        console.complain(&format!("no rule met a request of the key {}", clean(key)), help)?;
        return Ok(Exit::Failed);
    }
    let Some(share) = args.fail_if_denied else { return Ok(Exit::Fine) };
    if !share.is_exceeded_by(report.denied, report.requests) {
        return Ok(Exit::Fine);
    }
    let what = format!(
        "{} of {} requests are denied, more than --fail-if-denied allows",
        report.denied, report.requests
    );
    console.complain(&what, "raise the limits that the report names, or the share")?;
    Ok(Exit::Failed)
}

fn load_rules(paths: &[PathBuf], args: &Args, console: &mut Console<'_>) -> io::Result<Option<Arc<RuleSet>>> {
    let options = Options { merge_domains: args.merge_domains, ..Options::default() };
    match tollgate_rules::read(paths).and_then(|sources| tollgate_rules::load(sources, &options)) {
        Ok(loaded) => Ok(Some(Arc::new(loaded.rules))),
        Err(error) => {
            show_problems(console.err, &error.problems)?;
            Ok(None)
        }
    }
}

/// The mapping of a settings file, or the gateway's own.
pub(crate) fn mapping(path: Option<&Path>, console: &mut Console<'_>) -> io::Result<Option<Mapping>> {
    let Some(path) = path else { return Ok(Some(default_mapping())) };
    let none = std::collections::HashMap::new();
    let read = ConfigFile::find(Some(path))
        .and_then(|file| Settings::resolve(&Flags::default(), &none, file.as_ref()));
    match read {
        Ok((Settings { mapping: Some(own), .. }, _)) => Ok(Some(own.mapping)),
        Ok(_) => {
            let what = format!("there is no mapping: in {}", path.display());
            console.complain(&what, "add one, or leave --mapping out to use the gateway's own")?;
            Ok(None)
        }
        Err(error) => {
            for mistake in &error.mistakes {
                console.complain(&mistake.to_string(), "")?;
            }
            Ok(None)
        }
    }
}
