//! What the values of settings may be: a word becomes a value of its type, or says what to write.
//!
//! The table in [`crate::rows`] names one of these for each setting, or one of `go_syntax` and
//! `raw_value`. An error says what is wrong and what to write instead.
//!
//! Deliberately not here: what follows from several settings together.

use std::fs;
use std::str::FromStr;
use std::time::Duration;

use tollgate_core::Secret;
use tollgate_gateway::{AccessLogFormat, UpstreamUrl, UpstreamUrlError};
use tollgate_http::{AddressHeader, ClientAddress, PathTemplates, RateLimitFields};
use tollgate_metrics::StatsdProtocol;
use tollgate_redis::config::{Endpoint, JITTER_DEFAULT_S, Layout, SocketType};

use crate::address::ListenAddress;
use crate::go_syntax::{choice, duration, number, ratio};
use crate::raw_value::RawValue;

/// Half of what a proxy waits for an answer by default, at most, and less than
/// a server that is to stop waits for its callers.
const HOLD_MAX: Duration = Duration::from_secs(20);
/// Each is compared with every entry of every request.
const ROUTE_KEYS_MAX: usize = 16;
/// Who is told to come back later than this after the time has given up.
const JITTER_MAX: Duration = Duration::from_secs(3_600);
/// Files of certificates are no longer than this.
const PEM_MAX: u64 = 1024 * 1024;

/// From which level on something is logged, the quietest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

// The words of settings that are one of a few; the schema for editors has them, too.
pub(crate) const LOG_LEVELS: [(&str, LogLevel); 5] = [
    ("trace", LogLevel::Trace),
    ("debug", LogLevel::Debug),
    ("info", LogLevel::Info),
    ("warn", LogLevel::Warn),
    ("error", LogLevel::Error),
];
/// Levels of the reference that we do not have.
pub(crate) const OTHER_LOG_LEVELS: [(&str, LogLevel); 3] =
    [("panic", LogLevel::Error), ("fatal", LogLevel::Error), ("warning", LogLevel::Warn)];
pub(crate) const LOG_FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];
pub(crate) const REQUESTS_FROM: [(&str, RequestFrom); 4] = [
    ("auto", RequestFrom::Auto),
    ("x-forwarded", RequestFrom::XForwarded),
    ("x-original", RequestFrom::XOriginal),
    ("itself", RequestFrom::Itself),
];
pub(crate) const KEY_NAMES: [(&str, KeyNames); 3] = [
    (KeyNames::Clear.name(), KeyNames::Clear),
    (KeyNames::Hashed.name(), KeyNames::Hashed),
    (KeyNames::Off.name(), KeyNames::Off),
];
pub(crate) const STATSD_PROTOCOLS: [(&str, StatsdProtocol); 2] =
    [("tcp", StatsdProtocol::Tcp), ("udp", StatsdProtocol::Udp)];
pub(crate) const RATELIMIT_FIELDS: [(&str, RateLimitFields); 2] =
    [("draft-11", RateLimitFields::Draft11), ("off", RateLimitFields::Off)];
pub(crate) const ENVOY_PASS_THROUGHS: [(&str, EnvoyPassThrough); 3] =
    [("off", EnvoyPassThrough::Off), ("headers", EnvoyPassThrough::Headers), ("all", EnvoyPassThrough::All)];
pub(crate) const CONFIG_TYPES: [(&str, ConfigType); 2] =
    [("FILE", ConfigType::File), ("GRPC_XDS_SOTW", ConfigType::Xds)];
pub(crate) const ACCESS_LOG_FORMATS: [(&str, AccessLogFormat); 2] =
    [("combined", AccessLogFormat::Combined), ("json", AccessLogFormat::Json)];
pub(crate) const LAYOUTS: [(&str, Layout); 2] =
    [("tollgate", Layout::Tollgate), ("envoy", Layout::Envoy { jitter_max_s: JITTER_DEFAULT_S })];

pub(crate) fn log_level(text: &str) -> Result<LogLevel, String> {
    if let Ok(level) = choice(text, "", &OTHER_LOG_LEVELS) {
        return Ok(level);
    }
    choice(text, "is not a level", &LOG_LEVELS)
}

pub(crate) fn log_format(text: &str) -> Result<LogFormat, String> {
    choice(text, "is not a form of logs", &LOG_FORMATS)
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

pub(crate) fn deny_status(text: &str) -> Result<u16, String> {
    match text {
        "429" => Ok(429),
        "403" => Ok(403),
        _ => Err(format!("'{text}' is no status for a denial; write 429, or 403 for nginx")),
    }
}

pub(crate) fn max_hold(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        hold if hold > HOLD_MAX => Err(format!("'{text}' is too long to hold a request; write 20s or less")),
        hold => Ok(hold),
    }
}

pub(crate) fn request_from(text: &str) -> Result<RequestFrom, String> {
    choice(text, "is unknown", &REQUESTS_FROM)
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

pub(crate) fn key_names(text: &str) -> Result<KeyNames, String> {
    choice(text, "is not a way to keep keys", &KEY_NAMES)
}

pub(crate) fn route_keys(value: &RawValue) -> Result<Vec<String>, String> {
    match value.list()? {
        keys if keys.len() > ROUTE_KEYS_MAX => {
            Err(format!("has {} keys; write at most {ROUTE_KEYS_MAX}", keys.len()))
        }
        keys => Ok(keys),
    }
}

pub(crate) fn templates(value: &RawValue) -> Result<PathTemplates, String> {
    PathTemplates::new(&value.list()?).map_err(|error| format!("{error}; write paths such as /users/{{id}}"))
}

pub(crate) fn url_path(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err(format!("'{text}' is not a path; write one that begins with /, such as /metrics"))
    }
}

pub(crate) fn statsd_protocol(text: &str) -> Result<StatsdProtocol, String> {
    choice(text, "is not a protocol for StatsD", &STATSD_PROTOCOLS)
}

pub(crate) fn flush_interval(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("0 would send all the time; write 1s or more".to_owned()),
        interval => Ok(interval),
    }
}

/// What Envoy is asked to tell the caller, beyond what the reference tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvoyPassThrough {
    /// Nothing: replies are those of envoyproxy/ratelimit.
    Off,
    /// The headers.
    Headers,
    /// The headers, and the body of a denial.
    All,
}

#[expect(clippy::as_conversions, reason = "the reference compares in 32 bits, and so must we")]
pub(crate) fn near_limit_ratio(text: &str) -> Result<f32, String> {
    ratio(text).map(|ratio| ratio as f32)
}

pub(crate) fn header_name(text: &str) -> Result<String, String> {
    if is_header_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("'{text}' is not a header name; write letters, digits and dashes"))
    }
}

/// A token in the words of HTTP.
pub(crate) fn is_header_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

pub(crate) fn ratelimit_fields(text: &str) -> Result<RateLimitFields, String> {
    choice(text, "is not a form of these headers", &RATELIMIT_FIELDS)
}

pub(crate) fn envoy_pass_through(text: &str) -> Result<EnvoyPassThrough, String> {
    choice(text, "is not what can go through Envoy", &ENVOY_PASS_THROUGHS)
}

pub(crate) fn retry_after_jitter(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        span if span > JITTER_MAX => Err(format!("'{text}' is too long; write at most 1h")),
        span => Ok(span),
    }
}

/// What `CONFIG_TYPE` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigType {
    /// Files.
    File,
    /// The state of the world by xDS.
    Xds,
}

pub(crate) fn config_type(text: &str) -> Result<ConfigType, String> {
    choice(text, "is no source of rules", &CONFIG_TYPES)
}

pub(crate) fn xds_server(text: &str) -> Result<String, String> {
    let bare = ["http://", "https://"].into_iter().find_map(|scheme| text.strip_prefix(scheme));
    match bare.unwrap_or(text).parse::<ListenAddress>() {
        Ok(address) if !address.host.is_empty() => Ok(address.to_string()),
        _ => Err(format!("'{text}' is no server; write HOST:PORT, such as envoy-gateway:18001")),
    }
}

/// How a line of the access log looks.
pub(crate) fn access_log_format(text: &str) -> Result<AccessLogFormat, String> {
    choice(text, "is not a format of access logs", &ACCESS_LOG_FORMATS)
}

/// Where the gateway forwards to.
pub(crate) fn upstream(text: &str) -> Result<UpstreamUrl, String> {
    text.parse().map_err(|error: UpstreamUrlError| error.to_string())
}

pub(crate) fn level_count(text: &str) -> Result<u32, String> {
    match number(text)? {
        0 => Err("0 would let nobody in; write 1 or more, or leave it out".to_owned()),
        count => Ok(count),
    }
}

/// A bound of 0 would let nothing in.
pub(crate) fn at_least_one<T: FromStr + From<u8> + PartialEq>(text: &str) -> Result<T, String> {
    match number::<T>(text)? {
        none if none == T::from(0) => Err("0 would let nothing in; write 1 or more".to_owned()),
        count => Ok(count),
    }
}

pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("no time at all is too short; write such as 1h".to_owned()),
        time => Ok(time),
    }
}

/// Names of headers, in lower case.
pub(crate) fn header_names(value: &RawValue) -> Result<Vec<String>, String> {
    value.list()?.iter().map(|name| header_name(name).map(|name| name.to_ascii_lowercase())).collect()
}

/// A listener whose connections can be limited by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedListener {
    /// The gateway.
    Gateway,
    /// HTTP.
    Http,
    /// gRPC.
    Grpc,
    /// RESP.
    Resp,
}

pub(crate) fn limited_listeners(value: &RawValue) -> Result<Vec<LimitedListener>, String> {
    let words = [
        ("gateway", LimitedListener::Gateway),
        ("http", LimitedListener::Http),
        ("grpc", LimitedListener::Grpc),
        ("resp", LimitedListener::Resp),
    ];
    value.list()?.iter().map(|word| choice(word, "is not a listener", &words)).collect()
}

/// Networks, of which only whether an address is in one of them matters.
pub(crate) fn networks(value: &RawValue) -> Result<ClientAddress, String> {
    ClientAddress::new(&value.list()?, AddressHeader::default()).map_err(|error| error.to_string())
}

/// The value of a header may be a secret, and is not repeated.
pub(crate) fn xds_headers(value: &RawValue) -> Result<Vec<(String, Secret)>, String> {
    let header = |(name, value): (String, String)| {
        let is_name = is_header_name(&name) && !name.ends_with("-bin");
        if is_name && value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            Ok((name, Secret::new(value)))
        } else {
            Err(format!("header '{name}' cannot be sent; write a header of plain text"))
        }
    };
    value.pairs(&['=', ':'])?.into_iter().map(header).collect()
}

/// A store as we write it; none for memory.
pub(crate) fn redis_endpoint(text: &str) -> Result<Option<Endpoint>, String> {
    if text == "memory" {
        return Ok(None);
    }
    match text.parse() {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(error) => Err(format!("{error}")),
    }
}

pub(crate) fn memory_keys(text: &str) -> Result<usize, String> {
    match number(text)? {
        0 => Err("0 keys would hold nothing; write 1 or more".to_owned()),
        keys => Ok(keys),
    }
}

pub(crate) fn socket_type(text: &str) -> Result<SocketType, String> {
    choice(text, "is not a type of sockets", &[("tcp", SocketType::Tcp), ("unix", SocketType::Unix)])
}

pub(crate) fn redis_timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("no time at all is too short; write such as 20ms".to_owned()),
        timeout => Ok(timeout),
    }
}

pub(crate) fn redis_layout(text: &str) -> Result<Layout, String> {
    choice(text, "is not a layout", &LAYOUTS)
}

/// The text of a file of certificates or keys.
pub(crate) fn pem(path: &str) -> Result<String, String> {
    let wrong = |why: String| format!("cannot read '{path}': {why}; write the path of a PEM file");
    let length = fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if length > PEM_MAX {
        return Err(wrong(format!("its {length} bytes are too many for a certificate")));
    }
    fs::read_to_string(path).map_err(|error| wrong(error.to_string()))
}

/// How traces travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// Protobuf over HTTP.
    Http,
    /// gRPC.
    Grpc,
}

pub(crate) fn otlp_protocol(text: &str) -> Result<OtlpProtocol, String> {
    choice(
        text,
        "is not a protocol for traces",
        &[("http", OtlpProtocol::Http), ("grpc", OtlpProtocol::Grpc)],
    )
}
