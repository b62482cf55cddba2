//! `tollgate serve`: the service.
//!
//! Turns flags into settings, opens the ports, and runs the server until a
//! signal ends it. Logs go to standard error.
//!
//! Deliberately not here: what a setting means; `tollgate_settings`
//! knows all of them, and their help.

use std::io;
use std::path::PathBuf;

use tollgate_server::{Control, Error, Listeners, telemetry, workers};
use tollgate_settings::{Flags, Settings, Warning, definitions};

use crate::console::{Console, Exit};

const EXAMPLES: &str = "\
Examples:
  tollgate serve
  tollgate serve --rules shop.yaml --rules more-rules/
  RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit USE_STATSD=false tollgate serve
  curl -i localhost:8080/json \\
    -d '{\"domain\":\"example\",\"descriptors\":[{\"entries\":[{\"key\":\"user_id\",\"value\":\"42\"}]}]}'

SIGTERM and SIGINT stop it: calls in flight finish. SIGHUP reads the rules again.";

/// Runs the service: Envoy's rate limit protocol over gRPC, and HTTP.
///
/// With nothing else said, rules come from ./rules, or a built-in example is
/// served. The environment variables of envoyproxy/ratelimit are honoured;
/// flags win over the environment, and that over tollgate.yaml.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n'tollgate serve --help' lists all settings."))]
#[command(after_long_help = long_help())]
pub(crate) struct Args {
    /// A rule file or a folder of rule files; may be given several times; ./rules if not given.
    #[arg(long, value_name = "PATH")]
    rules: Vec<PathBuf>,
    /// Where counters are kept: memory, or redis://host:port and its like; memory if not given.
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// A folder for snapshots and history.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The file of settings; tollgate.yaml in this folder if there is one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where HTTP is served; 0.0.0.0:8080 if not given.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Where gRPC is served; 0.0.0.0:8081 if not given.
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<String>,
    /// Where any Redis client can ask, such as 127.0.0.1:6380; off if not given.
    #[arg(long, value_name = "ADDRESS")]
    resp: Option<String>,
    /// Where the admin pages are served; 127.0.0.1:6070 if not given.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// Where the gateway listens.
    #[arg(long, value_name = "ADDRESS")]
    gateway: Option<String>,
    /// Where the gateway sends requests.
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
}

fn long_help() -> String {
    format!(
        "{EXAMPLES}\n\nSettings by flag, environment variable or key in tollgate.yaml, and what holds without:\n\n{}",
        definitions::help()
    )
}

impl From<Args> for Flags {
    fn from(args: Args) -> Self {
        let Args { rules, store, data, config, http, grpc, resp, admin, gateway, upstream } = args;
        Self { rules, store, data, config, http, grpc, resp, admin, gateway, upstream }
    }
}

pub(crate) fn run(args: Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let (settings, warnings) = match Settings::load(&args.into()) {
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
        tracing::warn!(%error, "logging goes on as it was");
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    tollgate_server::run(settings, listeners, &control)
}

/// What the user can put right is bad configuration.
const fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Settings(_) | Error::Listen { .. } | Error::Socket { .. } | Error::Certificate { .. } => {
            Exit::BadConfiguration
        }
        Error::System { .. } | Error::Worker | _ => Exit::Failed,
    }
}
