//! `tollgate replay`: who would have been limited on recorded traffic, and by what.
//!
//! Rules, mapping and logs are read here; `tollgate_replay` decides; `replay/text.rs` shows the report to
//! people.
//!
//! Deliberately not here: what a log line means, and what a rule decides.

mod text;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_accesslog::LogFormat;
use tollgate_core::RuleSet;
use tollgate_gateway::default_mapping;
use tollgate_http::Mapping;
use tollgate_replay::{LogSource, Replay, ReplayReport, ReplaySettings, Spread};
use tollgate_rules::Options;
use tollgate_settings::{ConfigFile, Flags, Settings};

use crate::console::{Console, Exit, Format, show_problems};
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
    #[arg(long, value_name = "SHARE", value_parser = share)]
    fail_if_denied: Option<Share>,
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

/// A share in thousandths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share(u64);

impl Share {
    const ALL: u64 = 100_000;

    /// Whether `part` of `all` is more.
    fn is_exceeded_by(self, part: u64, all: u64) -> bool {
        u128::from(part) * u128::from(Self::ALL) > u128::from(all) * u128::from(self.0)
    }
}

/// `1%` or `0.125%`.
fn share(text: &str) -> Result<Share, String> {
    let wrong = || format!("'{text}' is no share; write a percentage from 0% to 100%, such as 0.1%");
    let number = text.trim().strip_suffix('%').ok_or_else(wrong)?.trim();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 3 {
        return Err(wrong());
    }
    let thousandths = format!("{whole}{fraction:0<3}").parse::<u64>().map_err(|_| wrong())?;
    if thousandths > Share::ALL { Err(wrong()) } else { Ok(Share(thousandths)) }
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
    let bars: Vec<_> = args.logs.iter().map(|path| log_file::bar(path)).collect();
    let mut sources = Vec::new();
    for (path, bar) in args.logs.iter().zip(&bars) {
        let name = path.to_string_lossy().into_owned();
        match log_file::open(path, bar) {
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
    let settings = ReplaySettings { rules, against, mapping, spread, rows: args.limit };
    let replayed = Replay::run(&settings, sources, &mut |_| ());
    for bar in bars {
        bar.finish_and_clear();
    }
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
    if report.requests == 0 {
        let what = if report.lines == 0 { "the logs are empty" } else { "no line of the logs is understood" };
        let help = format!(
            "say with --log-format what they are: {}, or the format string of nginx, Apache or Envoy",
            tollgate_accesslog::FORMAT_NAMES.join(", ")
        );
        console.complain(what, &help)?;
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
fn mapping(path: Option<&Path>, console: &mut Console<'_>) -> io::Result<Option<Mapping>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_and_nonsense_is_refused() {
        assert_eq!(share("1%"), Ok(Share(1_000)));
        assert_eq!(share("0.125 %"), Ok(Share(125)));
        assert_eq!(share("100%"), Ok(Share(100_000)));
        for text in ["1", "%", "101%", "-1%", "1.%", "0.1234%", "one%", "1,5%"] {
            assert!(share(text).is_err(), "{text}");
        }
        assert!(!Share(1_000).is_exceeded_by(1, 100) && Share(1_000).is_exceeded_by(2, 100));
        assert!(Share(0).is_exceeded_by(1, u64::MAX) && !Share(0).is_exceeded_by(0, 0));
    }
}
