//! `tollgate bench`: loads a running server, and says how fast it is.
//!
//! Flags → a plan → `tollgate_load` carries it out → a table or JSON (`show`).
//!
//! Deliberately not here: asking and measuring.

mod show;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use jiff::SignedDuration;
use tollgate_load::plan::{
    CONNECTIONS_MAX, DescriptorCheck, IN_FLIGHT_MAX, KEYS_MAX, KeySpace, LoadLoop, LoadRequest, RunLength,
    THREADS_MAX,
};
use tollgate_load::transport::{ClientTls, ConnectOptions, Password};
use tollgate_load::{Error, LoadProtocol, Plan, Progress};
use tollgate_server::explain::words;
use tollgate_settings::{Environment, Variables as _, rows};

use crate::console::{Console, Exit, Format};
use crate::explain::{Pairs, parse_descriptor};

/// The longest run, and the longest warm-up.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Loads a running server and prints throughput and latency
///
/// Asks over gRPC (Envoy's protocol), HTTP (/v1/check) or RESP (TOLLGATE.CHECK), in a
/// closed loop, which asks again as soon as it is answered, or with --rate in an open
/// loop, which asks at its times and counts a latency from when a question was due.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tollgate serve --resp 127.0.0.1:6380 &
  tollgate bench --grpc 127.0.0.1:8081 --server-pid $!
  tollgate bench --http 127.0.0.1:8080 --rate 5000 --duration 30s
  tollgate bench --resp 127.0.0.1:6380 --in-flight 16 --zipf 1.1 --format json
  tollgate bench --grpc 127.0.0.1:8081 --domain shop --descriptor plan=free,user_id=u{key}
  tollgate bench --http limits.example.com:8080 --ca authority.pem

It counts in the server's limits like any other traffic. What it takes of the machine is
missing to the server: see 'bench CPU'. The password of a server over RESP is better in
TOLLGATE_RESP_PASSWORD, where the server itself reads it and no process list shows it.

Exit codes: 0 fine, 1 nobody answers or something went wrong, 64 a wrong flag.")]
#[command(group = clap::ArgGroup::new("server").required(true))]
pub(crate) struct Args {
    /// Ask over gRPC, as Envoy does
    #[arg(long, value_name = "ADDRESS", group = "server")]
    grpc: Option<String>,
    /// Ask over HTTP
    #[arg(long, value_name = "ADDRESS", group = "server")]
    http: Option<String>,
    /// Ask over RESP, as Redis clients do
    #[arg(long, value_name = "ADDRESS", group = "server")]
    resp: Option<String>,
    /// With TLS, signed by an authority that the system trusts
    #[arg(long)]
    tls: bool,
    /// With TLS, signed by an authority in this file (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The password over RESP
    #[arg(long, value_name = "PASSWORD", requires = "resp")]
    password: Option<String>,
    /// How many connections [default: 4 over gRPC, 50 over HTTP and RESP]
    #[arg(long, value_name = "N", value_parser = bounded(CONNECTIONS_MAX))]
    connections: Option<u64>,
    /// Questions on their way on each: streams over gRPC, a pipeline over RESP; 1 over HTTP
    /// [default: 32 over gRPC, 1 over RESP]
    #[arg(long, value_name = "N", value_parser = bounded(IN_FLIGHT_MAX), conflicts_with = "http")]
    in_flight: Option<u64>,
    /// How many threads ask [default: half of the cores]
    #[arg(long, value_name = "N", value_parser = bounded(THREADS_MAX))]
    threads: Option<u64>,
    /// So many a second, answered or not: an open loop
    #[arg(long, value_name = "PER_SECOND", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    rate: Option<u32>,
    /// How many keys there are
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(KEYS_MAX)))]
    keys: u32,
    /// Some keys come more often: by Zipf, with this exponent, such as 1.0
    #[arg(long, value_name = "EXPONENT", value_parser = exponent)]
    zipf: Option<f64>,
    /// The domain of the rules
    #[arg(long, value_name = "DOMAIN", default_value = "example", value_parser = plain)]
    domain: String,
    /// The descriptor; {key} stands for the key
    #[arg(long, value_name = "KEY=VALUE[,KEY=VALUE]", default_value = "user_id=u{key}", value_parser = descriptor)]
    descriptor: Pairs,
    /// What each question costs
    #[arg(long, value_name = "N", default_value_t = 1)]
    cost: u32,
    /// For how long, such as 30s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time, conflicts_with = "count")]
    duration: Duration,
    /// How many answers, instead of for how long
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// So long nothing is measured
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    warm_up: Duration,
    /// The process whose CPU time is told, such as the server's
    #[arg(long, value_name = "PID", value_parser = process)]
    server_pid: Option<u32>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args, console: &mut Console<'_>) -> io::Result<Exit> {
    let plan = match plan(args) {
        Ok(plan) => plan,
        Err(error) => return complain(&error, LoadProtocol::Grpc, console),
    };
    let bar = bar(&plan);
    let report = tollgate_load::run(&plan, args.server_pid, &mut |progress| advance(&bar, &plan, progress));
    bar.finish_and_clear();
    let report = match report {
        Ok(report) => report,
        Err(error) => return complain(&error, plan.protocol(), console),
    };
    match args.format {
        Format::Text => show::text(&plan, &report, args.server_pid, console.out)?,
        Format::Json => console.json(&show::json(&plan, &report))?,
    }
    if report.is_unlimited() {
        let asked = words::descriptor(args.descriptor.pairs());
        let what = format!("no limit applies to {} {asked}, so that nothing was decided", args.domain);
        let help = "name the domain and a descriptor of your rules with --domain and --descriptor";
        console.complain(&what, help)?;
    }
    let went_wrong = report.errors > 0 || report.lost > 0 || report.is_unlimited();
    Ok(if went_wrong { Exit::Failed } else { Exit::Fine })
}

fn plan(args: &Args) -> Result<Plan, Error> {
    let (protocol, address, connections, in_flight) = match (&args.grpc, &args.http, &args.resp) {
        (Some(address), ..) => (LoadProtocol::Grpc, address, 4, 32),
        (_, Some(address), _) => (LoadProtocol::Http, address, 50, 1),
        (_, _, address) => (LoadProtocol::Resp, address.as_ref().unwrap_or(&args.domain), 50, 1),
    };
    let whole = |number: Option<u64>, default: usize| {
        number.map_or(default, |number| usize::try_from(number).unwrap_or(default))
    };
    let half = std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
    Ok(Plan {
        target: resolve(address)?,
        connect: connect_options(args, address, protocol)?,
        address: address.clone(),
        connections: whole(args.connections, connections),
        in_flight: whole(args.in_flight, in_flight),
        threads: whole(args.threads, half),
        pacing: args.rate.map_or(LoadLoop::Closed, |per_second| LoadLoop::Open { per_second }),
        request: LoadRequest::Check(protocol, check(args)),
        keys: KeySpace { count: args.keys, zipf: args.zipf, seed: 0 },
        warm_up: args.warm_up,
        length: args.count.map_or(RunLength::Time(args.duration), RunLength::Count),
    })
}

fn check(args: &Args) -> DescriptorCheck {
    DescriptorCheck { domain: args.domain.clone(), entries: args.descriptor.0.clone(), cost: args.cost }
}

fn connect_options(args: &Args, address: &str, protocol: LoadProtocol) -> Result<ConnectOptions, Error> {
    let tls = (args.tls || args.ca.is_some()).then(|| ClientTls::new(address, args.ca.as_deref(), protocol));
    let known = || Environment.get(rows::RESP_PASSWORD.row.variable).filter(|password| !password.is_empty());
    let password = args.password.clone().or_else(known).map(Password);
    Ok(ConnectOptions { tls: tls.transpose()?, password })
}

fn resolve(address: &str) -> Result<SocketAddr, Error> {
    let bad = |source| Error::Address { address: address.to_owned(), source };
    let found = address.to_socket_addrs().map_err(bad)?.next();
    found.ok_or_else(|| bad(io::ErrorKind::NotFound.into()))
}

/// Says what is wrong and what to do about it.
fn complain(error: &Error, protocol: LoadProtocol, console: &mut Console<'_>) -> io::Result<Exit> {
    let is_resp = protocol == LoadProtocol::Resp;
    let (help, exit) = match error {
        Error::Address { .. } => ("write HOST:PORT, such as 127.0.0.1:8081", Exit::BadConfiguration),
        Error::Connect { .. } if is_resp => {
            ("start a server with: tollgate serve --resp 127.0.0.1:6380", Exit::Failed)
        }
        Error::Connect { .. } => ("start a server with: tollgate serve", Exit::Failed),
        Error::Tls { .. } => (
            "name who signed its certificate with --ca FILE, ask it by a name that the certificate has, \
             or leave --tls out if it has none",
            Exit::Failed,
        ),
        Error::Silent { .. } => ("check that this is the address of a server, and its log", Exit::Failed),
        Error::Protocol { .. } => (
            "the ports are 8081 for --grpc, 8080 for --http and what 'serve --resp' says for --resp; add --tls or --ca if it speaks TLS",
            Exit::Failed,
        ),
        Error::Refused { .. } if is_resp => ("check --password, and the log of the server", Exit::Failed),
        Error::Refused { .. } => ("the log of the server may say why", Exit::Failed),
        Error::Lost { .. } => ("the log of the server may say why", Exit::Failed),
        Error::System { .. } | _ => ("", Exit::Failed),
    };
    console.complain(&error.to_string(), help)?;
    Ok(exit)
}

/// Draws on standard error, and only if that is a terminal.
fn bar(plan: &Plan) -> ProgressBar {
    let total = match plan.length {
        RunLength::Time(length) => milliseconds(plan.warm_up + length),
        RunLength::Count(count) => count,
    };
    let style = ProgressStyle::with_template("{msg} {bar:40} {percent}%");
    let bar = ProgressBar::new(total).with_message(format!("{} over {}", plan.address, plan.protocol()));
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn advance(bar: &ProgressBar, plan: &Plan, progress: Progress) {
    bar.set_position(match plan.length {
        RunLength::Time(_) => milliseconds(progress.elapsed),
        RunLength::Count(_) => progress.answered,
    });
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A number from 1 to a bound.
fn bounded(max: usize) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=u64::try_from(max).unwrap_or(u64::MAX))
}

/// The number of a process. To the kernel 0 is whoever asks, which here is the load and not the server.
fn process(text: &str) -> Result<u32, String> {
    match text.parse::<i32>() {
        Ok(pid) if pid > 0 => Ok(pid.unsigned_abs()),
        Ok(_) | Err(_) => Err("write the number of a process, such as 4711; ps lists them".to_owned()),
    }
}

fn exponent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(exponent) if (0.0..=10.0).contains(&exponent) => Ok(exponent),
        Ok(_) | Err(_) => Err("write a number from 0 to 10, such as 1.0".to_owned()),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let bad = || "write a time such as 10s, 500ms or 2m, up to a day".to_owned();
    let span: SignedDuration = text.parse().map_err(|_| bad())?;
    Duration::try_from(span).ok().filter(|span| *span <= TIME_MAX).ok_or_else(bad)
}

fn descriptor(text: &str) -> Result<Pairs, String> {
    parse_descriptor(&plain(text)?)
}

/// A text that goes into any protocol as it is.
fn plain(text: &str) -> Result<String, String> {
    match text.contains(char::is_control) {
        true => Err("write it without control characters".to_owned()),
        false => Ok(text.to_owned()),
    }
}
