//! Variables of envoyproxy/ratelimit that are accepted and have no effect here.

/// Variables that have no effect for one reason.
#[derive(Debug, Clone, Copy)]
pub struct Ignored {
    /// Their names.
    pub variables: &'static [&'static str],
    /// Why; it follows "is set, but" in the warning.
    pub reason: &'static str,
}

/// All of them, one warning a row.
pub const IGNORED: &[Ignored] = &[
    Ignored {
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
    Ignored {
        variables: &[
            "REDIS_STARTUP_INITIAL_INTERVAL",
            "REDIS_STARTUP_MAX_INTERVAL",
            "REDIS_STARTUP_MAX_ELAPSED_TIME",
        ],
        reason: "the start does not wait for Redis: requests are decided locally until it answers",
    },
    Ignored {
        variables: &["REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR"],
        reason: "a server that has become a replica is always left for the new master",
    },
    Ignored {
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
    Ignored {
        variables: &["GRPC_SERVER_TLS_CA_CERT"],
        reason: "it has no effect, as in envoyproxy/ratelimit; \
                 set GRPC_CLIENT_TLS_CACERT to demand certificates of callers",
    },
    Ignored { variables: &["USE_CALENDAR_MONTH_RATE_LIMIT"], reason: "a month is always 30 days here" },
    Ignored {
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
    Ignored {
        variables: &[
            "GOSTATS_FLUSH_INTERVAL_SECONDS",
            "GOSTATS_LOGGING_SINK_DISABLED",
            "GOSTATS_BATCH_ENABLED",
        ],
        reason: "it belongs to a library that is not used here",
    },
];
