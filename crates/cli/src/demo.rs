//! `tollgate demo`: server, gateway and a toy upstream with made-up traffic, to look at.
//!
//! | module | what it holds |
//! |---|---|
//! | `callers` | who calls, and when |
//! | `week` | their calls of the last week, decided and counted |
//! | `live` | their calls from now on, sent through the gateway; the upstream that answers them |
//!
//! Invariants: it listens on free ports of loopback only, and everything it writes is in a temporary
//! folder that is gone when it ends.

mod callers;
mod live;
mod week;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tollgate_core::RuleSet;
use tollgate_limiter::{Clock as _, SystemClock};
use tollgate_rules::{LoadError, Options, SourceFile};
use tollgate_server::{Control, Listeners, telemetry, workers};
use tollgate_settings::{ConfigFile, Flags, Settings, rows};

use crate::console::{BOLD, Console, Exit};

/// The domain of the demo's rules.
const DOMAIN: &str = "demo";
const RULES: &str = include_str!("demo/rules.yaml");
/// What the rules said until three days ago, in place of what they say now.
const RULE_BEFORE: (&str, &str) =
    ("name: login, requests_per_unit: 5,", "name: login, requests_per_unit: 10,");
const SETTINGS: &str = include_str!("demo/settings.yaml");
const LOOPBACK: &str = "127.0.0.1:0";
/// Calls on their way at the end.
const LAST_CALLS_MAX: Duration = Duration::from_millis(100);

/// Shows the dashboard alive: a server, its gateway and a toy upstream on free
/// ports of loopback with example rules, a week of history and a mix of callers.
/// It leaves nothing behind.
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
    let (before, now) = (rule_set(&RULES.replace(RULE_BEFORE.0, RULE_BEFORE.1))?, rule_set(RULES)?);
    // Before anything that takes long: Ctrl-C must leave nothing behind at any time.
    let control = Control::by_signals()?;
    week::fill(&data, [before, now], SystemClock::new().now().get() / 1_000_000, &control)?;
    if control.is_stopped() {
        return Ok(());
    }

    let outside = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let upstream = outside.block_on(TcpListener::bind(LOOPBACK))?;
    let flags = Flags::default()
        .with(&rows::HTTP_ADDRESS.row, LOOPBACK)
        .with(&rows::GRPC_ADDRESS.row, LOOPBACK)
        .with(&rows::GATEWAY_ADDRESS.row, LOOPBACK)
        .with(&rows::UPSTREAM.row, format!("http://{}", upstream.local_addr()?))
        .with(&rows::ADMIN_ADDRESS.row, admin.to_string())
        .with(&rows::QUIET.row, "true")
        .with(&rows::RULES.row, rules.to_string_lossy())
        .with(&rows::DATA.row, data.to_string_lossy());
    let file = ConfigFile::parse("settings.yaml", SETTINGS)?;
    // Not the environment: a demo is the same everywhere.
    let (settings, _) = Settings::resolve(&flags, &HashMap::<String, String>::new(), Some(&file))?;
    let listeners = Listeners::bind(&settings, workers())?;
    let addresses = listeners.addresses().clone();
    if let Err(error) = telemetry::log::init(settings.log) {
        tracing::warn!(%error, "cannot apply the log settings; the present ones stay");
    }
    writeln!(console.out, "The dashboard: {BOLD}http://{}/{BOLD:#}", addresses.admin)?;
    let gateway = addresses.gateway.ok_or("the gateway has no address")?;
    writeln!(
        console.out,
        "The gateway:   http://{gateway}/, before a toy upstream; callers are calling it."
    )?;
    writeln!(console.out, "Be one of them: curl -i -H 'X-User: me' http://{gateway}/cart")?;
    writeln!(console.out, "Ctrl-C ends it all.")?;
    console.out.flush()?;
    outside.spawn(live::upstream(upstream));
    outside.spawn(live::run(gateway));
    let ended = tollgate_server::run(&settings, listeners, &control);
    outside.shutdown_timeout(LAST_CALLS_MAX);
    Ok(ended?)
}

fn rule_set(text: &str) -> Result<RuleSet, LoadError> {
    let source = SourceFile { name: "demo.yaml".to_owned(), text: text.to_owned() };
    Ok(tollgate_rules::load(vec![source], &Options::default())?.rules)
}
