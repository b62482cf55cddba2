//! `tollgate demo`: a server with made-up traffic, to look at.
//!
//! | module | what it holds |
//! |---|---|
//! | `callers` | who calls, and when |
//! | `week` | their calls of the last week, decided and counted |
//! | `live` | their calls from now on, sent to the server |
//!
//! Invariants: it listens on free ports of loopback only, and everything it writes is in a temporary
//! folder that is gone when it ends.
//!
//! Deliberately not here: the gateway and an upstream behind it, which the demo does without so far.

mod callers;
mod live;
mod week;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tollgate_limiter::{Clock as _, SystemClock};
use tollgate_rules::{Options, SourceFile};
use tollgate_server::{Control, Listeners, telemetry, workers};
use tollgate_settings::{Flags, Settings, rows};

use crate::console::{BOLD, Console, Exit};

/// The domain of the demo's rules.
const DOMAIN: &str = "demo";
const RULES: &str = include_str!("demo/rules.yaml");
const LOOPBACK: &str = "127.0.0.1:0";
/// Calls on their way at the end.
const LAST_CALLS_MAX: Duration = Duration::from_millis(100);

/// Shows the dashboard alive: a server on free ports of loopback with example
/// rules, a week of history and a mix of callers. It leaves nothing behind.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tollgate demo\n\nCtrl-C ends it.")]
pub(crate) struct Args {
    /// Where the dashboard listens; a free port of loopback if nothing is said
    #[arg(long, value_name = "ADDRESS", default_value = LOOPBACK)]
    admin: SocketAddr,
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    if !args.admin.ip().is_loopback() {
        console.complain("the demo listens on loopback only", "write 127.0.0.1:PORT")?;
        return Ok(Exit::BadConfiguration);
    }
    let folder = tempfile::Builder::new().prefix("tollgate-demo-").tempdir()?;
    match show(folder.path(), args.admin, console) {
        Ok(()) => Ok(Exit::Fine),
        Err(error) => {
            console.complain(&error.to_string(), "")?;
            Ok(Exit::Failed)
        }
    }
}

fn show(
    folder: &Path,
    admin: SocketAddr,
    console: &mut Console<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let (rules, data) = (folder.join("demo.yaml"), folder.join("data"));
    fs::write(&rules, RULES)?;
    writeln!(console.out, "A week of traffic is made up …")?;
    console.out.flush()?;
    let source = SourceFile { name: rules.display().to_string(), text: RULES.to_owned() };
    let loaded = tollgate_rules::load(vec![source], &Options::default())?;
    week::fill(&data, loaded.rules, SystemClock::new().now().get() / 1_000_000)?;

    let flags = [(&rows::HTTP_ADDRESS.row, LOOPBACK), (&rows::GRPC_ADDRESS.row, LOOPBACK)];
    let flags = flags.into_iter().fold(Flags::default(), |flags, (row, value)| flags.with(row, value));
    let flags = flags.with(&rows::ADMIN_ADDRESS.row, admin.to_string()).with(&rows::QUIET.row, "true");
    let flags = flags.with(&rows::RULES.row, rules.to_string_lossy());
    let flags = flags.with(&rows::DATA.row, data.to_string_lossy());
    // Not the environment: a demo is the same everywhere.
    let (settings, _) = Settings::resolve(&flags, &HashMap::<String, String>::new(), None)?;
    let control = Control::by_signals()?;
    let listeners = Listeners::bind(&settings, workers())?;
    let addresses = listeners.addresses().clone();
    if let Err(error) = telemetry::log::init(settings.log) {
        tracing::warn!(%error, "logging goes on as it was");
    }
    writeln!(console.out, "The dashboard: {BOLD}http://{}/{BOLD:#}", addresses.admin)?;
    writeln!(console.out, "Callers are calling http://{}/v1/check. Ctrl-C ends it all.", addresses.http)?;
    console.out.flush()?;
    let caller = call(addresses.http)?;
    let ended = tollgate_server::run(&settings, listeners, &control);
    caller.shutdown_timeout(LAST_CALLS_MAX);
    Ok(ended?)
}

/// A thread that calls the server until it is shut down.
fn call(http: SocketAddr) -> io::Result<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.spawn(live::run(http));
    Ok(runtime)
}
