//! The table of all settings, one row each.
//!
//! A row has the names of a setting, its type, its default and how it is read;
//! the comment above it is its help. `docs/guide/settings.md`, `serve --help`
//! and the flags of `serve` are made from here.
//!
//! Deliberately not here: what follows from several settings together, which
//! is in the module of what they are about.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_core::Secret;
use tollgate_gateway::{AccessLogFormat, UpstreamUrl};
use tollgate_http::{PathTemplates, RateLimitFields};
use tollgate_metrics::StatsdProtocol;
use tollgate_redis::config::{Endpoint, Layout, SocketType};
use tollgate_yaml::YamlNode;

use crate::address::{GrpcAddress, ListenAddress, host};
use crate::go_syntax::{duration, number, permille, port, some_time, truth};
use crate::raw_value::{RawValue, colon_pairs, equals_pairs, path, paths, secret, text};
use crate::row::SettingParser::{Value, Word};
use crate::row::{OptionalSetting, Setting, SettingRow, SettingSection, flag, key, switch, variable};
use crate::values::{self, ConfigType, EnvoyPassThrough, KeyNames, LogFormat, LogLevel, RequestFrom};

/// All settings, section by section.
pub const SECTIONS: &[SettingSection] = &[
    START,
    STORE_SECTION,
    LISTENERS,
    RESP,
    GATEWAY,
    LEVELS,
    DEFERRED,
    LOAD,
    GRPC_TLS,
    HTTP_TLS,
    RULE_FILES,
    RULES_BY_XDS,
    REPLIES,
    CALLER_INFO,
    FORWARD_AUTH,
    METRICS,
    HISTORY_SECTION,
    TRACES,
];

/// All settings.
pub fn all() -> impl Iterator<Item = &'static SettingRow> {
    SECTIONS.iter().flat_map(|section| section.rows)
}

/// The settings that are flags.
pub fn flags() -> impl Iterator<Item = &'static SettingRow> {
    all().filter(|row| !row.flag.is_empty())
}

/// Makes the constants of a section, and the section that lists all of them.
macro_rules! section {
    (
        $section:ident, $title:literal, $note:literal;
        $( $(#[doc = $help:literal])+ $name:ident: $setting:ty = $row:expr; )+
    ) => {
        $( $(#[doc = $help])+ pub const $name: $setting = $row.help(concat!($($help),+)).of_type(stringify!($setting)); )+

        pub(super) const $section: SettingSection =
            SettingSection { title: $title, note: $note, rows: &[$($name.row),+] };
    };
}

mod deferred;
mod levels;
mod traces;

pub use deferred::*;
pub use levels::*;
pub use traces::*;

section! {
    START, "Start", "";

    /// The file with settings.
    CONFIG_FILE: OptionalSetting<PathBuf> =
        flag("--config", "FILE").otherwise("./tollgate.yaml if it exists", Value(path));
    /// `trace`, `debug`, `info`, `warn` or `error`; `fatal` and `panic` mean `error`.
    LOG_LEVEL: Setting<LogLevel> = variable("LOG_LEVEL")
        .flag("--log-level", "LEVEL")
        .key("log.level").default("info", Word(values::log_level));
    /// Log only warnings and errors, whatever the level is.
    QUIET: Setting<bool> = switch("--quiet").default("false", Word(truth));
    /// `text`, or `json` with one object a line.
    LOG_FORMAT: Setting<LogFormat> = variable("LOG_FORMAT")
        .key("log.format").default("text", Word(values::log_format));
}

section! {
    STORE_SECTION, "Store",
    "Counters live where `--store` says, or else on the Redis of `REDIS_URL`, `REDIS_SOCKET_TYPE` or `REDIS_TYPE`, or else where `store` of the file says, or else in memory. A password is better kept in `REDIS_AUTH` than in an address. `docs/guide/redis.md` says what happens when Redis is away.";

    /// `memory`, `redis://[user:password@]host:port[/db]`, `redis+unix:///path`,
    /// `redis+cluster://host:port,…` or `redis+sentinel://host:port,…/master`; `rediss…` for TLS.
    STORE: Setting<Option<Endpoint>> = flag("--store", "STORE")
        .key("store").default("memory", Word(values::redis_endpoint));
    /// The most keys that the memory store holds; each takes 27 to 41 bytes.
    MEMORY_KEYS: Setting<usize> = key("memory.keys").default("10000000", Word(values::memory_keys));
    /// The most bytes that logs and sub-windows take besides.
    MEMORY_LOG_BYTES: Setting<usize> = key("memory.log_bytes").default("1073741824", Word(number));
    /// Save the counters of the memory store in the folder of `--data` every ten seconds and at the
    /// end, so that they survive a restart.
    SNAPSHOTS: Setting<bool> =
        variable("TOLLGATE_SNAPSHOTS").key("memory.snapshots").default("true", Word(truth));
    /// `redis`; `memcache` is not used, and a warning says so.
    BACKEND_TYPE: Setting<String> = variable("BACKEND_TYPE").default("redis", Value(text));
    /// A path, `host:port` or `redis://…`; several for a cluster; `master,host:port,…` for sentinels.
    REDIS_URL: Setting<String> = variable("REDIS_URL")
        .default("/var/run/nutcracker/ratelimit.sock", Value(text));
    /// `unix` or `tcp`; unless set, a path is `unix` and everything else `tcp`.
    REDIS_SOCKET_TYPE: OptionalSetting<SocketType> =
        variable("REDIS_SOCKET_TYPE").optional(Word(values::socket_type));
    /// `SINGLE`, `CLUSTER` or `SENTINEL`.
    REDIS_TYPE: Setting<String> = variable("REDIS_TYPE").default("SINGLE", Value(text));
    /// `password` or `user:password`.
    REDIS_AUTH: OptionalSetting<Secret> = variable("REDIS_AUTH").optional(Value(secret));
    /// The same for the sentinels.
    REDIS_SENTINEL_AUTH: OptionalSetting<Secret> = variable("REDIS_SENTINEL_AUTH").optional(Value(secret));
    /// No request waits longer for the store; envoyproxy/ratelimit waits 10 s.
    REDIS_TIMEOUT: Setting<Duration> =
        variable("REDIS_TIMEOUT").key("redis.timeout").default("20ms", Word(values::redis_timeout));
    /// Speak TLS; an address with `rediss` does, too.
    REDIS_TLS: Setting<bool> = variable("REDIS_TLS").default("false", Word(truth));
    /// Authorities to accept besides the system's, in PEM.
    REDIS_TLS_CACERT: OptionalSetting<String> =
        variable("REDIS_TLS_CACERT").key("redis.tls.ca").optional(Word(values::pem));
    /// The certificate to show, in PEM.
    REDIS_TLS_CLIENT_CERT: OptionalSetting<String> =
        variable("REDIS_TLS_CLIENT_CERT").key("redis.tls.cert").optional(Word(values::pem));
    /// Its key, in PEM.
    REDIS_TLS_CLIENT_KEY: OptionalSetting<String> =
        variable("REDIS_TLS_CLIENT_KEY").key("redis.tls.key").optional(Word(values::pem));
    /// Accept a certificate for any name; the chain is verified all the same.
    REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: Setting<bool> = variable("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION")
        .key("redis.tls.skip_hostname").default("false", Word(truth));
    /// Stands before every key, so that several services can share a Redis.
    CACHE_KEY_PREFIX: Setting<String> = variable("CACHE_KEY_PREFIX")
        .key("redis.key_prefix").default("", Value(text));
    /// `envoy` keeps limits that envoyproxy/ratelimit knows exactly as it does, so that both can share
    /// a Redis while one replaces the other.
    REDIS_LAYOUT: Setting<Layout> =
        variable("TOLLGATE_REDIS_LAYOUT").key("redis.layout").default("tollgate", Word(values::redis_layout));
    /// With the layout `envoy`, keys live longer by a random time of at most this.
    EXPIRATION_JITTER_MAX_SECONDS: Setting<u32> = variable("EXPIRATION_JITTER_MAX_SECONDS")
        .key("redis.expiration_jitter_s").default("300", Word(number));
    /// How much memory remembers who is denied until when, so that the store is not asked about them
    /// before; 0 for none.
    LOCAL_CACHE_SIZE_IN_BYTES: Setting<usize> =
        variable("LOCAL_CACHE_SIZE_IN_BYTES").key("redis.denial_bytes").default("0", Word(number));
    /// Be healthy only while the store answers; otherwise a node goes on without it.
    REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: Setting<bool> = variable("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION")
        .key("redis.health_needs_store").default("false", Word(truth));
    /// Another Redis for limits by the second, written as for `store`.
    REDIS_PER_SECOND: OptionalSetting<Option<Endpoint>> = key("redis.per_second")
        .optional(Word(values::redis_endpoint));
    /// Keep limits by the second on another Redis.
    REDIS_PERSECOND: Setting<bool> = variable("REDIS_PERSECOND").default("false", Word(truth));
    /// Where it is, as `REDIS_URL`.
    REDIS_PERSECOND_URL: Setting<String> =
        variable("REDIS_PERSECOND_URL").default("/var/run/nutcracker/ratelimitpersecond.sock", Value(text));
    /// As `REDIS_SOCKET_TYPE`.
    REDIS_PERSECOND_SOCKET_TYPE: OptionalSetting<SocketType> =
        variable("REDIS_PERSECOND_SOCKET_TYPE").optional(Word(values::socket_type));
    /// As `REDIS_TYPE`.
    REDIS_PERSECOND_TYPE: Setting<String> = variable("REDIS_PERSECOND_TYPE").default("SINGLE", Value(text));
    /// As `REDIS_AUTH`.
    REDIS_PERSECOND_AUTH: OptionalSetting<Secret> = variable("REDIS_PERSECOND_AUTH").optional(Value(secret));
    /// As `REDIS_SENTINEL_AUTH`.
    REDIS_PERSECOND_SENTINEL_AUTH: OptionalSetting<Secret> =
        variable("REDIS_PERSECOND_SENTINEL_AUTH").optional(Value(secret));
    /// As `REDIS_TIMEOUT`.
    REDIS_PERSECOND_TIMEOUT: Setting<Duration> =
        variable("REDIS_PERSECOND_TIMEOUT").default("20ms", Word(values::redis_timeout));
    /// As `REDIS_TLS`, with the same certificates.
    REDIS_PERSECOND_TLS: Setting<bool> = variable("REDIS_PERSECOND_TLS").default("false", Word(truth));
}

section! {
    LISTENERS, "Listeners",
    "An address is `HOST:PORT`; an IPv6 host stands in brackets, and no host means all addresses of the machine. HOST and PORT of the environment change their part of the address.";

    /// Where `/json`, `/healthcheck` and `/v1` are served.
    HTTP_ADDRESS: Setting<ListenAddress> =
        flag("--http", "ADDRESS").key("listen.http").default("0.0.0.0:8080", Word(ListenAddress::parse));
    /// The host of the HTTP listener; `::` for both families.
    HOST: Setting<String> = variable("HOST").default("0.0.0.0", Word(host));
    /// The port of the HTTP listener.
    PORT: Setting<u16> = variable("PORT").default("8080", Word(port));
    /// Where Envoy asks; `unix:PATH` for a Unix socket.
    GRPC_ADDRESS: Setting<GrpcAddress> =
        flag("--grpc", "ADDRESS").key("listen.grpc").default("0.0.0.0:8081", Word(GrpcAddress::parse));
    /// The host of the gRPC listener.
    GRPC_HOST: Setting<String> = variable("GRPC_HOST").default("0.0.0.0", Word(host));
    /// The port of the gRPC listener.
    GRPC_PORT: Setting<u16> = variable("GRPC_PORT").default("8081", Word(port));
    /// A Unix socket instead of the port; a stale one is replaced.
    GRPC_UDS: OptionalSetting<PathBuf> = variable("GRPC_UDS").optional(Value(path));
    /// Where metrics and the admin pages are served; elsewhere than on loopback it needs a token.
    ADMIN_ADDRESS: Setting<ListenAddress> =
        flag("--admin", "ADDRESS").key("listen.admin").default("127.0.0.1:6070", Word(ListenAddress::parse));
    /// The host of the admin listener; without a token it stays on loopback, and a warning says so.
    DEBUG_HOST: Setting<String> = variable("DEBUG_HOST").default("127.0.0.1", Word(host));
    /// The port of the admin listener.
    DEBUG_PORT: Setting<u16> = variable("DEBUG_PORT").default("6070", Word(port));
    /// What callers of the admin listener must show.
    ADMIN_TOKEN: OptionalSetting<Secret> = variable("TOLLGATE_ADMIN_TOKEN").optional(Value(secret));
    /// Names that browsers call the admin listener by, besides `localhost` and addresses; others are refused.
    ADMIN_HOSTS: Setting<Vec<String>> =
        variable("TOLLGATE_ADMIN_HOSTS").key("listen.admin_hosts").default("", Value(RawValue::list));
    /// A gRPC connection older than this, ±10 %, is asked to go; 0 for never.
    GRPC_MAX_CONNECTION_AGE: Setting<Duration> =
        variable("GRPC_MAX_CONNECTION_AGE").key("connections.max_age").default("24h", Word(duration));
    /// How long its calls may go on after that; 0 for any time.
    GRPC_MAX_CONNECTION_AGE_GRACE: Setting<Duration> = variable("GRPC_MAX_CONNECTION_AGE_GRACE")
        .key("connections.max_age_grace").default("1h", Word(duration));
}

section! {
    RESP, "RESP", "Any Redis client can ask; `docs/guide/resp.md` says how.";

    /// Where `CL.THROTTLE`, `THROTTLE` and `TOLLGATE.CHECK` are served, such as `127.0.0.1:6380`;
    /// or `off`.
    RESP_ADDRESS: Setting<Option<ListenAddress>> = variable("TOLLGATE_RESP")
        .flag("--resp", "ADDRESS")
        .key("listen.resp").default("off", Word(ListenAddress::parse_or_off));
    /// What callers must show with `AUTH`.
    RESP_PASSWORD: OptionalSetting<Secret> = variable("TOLLGATE_RESP_PASSWORD").optional(Value(secret));
    /// The certificate chain, in PEM; with it the listener speaks TLS.
    RESP_TLS_CERT: OptionalSetting<PathBuf> =
        variable("TOLLGATE_RESP_TLS_CERT").key("resp.tls.cert").optional(Value(path));
    /// Its key, in PEM.
    RESP_TLS_KEY: OptionalSetting<PathBuf> =
        variable("TOLLGATE_RESP_TLS_KEY").key("resp.tls.key").optional(Value(path));
    /// Callers must show a certificate signed by one of these.
    RESP_TLS_CLIENT_CA: OptionalSetting<PathBuf> =
        variable("TOLLGATE_RESP_TLS_CLIENT_CA").key("resp.tls.client_ca").optional(Value(path));
}

section! {
    GATEWAY, "Gateway",
    "A reverse proxy in front of an API: `docs/guide/gateway.md`. `mapping` of the file says what is counted.";

    /// Where clients connect, such as `0.0.0.0:8000`, with HTTP/1.1 or HTTP/2; or `off`.
    GATEWAY_ADDRESS: Setting<Option<ListenAddress>> = variable("TOLLGATE_GATEWAY")
        .flag("--gateway", "ADDRESS")
        .key("listen.gateway").default("off", Word(ListenAddress::parse_or_off));
    /// Where all requests go that may pass: `http://HOST:PORT`, `https://HOST:PORT`, or `h2c://HOST:PORT` for HTTP/2 without TLS. With several APIs write `gateway.routes` instead.
    UPSTREAM: OptionalSetting<UpstreamUrl> = variable("TOLLGATE_UPSTREAM")
        .flag("--upstream", "URL").key("gateway.upstream").reloaded().optional(Word(values::upstream));
    /// Groups of upstreams, by name: `shop: [http://HOST:PORT, http://HOST:PORT]`; with `health_check`, `eject`, `tls` and `host` where they are wanted.
    UPSTREAMS: OptionalSetting<YamlNode> = key("gateway.upstreams").reloaded().optional(Value(RawValue::node));
    /// Which requests go to which group, by host, path, method and headers; the first that fits is taken.
    ROUTES: OptionalSetting<YamlNode> = key("gateway.routes").reloaded().optional(Value(RawValue::node));
    /// A request that a limit delays is held for at most this long; one that would have to wait longer is denied.
    GATEWAY_MAX_WAIT: Setting<Duration> = key("gateway.max_wait").reloaded().default("30s", Word(duration));
    /// The upstream must accept a connection within this time.
    GATEWAY_CONNECT_TIMEOUT: Setting<Duration> = key("gateway.timeouts.connect")
        .reloaded().default("5s", Word(some_time));
    /// And begin to answer within this.
    GATEWAY_FIRST_BYTE_TIMEOUT: Setting<Duration> =
        key("gateway.timeouts.first_byte").reloaded().default("60s", Word(some_time));
    /// Whoever sends a body may pause for at most this long: a client then gets a 408, an answer is cut off. A client that does not take its answer has 60 s, whatever is set here.
    GATEWAY_IDLE_TIMEOUT: Setting<Duration> = key("gateway.timeouts.idle")
        .reloaded().default("60s", Word(some_time));
    /// From the moment at which a request may go to the upstream until the last byte of the answer is read from there, at most this long may pass, whoever is slow; `0s` for any time.
    GATEWAY_TOTAL_TIMEOUT: Setting<Duration> = key("gateway.timeouts.total")
        .reloaded().default("0s", Word(duration));
    /// A line for every request: `stdout`, or the path of a file, which may be renamed to rotate it.
    ACCESS_LOG: OptionalSetting<PathBuf> =
        variable("TOLLGATE_ACCESS_LOG").flag("--access-log", "PATH").key("gateway.access_log.path").optional(Value(path));
    /// How a line looks: `combined`, as Apache and nginx have it, or `json`, with rule, verdict, wait and times.
    ACCESS_LOG_FORMAT: Setting<AccessLogFormat> = variable("TOLLGATE_ACCESS_LOG_FORMAT")
        .key("gateway.access_log.format").default("combined", Word(values::access_log_format));
    /// The certificate chain, in PEM; with it the listener speaks TLS.
    GATEWAY_TLS_CERT: OptionalSetting<PathBuf> =
        variable("TOLLGATE_GATEWAY_TLS_CERT").key("gateway.tls.cert").optional(Value(path));
    /// Its key, in PEM.
    GATEWAY_TLS_KEY: OptionalSetting<PathBuf> =
        variable("TOLLGATE_GATEWAY_TLS_KEY").key("gateway.tls.key").optional(Value(path));
    /// Clients must show a certificate signed by one of these.
    GATEWAY_TLS_CLIENT_CA: OptionalSetting<PathBuf> =
        variable("TOLLGATE_GATEWAY_TLS_CLIENT_CA").key("gateway.tls.client_ca").optional(Value(path));
    /// And it must be for this DNS name.
    GATEWAY_TLS_CLIENT_SAN: OptionalSetting<String> =
        variable("TOLLGATE_GATEWAY_TLS_CLIENT_SAN").key("gateway.tls.client_san").optional(Value(text));
}

section! {
    LOAD, "Load", "How loaded the system is, which elastic limits go by; see `docs/guide/elastic.md`.";

    /// The machine is a source of load: the processors of the control group or of the machine, and how
    /// long work waits for them.
    LOAD_HOST: Setting<bool> = variable("TOLLGATE_LOAD_HOST").key("load.host").default("true", Word(truth));
}

section! {
    GRPC_TLS, "TLS of the gRPC listener",
    "Changed files are picked up. `GRPC_SERVER_TLS_CA_CERT`, which Envoy Gateway sets, has no effect, as in envoyproxy/ratelimit.";

    /// Speak TLS.
    GRPC_SERVER_USE_TLS: Setting<bool> =
        variable("GRPC_SERVER_USE_TLS").key("tls.enabled").default("false", Word(truth));
    /// The certificate chain, in PEM.
    GRPC_SERVER_TLS_CERT: OptionalSetting<PathBuf> =
        variable("GRPC_SERVER_TLS_CERT").key("tls.cert").optional(Value(path));
    /// Its key, in PEM.
    GRPC_SERVER_TLS_KEY: OptionalSetting<PathBuf> =
        variable("GRPC_SERVER_TLS_KEY").key("tls.key").optional(Value(path));
    /// Callers must show a certificate signed by one of these.
    GRPC_CLIENT_TLS_CACERT: OptionalSetting<PathBuf> =
        variable("GRPC_CLIENT_TLS_CACERT").key("tls.client_ca").optional(Value(path));
    /// And it must be for this DNS name.
    GRPC_CLIENT_TLS_SAN: OptionalSetting<String> =
        variable("GRPC_CLIENT_TLS_SAN").key("tls.client_san").optional(Value(text));
}

section! {
    HTTP_TLS, "TLS of the HTTP listener",
    "Changed files are picked up. Where certificates are demanded, health probes need one too; probe the gRPC listener or the bare port instead.";

    /// The certificate chain, in PEM; with it the listener speaks TLS.
    HTTP_TLS_CERT: OptionalSetting<PathBuf> =
        variable("TOLLGATE_HTTP_TLS_CERT").key("http.tls.cert").optional(Value(path));
    /// Its key, in PEM.
    HTTP_TLS_KEY: OptionalSetting<PathBuf> =
        variable("TOLLGATE_HTTP_TLS_KEY").key("http.tls.key").optional(Value(path));
    /// Callers must show a certificate signed by one of these.
    HTTP_TLS_CLIENT_CA: OptionalSetting<PathBuf> =
        variable("TOLLGATE_HTTP_TLS_CLIENT_CA").key("http.tls.client_ca").optional(Value(path));
    /// And it must be for this DNS name.
    HTTP_TLS_CLIENT_SAN: OptionalSetting<String> =
        variable("TOLLGATE_HTTP_TLS_CLIENT_SAN").key("http.tls.client_san").optional(Value(text));
}

section! {
    RULE_FILES, "Rules",
    "Rules come from `--rules`, or else from xDS if `CONFIG_TYPE` says so, or else from the folders of `RUNTIME_*` if one of them is set, or else from `rules` of the file, or else from `./rules`, or else from `/srv/runtime_data/current`, or else a built-in example is served.";

    /// Rule files and folders of them; the flag may be given several times.
    RULES: OptionalSetting<Vec<PathBuf>> =
        flag("--rules", "PATH").repeatable().key("rules").otherwise("./rules", Value(paths));
    /// `FILE` or `GRPC_XDS_SOTW`.
    CONFIG_TYPE: Setting<ConfigType> =
        variable("CONFIG_TYPE").key("rule_source").default("FILE", Word(values::config_type));
    /// Several files may be about one domain.
    MERGE_DOMAIN_CONFIG: Setting<bool> =
        variable("MERGE_DOMAIN_CONFIG").key("merge_domains").default("false", Word(truth));
    /// Be ready before the first rules are there.
    FORCE_START_WITHOUT_INITIAL_CONFIG: Setting<bool> =
        variable("FORCE_START_WITHOUT_INITIAL_CONFIG").key("force_start").default("false", Word(truth));
    /// Be healthy only with at least one domain.
    HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: Setting<bool> = variable("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED")
        .key("healthy_needs_domain").default("false", Word(truth));
    /// The root of the rule folders, perhaps a link that is swapped.
    RUNTIME_ROOT: Setting<PathBuf> = variable("RUNTIME_ROOT")
        .default("/srv/runtime_data/current", Value(path));
    /// The folder below the root.
    RUNTIME_SUBDIRECTORY: Setting<String> = variable("RUNTIME_SUBDIRECTORY").default("", Value(text));
    /// The folder below that, which holds the files.
    RUNTIME_APPDIRECTORY: Setting<String> = variable("RUNTIME_APPDIRECTORY").default("config", Value(text));
    /// Leave out what begins with a dot. What Kubernetes keeps beside a ConfigMap is always left out.
    RUNTIME_IGNOREDOTFILES: Setting<bool> = variable("RUNTIME_IGNOREDOTFILES").default("false", Word(truth));
    /// Read the root as a whole and use the files of the app directory. Changes are noticed either way.
    RUNTIME_WATCH_ROOT: Setting<bool> = variable("RUNTIME_WATCH_ROOT").default("true", Word(truth));
}

section! {
    RULES_BY_XDS, "Rules by xDS", "";

    /// The server, `HOST:PORT`.
    CONFIG_GRPC_XDS_SERVER_URL: Setting<String> = variable("CONFIG_GRPC_XDS_SERVER_URL")
        .key("xds.server").default("localhost:18000", Word(values::xds_server));
    /// The name of this node.
    CONFIG_GRPC_XDS_NODE_ID: Setting<String> =
        variable("CONFIG_GRPC_XDS_NODE_ID").key("xds.node_id").default("default", Value(text));
    /// More about this node, as `k=v,k=v`.
    CONFIG_GRPC_XDS_NODE_METADATA: Setting<Vec<(String, String)>> =
        variable("CONFIG_GRPC_XDS_NODE_METADATA").key("xds.node_metadata").default("", Value(equals_pairs));
    /// Extra headers, as `k=v,k=v` or `k:v,k:v`.
    CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: Setting<Vec<(String, Secret)>> = variable("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS")
        .key("xds.headers").default("", Value(values::xds_headers));
    /// How long to wait after a connection that failed.
    CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: Setting<Duration> = variable("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL")
        .key("xds.retry_interval").default("3s", Word(duration));
    /// Speak TLS.
    CONFIG_GRPC_XDS_SERVER_USE_TLS: Setting<bool> =
        variable("CONFIG_GRPC_XDS_SERVER_USE_TLS").key("xds.tls.enabled").default("false", Word(truth));
    /// Accept what is signed by one of these; the system's roots if not set.
    CONFIG_GRPC_XDS_SERVER_TLS_CACERT: OptionalSetting<PathBuf> =
        variable("CONFIG_GRPC_XDS_SERVER_TLS_CACERT").key("xds.tls.ca").optional(Value(path));
    /// The name to expect instead of the host's.
    CONFIG_GRPC_XDS_SERVER_TLS_SAN: OptionalSetting<String> =
        variable("CONFIG_GRPC_XDS_SERVER_TLS_SAN").key("xds.tls.server_name").optional(Value(text));
    /// The certificate to show.
    CONFIG_GRPC_XDS_CLIENT_TLS_CERT: OptionalSetting<PathBuf> =
        variable("CONFIG_GRPC_XDS_CLIENT_TLS_CERT").key("xds.tls.cert").optional(Value(path));
    /// Its key.
    CONFIG_GRPC_XDS_CLIENT_TLS_KEY: OptionalSetting<PathBuf> =
        variable("CONFIG_GRPC_XDS_CLIENT_TLS_KEY").key("xds.tls.key").optional(Value(path));
    /// The first wait after a stream that broke; it doubles, and starts again after a success.
    XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: Setting<Duration> = variable("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL")
        .key("xds.backoff.initial").default("10s", Word(duration));
    /// The longest wait.
    XDS_CLIENT_BACKOFF_MAX_INTERVAL: Setting<Duration> =
        variable("XDS_CLIENT_BACKOFF_MAX_INTERVAL").key("xds.backoff.max").default("60s", Word(duration));
    /// Which part of a wait is random.
    XDS_CLIENT_BACKOFF_RANDOM_FACTOR: Setting<u32> =
        variable("XDS_CLIENT_BACKOFF_RANDOM_FACTOR").key("xds.backoff.random").default("0.5", Word(permille));
    /// Whether any of it is.
    XDS_CLIENT_BACKOFF_JITTER: Setting<bool> =
        variable("XDS_CLIENT_BACKOFF_JITTER").key("xds.backoff.jitter").default("true", Word(truth));
    /// The largest message that is accepted.
    XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: Setting<usize> = variable("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES")
        .key("xds.max_message_bytes").default("67108864", Word(number));
}

section! {
    REPLIES, "Answers", "";

    /// Every request is told that it may pass.
    SHADOW_MODE: Setting<bool> = variable("SHADOW_MODE").key("answers.shadow").default("false", Word(truth));
    /// Every rule is a quota: a request is denied only if all deny it.
    QUOTA_MODE: Setting<bool> = variable("QUOTA_MODE").key("answers.quota").default("false", Word(truth));
    /// Replies carry dynamic metadata.
    RESPONSE_DYNAMIC_METADATA: Setting<bool> =
        variable("RESPONSE_DYNAMIC_METADATA").key("answers.dynamic_metadata").default("false", Word(truth));
    /// From this part of a limit on a request counts as near it, in metrics.
    NEAR_LIMIT_RATIO: Setting<f32> = variable("NEAR_LIMIT_RATIO")
        .key("answers.near_limit_ratio").default("0.8", Word(values::near_limit_ratio));
    /// A rejected request is counted by no limit, the exhausted one included. A limit that says
    /// `algorithm` or `count_rejected` does as it says.
    STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: Setting<bool> = variable("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT")
        .key("answers.stop_counting_rejected").default("false", Word(truth));
    /// Replies carry the three headers below.
    LIMIT_RESPONSE_HEADERS_ENABLED: Setting<bool> = variable("LIMIT_RESPONSE_HEADERS_ENABLED")
        .key("answers.headers.enabled").default("false", Word(truth));
    /// How many are allowed.
    LIMIT_LIMIT_HEADER: Setting<String> = variable("LIMIT_LIMIT_HEADER")
        .key("answers.headers.limit").default("RateLimit-Limit", Word(values::header_name));
    /// How many are left.
    LIMIT_REMAINING_HEADER: Setting<String> = variable("LIMIT_REMAINING_HEADER")
        .key("answers.headers.remaining").default("RateLimit-Remaining", Word(values::header_name));
    /// In how many seconds it starts again.
    LIMIT_RESET_HEADER: Setting<String> = variable("LIMIT_RESET_HEADER")
        .key("answers.headers.reset").default("RateLimit-Reset", Word(values::header_name));
}

section! {
    CALLER_INFO, "Telling people", "What each of these looks like is in [telling people](telling-people.md).";

    /// The IETF's `RateLimit` and `RateLimit-Policy`, in the form of this draft; `off` for none.
    RATELIMIT_HEADERS: Setting<RateLimitFields> = variable("TOLLGATE_RATELIMIT_HEADERS")
        .key("answers.ratelimit_headers").default("draft-11", Word(values::ratelimit_fields));
    /// Those two name the counter, too (`pk`), with the values that the request was counted by.
    PARTITION_KEYS: Setting<bool> =
        variable("TOLLGATE_PARTITION_KEYS").key("answers.partition_keys").default("false", Word(truth));
    /// A random time of at most this is added to `Retry-After`, in whole seconds, so that not all come
    /// back at once.
    RETRY_AFTER_JITTER: Setting<Duration> = variable("TOLLGATE_RETRY_AFTER_JITTER")
        .key("answers.retry_after_jitter").default("0s", Word(values::retry_after_jitter));
    /// Replies over gRPC and `/json` ask Envoy to tell callers the same: `headers`, or `all` for the
    /// headers and the body of a denial; `off` for the replies of envoyproxy/ratelimit.
    TELL_THROUGH_ENVOY: Setting<EnvoyPassThrough> = variable("TOLLGATE_TELL_THROUGH_ENVOY")
        .key("answers.tell_through_envoy").default("off", Word(values::envoy_pass_through));
}

section! {
    FORWARD_AUTH, "Forward-auth",
    "How nginx, Traefik and Caddy ask at `/v1/authz`, and all that `mapping` may say, is in [forward-auth](forward-auth.md).";

    /// How an HTTP request becomes descriptors.
    MAPPING: OptionalSetting<YamlNode> = key("mapping").reloaded().optional(Value(RawValue::node));
    /// The status of a denial: `429`, or `403` for nginx, which passes on no other.
    FORWARD_AUTH_DENY_STATUS: Setting<u16> =
        key("forward_auth.deny_status").default("429", Word(values::deny_status));
    /// A request that is to wait is held for at most this long, and denied if that is not enough; up to 20s.
    FORWARD_AUTH_MAX_HOLD: Setting<Duration> =
        key("forward_auth.max_hold").default("5s", Word(values::max_hold));
    /// Where the request is described: `x-forwarded` headers, `x-original` headers, the question
    /// `itself`, or whichever is there.
    FORWARD_AUTH_REQUEST_FROM: Setting<RequestFrom> =
        key("forward_auth.request_from").default("auto", Word(values::request_from));
}

section! {
    METRICS, "Metrics",
    "The admin listener always serves `/metrics`. StatsD is used only if `USE_STATSD` is true, or if it is not set and `STATSD_HOST` or `STATSD_PORT` is: where no StatsD server runs, none is looked for. At most one of StatsD, DogStatsD and the Prometheus listener can be asked for.";

    /// Serve metrics on a listener of their own, too.
    USE_PROMETHEUS: Setting<bool> =
        variable("USE_PROMETHEUS").key("prometheus.enabled").default("false", Word(truth));
    /// Where.
    PROMETHEUS_ADDR: Setting<ListenAddress> =
        variable("PROMETHEUS_ADDR").key("prometheus.address").default(":9090", Word(ListenAddress::parse));
    /// Under which path.
    PROMETHEUS_PATH: Setting<String> =
        variable("PROMETHEUS_PATH").key("prometheus.path").default("/metrics", Word(values::url_path));
    /// A mapping in the form of statsd_exporter; the file may be absent.
    PROMETHEUS_MAPPER_YAML: OptionalSetting<PathBuf> =
        variable("PROMETHEUS_MAPPER_YAML").key("metrics.mapper").optional(Value(path));
    /// Response times in milliseconds instead of seconds.
    PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS: Setting<bool> = variable("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS")
        .key("metrics.response_time_in_ms").default("false", Word(truth));
    /// Send metrics to StatsD.
    USE_STATSD: Setting<bool> = variable("USE_STATSD").key("statsd.enabled").default("false", Word(truth));
    /// Send metrics to DogStatsD.
    USE_DOG_STATSD: Setting<bool> = variable("USE_DOG_STATSD")
        .key("statsd.dog").default("false", Word(truth));
    /// The host of either.
    STATSD_HOST: Setting<String> = variable("STATSD_HOST")
        .key("statsd.host").default("localhost", Value(text));
    /// Its port.
    STATSD_PORT: Setting<u16> = variable("STATSD_PORT").key("statsd.port").default("8125", Word(port));
    /// `tcp` or `udp`; DogStatsD is always `udp`.
    STATSD_PROTOCOL: Setting<StatsdProtocol> =
        variable("STATSD_PROTOCOL").key("statsd.protocol").default("tcp", Word(values::statsd_protocol));
    /// How often counters are sent.
    STATS_FLUSH_INTERVAL: Setting<Duration> = variable("STATS_FLUSH_INTERVAL")
        .key("metrics.flush_interval").default("10s", Word(values::flush_interval));
    /// Tags on everything, as `k:v,k:v`.
    EXTRA_TAGS: Setting<Vec<(String, String)>> =
        variable("EXTRA_TAGS").key("metrics.extra_tags").default("", Value(colon_pairs));
    /// Send nothing, and open no Prometheus listener.
    DISABLE_STATS: Setting<bool> = variable("DISABLE_STATS")
        .key("metrics.disabled").default("false", Word(truth));
    /// Names of rewritings, as `A,B`; each has `DOG_STATSD_MOGRIFIER_A_PATTERN`, `…_NAME` and `…_TAGS`.
    USE_DOG_STATSD_MOGRIFIERS: Setting<Vec<String>> =
        variable("USE_DOG_STATSD_MOGRIFIERS").default("", Value(RawValue::list));
}

section! {
    HISTORY_SECTION, "History",
    "What is counted, and for how long, is in [history](history.md). It is kept beside the counters where these are on Redis, and else in a folder. If that cannot be used, limiting goes on without history, and the log says so.";

    /// The folder that history and the counters of the memory store are kept in, unless the store is
    /// Redis; it is made if it is not there. One server to a folder.
    DATA: Setting<PathBuf> =
        variable("TOLLGATE_DATA").flag("--data", "DIR").key("data").default("./tollgate-data", Value(path));
    /// Keep a history.
    HISTORY: Setting<bool> = variable("TOLLGATE_HISTORY").key("history.enabled").default("true", Word(truth));
    /// How the names of keys are kept: `clear`, `hashed`, or `off` for not at all.
    HISTORY_KEYS: Setting<KeyNames> =
        variable("TOLLGATE_HISTORY_KEYS").key("history.keys").default("clear", Word(values::key_names));
    /// What hashed names are mixed with, so that they cannot be guessed; the same on all nodes.
    HISTORY_SALT: Setting<Secret> = variable("TOLLGATE_HISTORY_SALT").default("", Value(secret));
    /// The route of a request is the value of its first entry with one of these keys.
    HISTORY_ROUTE_KEYS: Setting<Vec<String>> = variable("TOLLGATE_HISTORY_ROUTE_KEYS")
        .key("history.route_keys").default("path,route,url", Value(values::route_keys));
    /// Templates of routes, such as `/users/{id}`; what matches none counts under its own path.
    HISTORY_TEMPLATES: Setting<PathTemplates> = key("history.templates").default("", Value(values::templates));
    /// The most routes with a series of their own.
    HISTORY_MAX_ROUTES: Setting<usize> = key("history.max_routes").default("10000", Word(number));
    /// The most keys of one rule with a series.
    HISTORY_MAX_KEYS_PER_RULE: Setting<usize> = key("history.max_keys_per_rule")
        .default("1000", Word(number));
    /// The most names of any kind that this process tracks.
    HISTORY_MAX_NAMES: Setting<usize> = key("history.max_names").default("20000", Word(number));
    /// The most series that are kept; at full retention each takes about 6 KB.
    HISTORY_MAX_SERIES: Setting<usize> = key("history.max_series").default("50000", Word(number));
}
