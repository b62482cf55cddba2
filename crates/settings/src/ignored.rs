//! Variables that have no effect: what envoyproxy/ratelimit knows and we do
//! not need, and what nobody knows.
//!
//! Each that is set is named in a warning at start-up.

use tollgate_yaml::nearest;

use crate::rows;
use crate::settings_reader::SettingsReader;

/// Variables of ours begin so.
const PREFIX: &str = "TOLLGATE_";

/// Variables of envoyproxy/ratelimit that have no effect for one reason.
#[derive(Debug, Clone, Copy)]
pub struct IgnoredVariables {
    /// Their names.
    pub variables: &'static [&'static str],
    /// Why; it follows "is set, but" in the warning.
    pub reason: &'static str,
}

/// All of them, one warning a row.
pub const IGNORED: &[IgnoredVariables] = &[
    IgnoredVariables {
        variables: &[
            "REDIS_POOL_SIZE",
            "REDIS_PERSECOND_POOL_SIZE",
            "REDIS_POOL_ON_EMPTY_BEHAVIOR",
            "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR",
            "REDIS_PIPELINE_LIMIT",
            "REDIS_PERSECOND_PIPELINE_LIMIT",
            "REDIS_PIPELINE_WINDOW",
            "REDIS_PERSECOND_PIPELINE_WINDOW",
            "REDIS_CLUSTER_PIPELINE_PARALLELISM",
            "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM",
        ],
        reason: "there is no pool: each worker sends all its requests down one connection to each server",
    },
    IgnoredVariables {
        variables: &[
            "REDIS_STARTUP_INITIAL_INTERVAL",
            "REDIS_STARTUP_MAX_INTERVAL",
            "REDIS_STARTUP_MAX_ELAPSED_TIME",
        ],
        reason: "the start does not wait for Redis: requests are decided locally until it answers",
    },
    IgnoredVariables {
        variables: &["REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR"],
        reason: "a server that has become a replica is always left for the new master",
    },
    IgnoredVariables {
        variables: &[
            "MEMCACHE_HOST_PORT",
            "MEMCACHE_SRV",
            "MEMCACHE_SRV_REFRESH",
            "MEMCACHE_MAX_IDLE_CONNS",
            "MEMCACHE_TLS",
            "MEMCACHE_TLS_CLIENT_CERT",
            "MEMCACHE_TLS_CLIENT_KEY",
            "MEMCACHE_TLS_CACERT",
            "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
        ],
        reason: "counters are kept in memory or on Redis, not on Memcache",
    },
    IgnoredVariables {
        variables: &["GRPC_SERVER_TLS_CA_CERT"],
        reason: "it has no effect, as in envoyproxy/ratelimit; \
                 set GRPC_CLIENT_TLS_CACERT to demand certificates of callers",
    },
    IgnoredVariables {
        variables: &["USE_CALENDAR_MONTH_RATE_LIMIT"],
        reason: "a month is always 30 days here",
    },
    IgnoredVariables {
        variables: &[
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_COMPRESSION",
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
            "OTEL_EXPORTER_OTLP_INSECURE",
            "OTEL_EXPORTER_OTLP_TRACES_INSECURE",
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY",
            "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
        ],
        reason: "the way of traces is chosen by TRACING_EXPORTER_PROTOCOL and the endpoint alone",
    },
    IgnoredVariables {
        variables: &[
            "GOSTATS_FLUSH_INTERVAL_SECONDS",
            "GOSTATS_LOGGING_SINK_DISABLED",
            "GOSTATS_BATCH_ENABLED",
        ],
        reason: "it belongs to a library that is not used here",
    },
];

/// Warns of those that are set.
pub(crate) fn warn_of_ignored(reader: &mut SettingsReader<'_>) {
    for group in IGNORED {
        let is_set = |name: &&&str| reader.variable(name).is_some();
        let set: Vec<&str> = group.variables.iter().filter(is_set).copied().collect();
        let verb = match set.as_slice() {
            [] => continue,
            [_] => "is",
            _ => "are",
        };
        reader.warn(format!("{} {verb} set, but {}", set.join(", "), group.reason));
    }
}

/// Warns of variables that look like settings of ours and are none.
pub(crate) fn warn_of_unknown(reader: &mut SettingsReader<'_>) {
    let ours = || rows::all().filter_map(|row| row.variable.strip_prefix(PREFIX));
    let mut names = reader.variables.names();
    names.retain(|name| name.strip_prefix(PREFIX).is_some_and(|name| !ours().any(|known| known == name)));
    names.sort();
    for name in names {
        let value = reader.variables.get(&name).unwrap_or_default();
        if is_service_link(&name, &value) {
            continue;
        }
        // The prefix makes all of them alike.
        let help = match nearest(name.strip_prefix(PREFIX).unwrap_or_default(), ours()) {
            Some(known) => format!("did you mean {PREFIX}{known}?"),
            None => "'tollgate serve --help' lists all settings".to_owned(),
        };
        reader.warn(format!("{name} is set, but there is no such setting; {help}"));
    }
}

/// Whether Kubernetes set this variable, as it does for every service: one
/// called `tollgate` makes `TOLLGATE_SERVICE_HOST`, `TOLLGATE_PORT=tcp://…`,
/// `TOLLGATE_PORT_8081_TCP_ADDR` and more.
fn is_service_link(name: &str, value: &str) -> bool {
    let is_url = ["tcp://", "udp://", "sctp://"].into_iter().any(|scheme| value.starts_with(scheme));
    let port = name.split_once("_PORT_").map_or("", |(_, rest)| rest);
    is_url
        || ["_SERVICE_HOST", "_SERVICE_PORT"].into_iter().any(|part| name.contains(part))
        || port.starts_with(|c: char| c.is_ascii_digit())
}
