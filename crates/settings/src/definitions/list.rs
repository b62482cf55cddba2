//! The list of all settings.

use super::{Definition, Section};

/// `row(flag, variable, key, default, meaning)` as a line of a table.
pub(super) const fn row(
    names: [&'static str; 3],
    default: &'static str,
    meaning: &'static str,
) -> Definition {
    let [flag, variable, key] = names;
    Definition { flag, variable, key, default, meaning }
}

/// All settings.
pub const SECTIONS: &[Section] = &[
    Section {
        title: "Start",
        note: "",
        settings: &[
            row(["--config", "", ""], "./tollgate.yaml if it exists", "The file with settings."),
            row(
                ["", "LOG_LEVEL", "log.level"],
                "info",
                "`trace`, `debug`, `info`, `warn` or `error`; `fatal` and `panic` mean `error`.",
            ),
            row(["", "LOG_FORMAT", "log.format"], "text", "`text`, or `json` with one object a line."),
        ],
    },
    Section {
        title: "Store",
        note: "Counters live where `--store` says, or else on the Redis of `REDIS_URL`, `REDIS_SOCKET_TYPE` or `REDIS_TYPE`, or else where `store` of the file says, or else in memory. A password is better kept in `REDIS_AUTH` than in an address. `docs/guide/redis.md` says what happens when Redis is away.",
        settings: &[
            row(
                ["--store", "", "store"],
                "memory",
                "`memory`, `redis://[user:password@]host:port[/db]`, `redis+unix:///path`, `redis+cluster://host:port,…` or `redis+sentinel://host:port,…/master`; `rediss…` for TLS.",
            ),
            row(
                ["", "", "memory.keys"],
                "10000000",
                "The most keys that the memory store holds; each takes 27 to 41 bytes.",
            ),
            row(
                ["", "", "memory.log_bytes"],
                "1073741824",
                "The most bytes that logs and sub-windows take besides.",
            ),
            row(
                ["", "BACKEND_TYPE", ""],
                "redis",
                "`redis`; of `memcache` a warning says that it is not used.",
            ),
            row(
                ["", "REDIS_URL", ""],
                "/var/run/nutcracker/ratelimit.sock",
                "A path, `host:port` or `redis://…`; several for a cluster; `master,host:port,…` for sentinels.",
            ),
            row(["", "REDIS_SOCKET_TYPE", ""], "unix", "`unix` or `tcp`."),
            row(["", "REDIS_TYPE", ""], "SINGLE", "`SINGLE`, `CLUSTER` or `SENTINEL`."),
            row(["", "REDIS_AUTH", ""], "", "`password` or `user:password`."),
            row(["", "REDIS_SENTINEL_AUTH", ""], "", "The same for the sentinels."),
            row(
                ["", "REDIS_TIMEOUT", "redis.timeout"],
                "20ms",
                "No request waits longer for the store; envoyproxy/ratelimit waits 10 s.",
            ),
            row(["", "REDIS_TLS", ""], "false", "Speak TLS; an address with `rediss` does, too."),
            row(
                ["", "REDIS_TLS_CACERT", "redis.tls.ca"],
                "",
                "Authorities to accept besides the system's, in PEM.",
            ),
            row(["", "REDIS_TLS_CLIENT_CERT", "redis.tls.cert"], "", "The certificate to show, in PEM."),
            row(["", "REDIS_TLS_CLIENT_KEY", "redis.tls.key"], "", "Its key, in PEM."),
            row(
                ["", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "redis.tls.skip_hostname"],
                "false",
                "Accept a certificate for any name; the chain is verified all the same.",
            ),
            row(
                ["", "CACHE_KEY_PREFIX", "redis.key_prefix"],
                "",
                "Stands before every key, so that several services can share a Redis.",
            ),
            row(
                ["", "TOLLGATE_REDIS_LAYOUT", "redis.layout"],
                "tollgate",
                "`envoy` keeps limits that envoyproxy/ratelimit knows exactly as it does, so that both can share a Redis while one replaces the other.",
            ),
            row(
                ["", "EXPIRATION_JITTER_MAX_SECONDS", "redis.expiration_jitter_s"],
                "300",
                "With the layout `envoy`, keys live up to so much longer, by chance.",
            ),
            row(
                ["", "LOCAL_CACHE_SIZE_IN_BYTES", "redis.denial_bytes"],
                "0",
                "So much memory remembers who is denied until when, so that the store is not asked about them before; 0 for none.",
            ),
            row(
                ["", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "redis.health_needs_store"],
                "false",
                "Be healthy only while the store answers; otherwise a node goes on without it.",
            ),
            row(
                ["", "", "redis.per_second"],
                "",
                "Another Redis for limits by the second, written as for `store`.",
            ),
            row(["", "REDIS_PERSECOND", ""], "false", "Keep limits by the second on another Redis."),
            row(
                ["", "REDIS_PERSECOND_URL", ""],
                "/var/run/nutcracker/ratelimitpersecond.sock",
                "Where it is, as `REDIS_URL`.",
            ),
            row(["", "REDIS_PERSECOND_SOCKET_TYPE", ""], "unix", "As `REDIS_SOCKET_TYPE`."),
            row(["", "REDIS_PERSECOND_TYPE", ""], "SINGLE", "As `REDIS_TYPE`."),
            row(["", "REDIS_PERSECOND_AUTH", ""], "", "As `REDIS_AUTH`."),
            row(["", "REDIS_PERSECOND_SENTINEL_AUTH", ""], "", "As `REDIS_SENTINEL_AUTH`."),
            row(["", "REDIS_PERSECOND_TIMEOUT", ""], "20ms", "As `REDIS_TIMEOUT`."),
            row(["", "REDIS_PERSECOND_TLS", ""], "false", "As `REDIS_TLS`, with the same certificates."),
        ],
    },
    Section {
        title: "Listeners",
        note: "An address is `HOST:PORT`; an IPv6 host stands in brackets, and no host means all addresses of the machine. HOST and PORT of the environment change their part of the address.",
        settings: &[
            row(
                ["--http", "", "listen.http"],
                "0.0.0.0:8080",
                "Where `/json` and `/healthcheck` are served.",
            ),
            row(["", "HOST", ""], "0.0.0.0", "The host of the HTTP listener; `::` for both families."),
            row(["", "PORT", ""], "8080", "The port of the HTTP listener."),
            row(
                ["--grpc", "", "listen.grpc"],
                "0.0.0.0:8081",
                "Where Envoy asks; `unix:PATH` for a Unix socket.",
            ),
            row(["", "GRPC_HOST", ""], "0.0.0.0", "The host of the gRPC listener."),
            row(["", "GRPC_PORT", ""], "8081", "The port of the gRPC listener."),
            row(["", "GRPC_UDS", ""], "", "A Unix socket instead of the port; a stale one is replaced."),
            row(
                ["--admin", "", "listen.admin"],
                "127.0.0.1:6070",
                "Where metrics and the admin pages are served; elsewhere than on loopback it needs a token.",
            ),
            row(
                ["", "DEBUG_HOST", ""],
                "127.0.0.1",
                "The host of the admin listener; without a token it stays on loopback, and a warning says so.",
            ),
            row(["", "DEBUG_PORT", ""], "6070", "The port of the admin listener."),
            row(["", "TOLLGATE_ADMIN_TOKEN", ""], "", "What callers of the admin listener must show."),
            row(
                ["", "GRPC_MAX_CONNECTION_AGE", "connections.max_age"],
                "24h",
                "A gRPC connection older than this, ±10 %, is asked to go; 0 for never.",
            ),
            row(
                ["", "GRPC_MAX_CONNECTION_AGE_GRACE", "connections.max_age_grace"],
                "1h",
                "So long may its calls go on; 0 for any time.",
            ),
        ],
    },
    Section {
        title: "RESP",
        note: "Any Redis client can ask; `docs/guide/resp.md` says how.",
        settings: &[
            row(
                ["--resp", "TOLLGATE_RESP", "listen.resp"],
                "off",
                "Where `CL.THROTTLE`, `THROTTLE` and `TOLLGATE.CHECK` are served, such as `127.0.0.1:6380`.",
            ),
            row(["", "TOLLGATE_RESP_PASSWORD", ""], "", "What callers must show with `AUTH`."),
            row(
                ["", "TOLLGATE_RESP_TLS_CERT", "resp.tls.cert"],
                "",
                "The certificate chain, in PEM; with it the listener speaks TLS.",
            ),
            row(["", "TOLLGATE_RESP_TLS_KEY", "resp.tls.key"], "", "Its key, in PEM."),
            row(
                ["", "TOLLGATE_RESP_TLS_CLIENT_CA", "resp.tls.client_ca"],
                "",
                "Callers must show a certificate signed by one of these.",
            ),
        ],
    },
    Section {
        title: "TLS of the gRPC listener",
        note: "Changed files are picked up. `GRPC_SERVER_TLS_CA_CERT`, which Envoy Gateway sets, has no effect, as in envoyproxy/ratelimit.",
        settings: &[
            row(["", "GRPC_SERVER_USE_TLS", "tls.enabled"], "false", "Speak TLS."),
            row(["", "GRPC_SERVER_TLS_CERT", "tls.cert"], "", "The certificate chain, in PEM."),
            row(["", "GRPC_SERVER_TLS_KEY", "tls.key"], "", "Its key, in PEM."),
            row(
                ["", "GRPC_CLIENT_TLS_CACERT", "tls.client_ca"],
                "",
                "Callers must show a certificate signed by one of these.",
            ),
            row(["", "GRPC_CLIENT_TLS_SAN", "tls.client_san"], "", "And it must be for this DNS name."),
        ],
    },
    Section {
        title: "TLS of the HTTP listener",
        note: "Changed files are picked up. Where certificates are demanded, health probes need one too; probe the gRPC listener or the bare port instead.",
        settings: &[
            row(
                ["", "TOLLGATE_HTTP_TLS_CERT", "http.tls.cert"],
                "",
                "The certificate chain, in PEM; with it the listener speaks TLS.",
            ),
            row(["", "TOLLGATE_HTTP_TLS_KEY", "http.tls.key"], "", "Its key, in PEM."),
            row(
                ["", "TOLLGATE_HTTP_TLS_CLIENT_CA", "http.tls.client_ca"],
                "",
                "Callers must show a certificate signed by one of these.",
            ),
            row(
                ["", "TOLLGATE_HTTP_TLS_CLIENT_SAN", "http.tls.client_san"],
                "",
                "And it must be for this DNS name.",
            ),
        ],
    },
    Section {
        title: "Rules",
        note: "Rules come from `--rules`, or else from xDS if `CONFIG_TYPE` says so, or else from the folders of `RUNTIME_*` if one of them is set, or else from `rules` of the file, or else from `./rules`, or else from `/srv/runtime_data/current`, or else a built-in example is served.",
        settings: &[
            row(
                ["--rules", "", "rules"],
                "./rules",
                "Rule files and folders of them; the flag may be given several times.",
            ),
            row(["", "CONFIG_TYPE", "rule_source"], "FILE", "`FILE` or `GRPC_XDS_SOTW`."),
            row(
                ["", "MERGE_DOMAIN_CONFIG", "merge_domains"],
                "false",
                "Several files may be about one domain.",
            ),
            row(
                ["", "FORCE_START_WITHOUT_INITIAL_CONFIG", "force_start"],
                "false",
                "Be ready before the first rules are there.",
            ),
            row(
                ["", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "healthy_needs_domain"],
                "false",
                "Be healthy only with at least one domain.",
            ),
            row(
                ["", "RUNTIME_ROOT", ""],
                "/srv/runtime_data/current",
                "The root of the rule folders, perhaps a link that is swapped.",
            ),
            row(["", "RUNTIME_SUBDIRECTORY", ""], "", "The folder below the root."),
            row(["", "RUNTIME_APPDIRECTORY", ""], "config", "The folder below that, which holds the files."),
            row(
                ["", "RUNTIME_IGNOREDOTFILES", ""],
                "false",
                "Leave out what begins with a dot. What Kubernetes keeps beside a ConfigMap is always left out.",
            ),
            row(
                ["", "RUNTIME_WATCH_ROOT", ""],
                "true",
                "Read the root as a whole and use the files of the app directory. Changes are noticed either way.",
            ),
        ],
    },
    Section {
        title: "Rules by xDS",
        note: "",
        settings: &[
            row(
                ["", "CONFIG_GRPC_XDS_SERVER_URL", "xds.server"],
                "localhost:18000",
                "The server, `HOST:PORT`.",
            ),
            row(["", "CONFIG_GRPC_XDS_NODE_ID", "xds.node_id"], "default", "Who we say we are."),
            row(
                ["", "CONFIG_GRPC_XDS_NODE_METADATA", "xds.node_metadata"],
                "",
                "What else we say, as `k=v,k=v`.",
            ),
            row(
                ["", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "xds.headers"],
                "",
                "Extra headers, as `k=v,k=v` or `k:v,k:v`.",
            ),
            row(
                ["", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "xds.retry_interval"],
                "3s",
                "How long to wait after a connection that failed.",
            ),
            row(["", "CONFIG_GRPC_XDS_SERVER_USE_TLS", "xds.tls.enabled"], "false", "Speak TLS."),
            row(
                ["", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "xds.tls.ca"],
                "",
                "Accept what is signed by one of these; the system's roots if not set.",
            ),
            row(
                ["", "CONFIG_GRPC_XDS_SERVER_TLS_SAN", "xds.tls.server_name"],
                "",
                "The name to expect instead of the host's.",
            ),
            row(["", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "xds.tls.cert"], "", "The certificate to show."),
            row(["", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "xds.tls.key"], "", "Its key."),
            row(
                ["", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "xds.backoff.initial"],
                "10s",
                "The first wait after a stream that broke; it doubles, and starts again after a success.",
            ),
            row(["", "XDS_CLIENT_BACKOFF_MAX_INTERVAL", "xds.backoff.max"], "60s", "The longest wait."),
            row(
                ["", "XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "xds.backoff.random"],
                "0.5",
                "Which part of a wait is random.",
            ),
            row(["", "XDS_CLIENT_BACKOFF_JITTER", "xds.backoff.jitter"], "true", "Whether any is."),
            row(
                ["", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "xds.max_message_bytes"],
                "67108864",
                "The largest message that is accepted.",
            ),
        ],
    },
    Section {
        title: "Answers",
        note: "",
        settings: &[
            row(["", "SHADOW_MODE", "answers.shadow"], "false", "Every request is told that it may pass."),
            row(
                ["", "QUOTA_MODE", "answers.quota"],
                "false",
                "Every rule is a quota: a request is refused only if all refuse.",
            ),
            row(
                ["", "RESPONSE_DYNAMIC_METADATA", "answers.dynamic_metadata"],
                "false",
                "Replies carry dynamic metadata.",
            ),
            row(
                ["", "NEAR_LIMIT_RATIO", "answers.near_limit_ratio"],
                "0.8",
                "From this part of a limit on a request counts as near it, in metrics.",
            ),
            row(
                ["", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "answers.stop_counting_rejected"],
                "false",
                "A rejected request is counted by no limit, the exhausted one included. A limit that says `algorithm` or `count_rejected` does as it says.",
            ),
            row(
                ["", "LIMIT_RESPONSE_HEADERS_ENABLED", "answers.headers.enabled"],
                "false",
                "Replies carry the three headers below.",
            ),
            row(
                ["", "LIMIT_LIMIT_HEADER", "answers.headers.limit"],
                "RateLimit-Limit",
                "How many are allowed.",
            ),
            row(
                ["", "LIMIT_REMAINING_HEADER", "answers.headers.remaining"],
                "RateLimit-Remaining",
                "How many are left.",
            ),
            row(
                ["", "LIMIT_RESET_HEADER", "answers.headers.reset"],
                "RateLimit-Reset",
                "In how many seconds it starts again.",
            ),
        ],
    },
    Section {
        title: "Telling people",
        note: "What each of these looks like is in [telling people](telling-people.md).",
        settings: &[
            row(
                ["", "TOLLGATE_RATELIMIT_HEADERS", "answers.ratelimit_headers"],
                "draft-11",
                "The IETF's `RateLimit` and `RateLimit-Policy`, in the form of this draft; `off` for none.",
            ),
            row(
                ["", "TOLLGATE_PARTITION_KEYS", "answers.partition_keys"],
                "false",
                "Those two name the counter, too (`pk`), with the values that the request was counted by.",
            ),
            row(
                ["", "TOLLGATE_RETRY_AFTER_JITTER", "answers.retry_after_jitter"],
                "0s",
                "Up to so much is added to `Retry-After` by chance, in whole seconds, so that not all come back at once.",
            ),
            row(
                ["", "TOLLGATE_TELL_THROUGH_ENVOY", "answers.tell_through_envoy"],
                "off",
                "Replies over gRPC and `/json` ask Envoy to tell callers the same: `headers`, or `all` for the headers and the body of a refusal; `off` for the replies of envoyproxy/ratelimit.",
            ),
        ],
    },
    Section {
        title: "Forward-auth",
        note: "How nginx, Traefik and Caddy ask at `/v1/authz`, and all that `mapping` may say, is in [forward-auth](forward-auth.md).",
        settings: &[
            row(["", "", "mapping"], "", "How an HTTP request becomes descriptors."),
            row(
                ["", "", "forward_auth.deny_status"],
                "429",
                "The status of a refusal: `429`, or `403` for nginx, which passes on no other.",
            ),
            row(
                ["", "", "forward_auth.max_hold"],
                "5s",
                "A request that is to wait is held so long at most, and refused if that is not enough; up to 20s.",
            ),
            row(
                ["", "", "forward_auth.request_from"],
                "auto",
                "Where the request is described: `x-forwarded` headers, `x-original` headers, the question `itself`, or whichever is there.",
            ),
        ],
    },
    Section {
        title: "Metrics",
        note: "The admin listener always serves `/metrics`. StatsD is used only if `USE_STATSD` is true, or if it is not set and `STATSD_HOST` or `STATSD_PORT` is: where no StatsD server runs, none is looked for. At most one of StatsD, DogStatsD and the Prometheus listener can be asked for.",
        settings: &[
            row(
                ["", "USE_PROMETHEUS", "prometheus.enabled"],
                "false",
                "Serve metrics on a listener of their own, too.",
            ),
            row(["", "PROMETHEUS_ADDR", "prometheus.address"], ":9090", "Where."),
            row(["", "PROMETHEUS_PATH", "prometheus.path"], "/metrics", "Under which path."),
            row(
                ["", "PROMETHEUS_MAPPER_YAML", "metrics.mapper"],
                "",
                "A mapping in the form of statsd_exporter; the file may be absent.",
            ),
            row(
                ["", "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "metrics.response_time_in_ms"],
                "false",
                "Response times in milliseconds instead of seconds.",
            ),
            row(["", "USE_STATSD", "statsd.enabled"], "false", "Send metrics to StatsD."),
            row(["", "USE_DOG_STATSD", "statsd.dog"], "false", "Send metrics to DogStatsD."),
            row(["", "STATSD_HOST", "statsd.host"], "localhost", "The host of either."),
            row(["", "STATSD_PORT", "statsd.port"], "8125", "Its port."),
            row(
                ["", "STATSD_PROTOCOL", "statsd.protocol"],
                "tcp",
                "`tcp` or `udp`; DogStatsD is always `udp`.",
            ),
            row(
                ["", "STATS_FLUSH_INTERVAL", "metrics.flush_interval"],
                "10s",
                "How often counters are sent.",
            ),
            row(["", "EXTRA_TAGS", "metrics.extra_tags"], "", "Tags on everything, as `k:v,k:v`."),
            row(
                ["", "DISABLE_STATS", "metrics.disabled"],
                "false",
                "Send nothing, and open no Prometheus listener.",
            ),
            row(
                ["", "USE_DOG_STATSD_MOGRIFIERS", ""],
                "",
                "Names of rewritings, as `A,B`; each has `DOG_STATSD_MOGRIFIER_A_PATTERN`, `…_NAME` and `…_TAGS`.",
            ),
        ],
    },
    super::history::HISTORY,
    Section {
        title: "Traces",
        note: "",
        settings: &[
            row(["", "TRACING_ENABLED", "tracing.enabled"], "false", "Send traces by OTLP."),
            row(["", "TRACING_EXPORTER_PROTOCOL", "tracing.protocol"], "http", "`http` or `grpc`."),
            row(["", "TRACING_SERVICE_NAME", "tracing.service_name"], "RateLimit", "`service.name`."),
            row(["", "TRACING_SERVICE_NAMESPACE", "tracing.service_namespace"], "", "`service.namespace`."),
            row(
                ["", "TRACING_SERVICE_INSTANCE_ID", "tracing.service_instance_id"],
                "",
                "`service.instance.id`; random if not set.",
            ),
            row(
                ["", "TRACING_SAMPLING_RATE", "tracing.sampling_rate"],
                "1",
                "Which part of requests is traced.",
            ),
            row(
                ["", "OTEL_EXPORTER_OTLP_ENDPOINT", "tracing.endpoint"],
                "",
                "The collector; `/v1/traces` is added for `http`.",
            ),
            row(
                ["", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""],
                "",
                "The collector for traces, taken as written.",
            ),
            row(["", "OTEL_EXPORTER_OTLP_HEADERS", ""], "", "Headers of exports, as `k=v,k=v`."),
            row(["", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", ""], "", "The same for traces, instead of those."),
            row(
                ["", "OTEL_EXPORTER_OTLP_TIMEOUT", "tracing.timeout_ms"],
                "10000",
                "How long an export may take, in milliseconds.",
            ),
            row(["", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", ""], "", "The same for traces, instead of that."),
            row(["", "OTEL_EXPORTER_OTLP_CERTIFICATE", "tracing.ca"], "", "Certificates to accept."),
            row(
                ["", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", ""],
                "",
                "The same for traces, instead of those.",
            ),
        ],
    },
];
