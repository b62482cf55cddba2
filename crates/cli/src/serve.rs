//! `tollgate serve`: the service.
//!
//! Turns flags into settings, opens the ports, and runs the server until a
//! signal ends it. Logs go to standard error.
//!
//! Deliberately not here: which settings and flags there are, what they mean
//! and their help; `tollgate_settings` has a table of them.

use std::io;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use tollgate_server::{Control, Error, Listeners, telemetry, workers};
use tollgate_settings::{Flags, Settings, Warning, help, rows};

use crate::console::{Console, Exit};

const EXAMPLES: &str = "\
Examples:
  tollgate serve
  tollgate serve --rules shop.yaml --rules more-rules/
  RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit USE_STATSD=false tollgate serve
  curl -i localhost:8080/v1/check -d '{\"domain\":\"example\",\"descriptors\":[{\"user_id\":\"42\"}]}'

SIGTERM and SIGINT stop it: calls in flight finish. SIGHUP reads rules and tollgate.yaml again.";

/// Runs the service: Envoy's rate limit protocol over gRPC, and HTTP.
///
/// With nothing else said, rules come from ./rules, or a built-in example is
/// served. The environment variables of envoyproxy/ratelimit are honoured;
/// flags win over the environment, and that over tollgate.yaml.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n'tollgate serve --help' lists all settings."))]
#[command(after_long_help = long_help())]
pub(crate) struct Args {
    #[command(flatten)]
    flags: FlagArgs,
}

/// The flags, one for each setting that has one.
#[derive(Debug)]
struct FlagArgs(Flags);

impl clap::Args for FlagArgs {
    fn augment_args(command: Command) -> Command {
        command.args(rows::flags().map(|row| {
            let arg = Arg::new(row.flag).long(row.flag.trim_start_matches('-')).help(help::flag(row));
            match row.is_repeatable {
                _ if row.is_switch() => arg.action(ArgAction::SetTrue),
                true => arg.value_name(row.value_name).action(ArgAction::Append),
                false => arg.value_name(row.value_name).action(ArgAction::Set),
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FlagArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Flags::default();
        for row in rows::flags() {
            if row.is_switch() {
                if matches.get_flag(row.flag) {
                    flags = flags.with(row, "true");
                }
                continue;
            }
            for value in matches.get_many::<String>(row.flag).into_iter().flatten() {
                flags = flags.with(row, value);
            }
        }
        Ok(Self(flags))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn long_help() -> String {
    format!(
        "{EXAMPLES}\n\nSettings by flag, environment variable or key in tollgate.yaml, and what holds without:\n\n{}",
        help::terminal()
    )
}

pub(crate) fn run(args: Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let (settings, warnings) = match Settings::load(&args.flags.0) {
        Ok(loaded) => loaded,
        Err(error) => {
            for mistake in &error.mistakes {
                console.complain(&mistake.to_string(), "")?;
            }
            return Ok(Exit::BadConfiguration);
        }
    };
    match serve(&settings, &warnings) {
        Ok(()) => Ok(Exit::Fine),
        Err(error) => {
            console.complain(&error.to_string(), "")?;
            Ok(exit_of(&error))
        }
    }
}

fn serve(settings: &Settings, warnings: &[Warning]) -> Result<(), Error> {
    let control = Control::by_signals()?;
    let listeners = Listeners::bind(settings, workers())?;
    if let Err(error) = telemetry::log::init(settings.log) {
        tracing::warn!(%error, "cannot apply the log settings; the present ones stay");
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    tollgate_server::run(settings, listeners, &control)
}

/// What the user can put right is bad configuration.
const fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Settings(_)
        | Error::Listen { .. }
        | Error::Socket { .. }
        | Error::Certificate { .. }
        | Error::AccessLog { .. } => Exit::BadConfiguration,
        Error::System { .. } | Error::Worker | _ => Exit::Failed,
    }
}
