//! Everything that can be set, checked: flags, environment and `tollgate.yaml`.
//!
//! The command line fills [`Flags`], the environment is a [`Strings`], a file
//! is a [`ConfigFile`]; [`Settings::resolve`] turns the three into [`Settings`],
//! which the rest of the server reads and nobody changes.
//!
//! Invariants: flags win over environment over file over defaults. All
//! mistakes are collected and told at once. A variable that cannot be honoured
//! is named in one warning. A secret is never shown by `Debug`.
//!
//! Deliberately not here: the rules themselves, and any use of a setting.

mod address;
pub mod definitions;
mod error;
mod file;
mod go;
mod node;
mod reader;
mod resolve;
mod secret;
mod strings;

use std::path::PathBuf;
use std::time::Duration;

use tollgate_limiter::Capacity;
use tollgate_metrics::StatsdConfig;
use tollgate_redis::RedisConfig;

pub use address::{Address, AddressError, GrpcAddress};
pub use error::{Mistake, SettingsError, Warning};
pub use file::{ConfigFile, FILE_NAME};
pub use secret::Secret;
pub use strings::{Environment, Strings};
pub use tollgate_http::{RateLimitFields, ResponseSettings};

/// What the command line says; everything is optional.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--rules`, as often as given: files and folders.
    pub rules: Vec<PathBuf>,
    /// `--store`.
    pub store: Option<String>,
    /// `--data`.
    pub data: Option<PathBuf>,
    /// `--config`: where `tollgate.yaml` is.
    pub config: Option<PathBuf>,
    /// `--http`.
    pub http: Option<String>,
    /// `--grpc`.
    pub grpc: Option<String>,
    /// `--resp`.
    pub resp: Option<String>,
    /// `--admin`.
    pub admin: Option<String>,
    /// `--gateway`.
    pub gateway: Option<String>,
    /// `--upstream`.
    pub upstream: Option<String>,
}

/// What the server is to do.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where `/json`, `/healthcheck` and the like are served.
    pub http: Address,
    /// TLS there, if asked for.
    pub http_tls: Option<ServerTls>,
    /// The gRPC listener.
    pub grpc: Grpc,
    /// The RESP listener; none if not asked for.
    pub resp: Option<Resp>,
    /// The admin listener.
    pub admin: Admin,
    /// What is logged, and how.
    pub log: Log,
    /// Where rules come from.
    pub rules: Rules,
    /// How requests are answered.
    pub answers: Answers,
    /// Where counters live.
    pub store: Store,
    /// The folder that counters in memory are saved in; none if they are not.
    pub snapshots: Option<PathBuf>,
    /// Healthy only while the store answers.
    pub health_needs_store: bool,
    /// Where metrics go besides the admin listener.
    pub metrics: Metrics,
    /// What is remembered; none if nothing is.
    pub history: Option<History>,
    /// Traces by OTLP; none if not asked for.
    pub tracing: Option<Tracing>,
    /// How an HTTP request becomes descriptors; none if it is not said.
    pub mapping: Option<HttpMapping>,
    /// How proxies are answered that ask before they forward.
    pub forward_auth: ForwardAuth,
}

/// Where counters live.
#[derive(Debug, Clone)]
pub enum Store {
    /// In the memory of this process, so many.
    Memory(Capacity),
    /// On servers that several nodes share.
    Redis(Box<RedisConfig>),
}

/// How an HTTP request becomes descriptors.
#[derive(Debug, Clone)]
pub struct HttpMapping {
    /// Everything but the keys, which are read when the server starts.
    pub mapping: tollgate_http::Mapping,
    /// Which tokens are valid; none if none is.
    pub tokens: Option<tollgate_http::request::token::TokenSpec>,
}

/// How proxies are answered that ask before they forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardAuth {
    /// The status of a refusal: 429, or 403 where the proxy passes on no other.
    pub deny_status: u16,
    /// A request that is to wait is held so long at most.
    pub max_hold: Duration,
    /// Where the request that is asked about is described.
    pub request_from: RequestFrom,
}

/// Where the request that a proxy asks about is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFrom {
    /// Whichever of the headers below is there, or else in the question itself.
    Auto,
    /// In `X-Forwarded-Method`, `-Uri` and `-Host`, as Traefik and Caddy do.
    XForwarded,
    /// In `X-Original-Method` and `-URI` or `-URL`, as is usual with nginx.
    XOriginal,
    /// In the question itself, whose path follows `/v1/authz`, as Envoy does.
    Itself,
}

/// The gRPC listener.
#[derive(Debug, Clone)]
pub struct Grpc {
    /// A port or a Unix socket.
    pub address: GrpcAddress,
    /// A connection older than this, give or take 10 %, is asked to go; none if it may stay.
    pub max_connection_age: Option<Duration>,
    /// So long may its calls go on after that; none if they may take any time.
    pub max_connection_age_grace: Option<Duration>,
    /// TLS, if asked for.
    pub tls: Option<ServerTls>,
}

/// A certificate of ours, and which of theirs we accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// The certificate chain, in PEM.
    pub cert: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// Callers must show a certificate signed by one of these, if set.
    pub client_ca: Option<PathBuf>,
    /// And it must be for this DNS name, if set.
    pub client_san: Option<String>,
}

/// The RESP listener.
#[derive(Debug, Clone)]
pub struct Resp {
    /// Where it listens.
    pub address: Address,
    /// What callers must show, if set.
    pub password: Option<Secret>,
    /// TLS, if asked for.
    pub tls: Option<ServerTls>,
}

/// The admin listener.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Where it listens; elsewhere than on loopback only with a token.
    pub address: Address,
    /// What callers must show, if set.
    pub token: Option<Secret>,
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// From which level on.
    pub level: LogLevel,
    /// In which form.
    pub format: LogFormat,
}

/// From which level on something is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// What failed.
    Error,
    /// What deserves a look.
    Warn,
    /// What happened.
    Info,
    /// What went on inside.
    Debug,
    /// Everything.
    Trace,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Where rules come from, and what is done without them.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Where they come from.
    pub origin: Origin,
    /// The same domain in two files is one domain.
    pub merge_domains: bool,
    /// Serve before the first rules are there.
    pub force_start: bool,
    /// Healthy only with at least one domain.
    pub healthy_needs_domain: bool,
    /// A limit in the style of Envoy does not count what it or another limit rejects.
    pub stop_counting_rejected: bool,
}

/// Where rules come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Files and folders that were named.
    Paths(Vec<PathBuf>),
    /// The folder layout of envoyproxy/ratelimit.
    Runtime(RuntimeLayout),
    /// An xDS server.
    Xds(Xds),
    /// Nothing was said: `./rules` if it exists, else the built-in example.
    Default,
}

/// The folder layout of envoyproxy/ratelimit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeLayout {
    /// `RUNTIME_ROOT`, often a symbolic link that is swapped.
    pub root: PathBuf,
    /// `RUNTIME_SUBDIRECTORY`, below the root.
    pub subdirectory: String,
    /// `RUNTIME_APPDIRECTORY`, below the subdirectory.
    pub app_directory: String,
    /// Files and folders that begin with a dot are left out.
    pub ignore_dot_files: bool,
    /// The root is read and watched as a whole, and only the app directory's files used.
    pub watch_root: bool,
}

/// How to reach an xDS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xds {
    /// `host:port`.
    pub server: String,
    /// Who we say we are.
    pub node_id: String,
    /// What else we say about us.
    pub node_metadata: Vec<(String, String)>,
    /// Extra gRPC headers; they may hold credentials.
    pub headers: Vec<(String, Secret)>,
    /// TLS, if asked for.
    pub tls: Option<ClientTls>,
    /// The shortest wait between two attempts to connect.
    pub retry_interval: Duration,
    /// The waits between attempts.
    pub backoff: Backoff,
    /// The largest message that is accepted, in bytes.
    pub max_message_bytes: usize,
}

/// Which certificates are accepted, and which is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTls {
    /// Accept what is signed by one of these; the system's roots if not set.
    pub ca: Option<PathBuf>,
    /// Certificate and key to show, if set.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name to expect instead of the host's, if set.
    pub server_name: Option<String>,
}

/// Waits that double.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    /// The first.
    pub initial: Duration,
    /// The longest.
    pub max: Duration,
    /// How many thousandths of a wait are left to chance.
    pub random_permille: u32,
}

/// How requests are answered.
#[derive(Debug, Clone)]
pub struct Answers {
    /// Every request is told that it may pass.
    pub shadow: bool,
    /// Every rule is a quota.
    pub quota: bool,
    /// Replies carry dynamic metadata.
    pub dynamic_metadata: bool,
    /// Replies carry these headers; none if not asked for.
    pub headers: Option<HeaderNames>,
    /// From this part of a limit on a request counts as near it.
    pub near_limit_ratio: f32,
    /// How people are told about their limits.
    pub responses: ResponseSettings,
    /// What of it goes through Envoy.
    pub through_envoy: ThroughEnvoy,
}

/// What Envoy is asked to tell the caller, beyond what the reference tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThroughEnvoy {
    /// Nothing: replies are those of envoyproxy/ratelimit.
    Off,
    /// The headers.
    Headers,
    /// The headers, and the body of a refusal.
    All,
}

/// The names of the headers that replies carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderNames {
    /// How many are allowed.
    pub limit: String,
    /// How many are left.
    pub remaining: String,
    /// In how many seconds it starts again.
    pub reset: String,
}

/// What is remembered, and where.
#[derive(Debug, Clone)]
pub struct History {
    /// The folder, unless the store is Redis.
    pub folder: PathBuf,
    /// How the names of keys are kept.
    pub keys: KeyNames,
    /// What hashed names are mixed with; empty if nothing.
    pub salt: Secret,
    /// The route of a request is the value of its first entry with one of these keys.
    pub route_keys: Vec<String>,
    /// The templates of routes.
    pub templates: tollgate_http::PathTemplates,
    /// How many names this process tracks.
    pub caps: tollgate_history::Caps,
    /// How many series are kept.
    pub bounds: tollgate_history::Bounds,
}

/// How the names of keys are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyNames {
    /// As they are.
    Clear,
    /// So that the same key has the same name, and nobody can read it.
    Hashed,
    /// Not at all.
    Off,
}

impl KeyNames {
    /// The word in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Hashed => "hashed",
            Self::Off => "off",
        }
    }
}

/// Where metrics go besides the admin listener.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// StatsD or DogStatsD, if asked for.
    pub statsd: Option<StatsdConfig>,
    /// A Prometheus listener of its own, if asked for.
    pub prometheus: Option<Prometheus>,
    /// A mapping in the form of statsd_exporter; the file may be absent.
    pub mapper: Option<PathBuf>,
    /// Response times in milliseconds instead of seconds.
    pub response_time_in_ms: bool,
}

/// A Prometheus listener of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prometheus {
    /// Where it listens.
    pub address: Address,
    /// The path of the page.
    pub path: String,
}

/// Traces by OTLP.
#[derive(Debug, Clone)]
pub struct Tracing {
    /// How they travel.
    pub protocol: OtlpProtocol,
    /// Where to; none for the protocol's default on localhost.
    pub endpoint: Option<String>,
    /// Whether the endpoint is for traces alone and taken as written; `/v1/traces` is added otherwise.
    pub endpoint_is_exact: bool,
    /// Headers of every export; they may hold credentials.
    pub headers: Vec<(String, Secret)>,
    /// How long an export may take.
    pub timeout: Duration,
    /// Certificates to accept, if set.
    pub ca: Option<PathBuf>,
    /// `service.name`.
    pub service_name: String,
    /// `service.namespace`; empty if none.
    pub service_namespace: String,
    /// `service.instance.id`; none for a random one.
    pub service_instance_id: Option<String>,
    /// Which part of requests is traced, from 0 to 1.
    pub sampling_rate: f64,
}

/// How traces travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// Protobuf over HTTP.
    Http,
    /// gRPC.
    Grpc,
}
