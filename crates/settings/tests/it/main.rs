//! What flags, environment and `tollgate.yaml` together say.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows the tests here, but not the functions that they share"
)]

mod gateway;
mod guide;
mod mapping;
mod redis;
mod schema;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_limiter::Capacity;
use tollgate_metrics::{StatsdDialect, StatsdProtocol};
use tollgate_redis::RedisConfig;
use tollgate_redis::config::{Credentials, Layout, Topology};
use tollgate_settings::{
    ConfigFile, Flags, GrpcAddress, IGNORED, LimitedListener, ListenAddress, LogFormat, LogLevel,
    OtlpProtocol, RuleOrigin, SettingRow, Settings, StoreSettings, Variables, help, rows,
};

fn environment(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Settings and warnings of an environment alone.
fn resolved(pairs: &[(&str, &str)]) -> (Settings, Vec<String>) {
    let (settings, warnings) = Settings::resolve(&Flags::default(), &environment(pairs), None).unwrap();
    (settings, warnings.into_iter().map(|warning| warning.message).collect())
}

fn settings(pairs: &[(&str, &str)]) -> Settings {
    resolved(pairs).0
}

/// What is wrong with an environment.
fn mistakes(pairs: &[(&str, &str)]) -> Vec<String> {
    let error = Settings::resolve(&Flags::default(), &environment(pairs), None).unwrap_err();
    error.mistakes.iter().map(ToString::to_string).collect()
}

fn with_file(text: &str) -> Result<Settings, String> {
    let file = ConfigFile::parse("tollgate.yaml", text).map_err(|error| error.to_string())?;
    let resolved = Settings::resolve(&Flags::default(), &environment(&[]), Some(&file));
    resolved.map(|(settings, _)| settings).map_err(|error| error.to_string())
}

#[test]
fn with_nothing_said_the_defaults_hold() {
    let (settings, warnings) = resolved(&[]);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(settings.http.to_string(), "0.0.0.0:8080");
    assert_eq!(settings.grpc.address.to_string(), "0.0.0.0:8081");
    assert_eq!(settings.admin.address.to_string(), "127.0.0.1:6070");
    assert!(settings.admin.token.is_none());
    assert_eq!(settings.grpc.max_connection_age, Some(Duration::from_secs(86_400)));
    assert_eq!(settings.grpc.max_connection_age_grace, Some(Duration::from_secs(3_600)));
    assert!(settings.grpc.tls.is_none());
    assert_eq!((settings.log.level, settings.log.format), (LogLevel::Info, LogFormat::Text));
    assert_eq!(settings.rules.origin, RuleOrigin::Default);
    assert!(settings.metrics.statsd.is_none() && settings.metrics.prometheus.is_none());
    assert!(settings.tracing.is_none());
    assert!(settings.replies.headers.is_none());
    assert!((settings.replies.near_limit_ratio - 0.8).abs() < f32::EPSILON);
    assert!(matches!(settings.store, StoreSettings::Memory(Capacity { keys: 10_000_000, .. })));
}

/// The environment of Istio's sample, as it stands in its manifest.
#[test]
fn the_environment_of_istio_is_understood() {
    let (settings, warnings) = resolved(&[
        ("LOG_LEVEL", "debug"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", "redis:6379"),
        ("USE_STATSD", "false"),
        ("RUNTIME_ROOT", "/data"),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("RUNTIME_IGNOREDOTFILES", "true"),
        ("HOST", "::"),
        ("GRPC_HOST", "::"),
    ]);
    assert_eq!(warnings.len(), 0, "{warnings:?}");
    assert_eq!(redis::redis(&settings).main.to_string(), "redis://redis:6379");
    assert_eq!(settings.http.to_string(), "[::]:8080");
    assert_eq!(settings.grpc.address.to_string(), "[::]:8081");
    assert_eq!(settings.log.level, LogLevel::Debug);
    assert!(settings.metrics.statsd.is_none());
    let RuleOrigin::Runtime(layout) = settings.rules.origin else { panic!("no runtime layout") };
    assert_eq!(layout.root, Path::new("/data"));
    assert_eq!((layout.subdirectory.as_str(), layout.app_directory.as_str()), ("ratelimit", "config"));
    assert!(layout.ignore_dot_files && !layout.watch_root);
}

/// What Envoy Gateway passes, file paths as in its deployment.
#[test]
fn the_environment_of_envoy_gateway_is_understood() {
    let (settings, warnings) = resolved(&[
        ("RUNTIME_ROOT", "/data"),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("RUNTIME_IGNOREDOTFILES", "true"),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("LOG_LEVEL", "info"),
        ("USE_STATSD", "false"),
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", "envoy-gateway:18001"),
        ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit"),
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", "/certs/tls.crt"),
        ("GRPC_SERVER_TLS_KEY", "/certs/tls.key"),
        ("GRPC_SERVER_TLS_CA_CERT", "/certs/ca.crt"),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/certs/tls.crt"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "/certs/tls.key"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/certs/ca.crt"),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", "redis.redis.svc:6379"),
        ("USE_PROMETHEUS", "true"),
        ("PROMETHEUS_ADDR", ":19001"),
        ("PROMETHEUS_MAPPER_YAML", "/etc/statsd-exporter/conf.yaml"),
        ("TRACING_ENABLED", "true"),
        ("TRACING_SERVICE_NAME", "envoy-ratelimit"),
        ("TRACING_SERVICE_NAMESPACE", "envoy-gateway-system"),
        ("TRACING_SERVICE_INSTANCE_ID", "pod-1"),
        ("TRACING_SAMPLING_RATE", "1.0"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4318/v1/traces"),
    ]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(redis::redis(&settings).main.to_string(), "redis://redis.redis.svc:6379");
    assert!(warnings[0].starts_with("GRPC_SERVER_TLS_CA_CERT is set, but it has no effect"));
    let tls = settings.grpc.tls.unwrap();
    assert_eq!(tls.client_ca, None, "no certificates are demanded of callers");
    let RuleOrigin::Xds(xds) = settings.rules.origin else { panic!("no xDS") };
    assert_eq!((xds.server.as_str(), xds.node_id.as_str()), ("envoy-gateway:18001", "envoy-ratelimit"));
    let xds_tls = xds.tls.unwrap();
    assert_eq!(xds_tls.ca, Some(PathBuf::from("/certs/ca.crt")));
    assert!(xds_tls.identity.is_some());
    assert!(settings.rules.force_start);
    let prometheus = settings.metrics.prometheus.unwrap();
    assert_eq!((prometheus.address, prometheus.path.as_str()), (ListenAddress::new("", 19_001), "/metrics"));
    let tracing = settings.tracing.unwrap();
    assert_eq!(tracing.protocol, OtlpProtocol::Http);
    assert!(tracing.endpoint_is_exact);
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let text =
        "listen: { http: '127.0.0.1:1', grpc: '127.0.0.1:2', admin: '127.0.0.1:3' }\nrules: file.yaml\n";
    let file = ConfigFile::parse("tollgate.yaml", text).unwrap();
    let env = environment(&[("PORT", "10"), ("GRPC_HOST", "127.0.0.2")]);
    let flags = Flags::default().with(&rows::HTTP_ADDRESS.row, "[::1]:100");
    let (settings, _) = Settings::resolve(&flags, &env, Some(&file)).unwrap();
    assert_eq!(settings.http.to_string(), "[::1]:100");
    assert_eq!(settings.grpc.address.to_string(), "127.0.0.2:2");
    assert_eq!(settings.admin.address.to_string(), "127.0.0.1:3");
    assert_eq!(settings.rules.origin, RuleOrigin::Paths(vec!["file.yaml".into()]));

    let flags = Flags::default().with(&rows::RULES.row, "flag.yaml");
    let env = environment(&[("RUNTIME_ROOT", "/data"), ("CONFIG_TYPE", "GRPC_XDS_SOTW")]);
    let (settings, warnings) = Settings::resolve(&flags, &env, Some(&file)).unwrap();
    assert_eq!(settings.rules.origin, RuleOrigin::Paths(vec!["flag.yaml".into()]));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn every_mistake_is_told_at_once_with_its_name_and_what_is_right() {
    let found = mistakes(&[
        ("PORT", "http"),
        ("GRPC_HOST", "a b"),
        ("SHADOW_MODE", "yes"),
        ("GRPC_MAX_CONNECTION_AGE", "10"),
        ("LOG_LEVEL", "loud"),
        ("LOG_FORMAT", "xml"),
        ("CONFIG_TYPE", "MAGIC"),
        ("NEAR_LIMIT_RATIO", "80"),
        ("STATSD_PROTOCOL", "icmp"),
        ("EXTRA_TAGS", "lonely"),
        ("GRPC_SERVER_USE_TLS", "true"),
        ("LIMIT_LIMIT_HEADER", "a b"),
    ]);
    let expected = [
        "STATSD_PROTOCOL: 'icmp' is not a protocol for StatsD; write tcp or udp",
        "EXTRA_TAGS: an item is no pair of a name and a value; write name:value,name:value",
        "PORT: 'http' is not a port; write a number from 0 to 65535",
        "GRPC_HOST: 'a b' is not a host; write an IP address or a name",
        "GRPC_MAX_CONNECTION_AGE: '10' has no unit; write 10s, 10ms or 10m",
        "GRPC_SERVER_TLS_CERT: GRPC_SERVER_USE_TLS needs it; write the path of a PEM file",
        "GRPC_SERVER_TLS_KEY: GRPC_SERVER_USE_TLS needs it; write the path of a PEM file",
        "LOG_LEVEL: 'loud' is not a level; write trace, debug, info, warn or error",
        "LOG_FORMAT: 'xml' is not a form of logs; write text or json",
        "CONFIG_TYPE: 'MAGIC' is no source of rules; write FILE or GRPC_XDS_SOTW",
        "LIMIT_LIMIT_HEADER: 'a b' is not a header name; write letters, digits and dashes",
        "SHADOW_MODE: 'yes' is neither true nor false; write true or false",
        "NEAR_LIMIT_RATIO: '80' is not a part of a whole; write a number from 0 to 1, such as 0.8",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let names: Vec<&str> = rows::all().map(|row| row.variable).filter(|name| !name.is_empty()).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (*name, "")).collect();
    let (settings, warnings) = resolved(&pairs);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(settings.rules.origin, RuleOrigin::Default);
}

#[test]
fn a_variable_that_cannot_be_honoured_is_named_once() {
    for group in IGNORED {
        for name in group.variables {
            let (_, warnings) = resolved(&[(name, "1")]);
            assert_eq!(warnings, [format!("{name} is set, but {}", group.reason)]);
        }
    }
    let (_, warnings) = resolved(&[("BACKEND_TYPE", "memcache")]);
    assert!(warnings[0].starts_with("BACKEND_TYPE is memcache, which is not used"), "{warnings:?}");
}

#[test]
fn a_variable_of_ours_that_is_no_setting_is_named_with_what_may_be_meant() {
    let (_, warnings) = resolved(&[
        ("TOLLGATE_ADMIN_TOKN", "hunter2"),
        ("TOLLGATE_COLOUR", "red"),
        ("TOLLGATE_STOER", "memory"),
    ]);
    let expected = [
        "TOLLGATE_ADMIN_TOKN is set, but there is no such setting; did you mean TOLLGATE_ADMIN_TOKEN?",
        "TOLLGATE_COLOUR is set, but there is no such setting; 'tollgate serve --help' lists all settings",
        "TOLLGATE_STOER is set, but there is no such setting; 'tollgate serve --help' lists all settings",
    ];
    assert_eq!(warnings, expected);
}

/// Kubernetes sets these in every pod beside a service called `tollgate`.
#[test]
fn variables_of_a_service_called_tollgate_are_not_taken_for_settings() {
    let (_, warnings) = resolved(&[
        ("TOLLGATE_SERVICE_HOST", "10.0.0.1"),
        ("TOLLGATE_SERVICE_PORT", "8081"),
        ("TOLLGATE_SERVICE_PORT_GRPC", "8081"),
        ("TOLLGATE_PORT", "tcp://10.0.0.1:8081"),
        ("TOLLGATE_PORT_8081_TCP", "tcp://10.0.0.1:8081"),
        ("TOLLGATE_PORT_8081_TCP_PROTO", "tcp"),
        ("TOLLGATE_PORT_8081_TCP_PORT", "8081"),
        ("TOLLGATE_PORT_8081_TCP_ADDR", "10.0.0.1"),
    ]);
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn the_admin_listener_opens_to_the_network_with_a_token_only() {
    let (closed, warnings) = resolved(&[("DEBUG_HOST", "0.0.0.0"), ("DEBUG_PORT", "7000")]);
    assert_eq!(closed.admin.address.to_string(), "127.0.0.1:7000");
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("DEBUG_HOST is set, but without TOLLGATE_ADMIN_TOKEN"), "{warnings:?}");
    let (open, warnings) = resolved(&[("DEBUG_HOST", "0.0.0.0"), ("TOLLGATE_ADMIN_TOKEN", "hunter2")]);
    assert_eq!(open.admin.address.to_string(), "0.0.0.0:6070");
    assert_eq!(warnings, [""; 0]);
    assert!(!format!("{open:?}").contains("hunter2"));
    let flags = Flags::default().with(&rows::ADMIN_ADDRESS.row, "0.0.0.0:6070");
    let error = Settings::resolve(&flags, &environment(&[]), None).unwrap_err();
    let message = "--admin: the admin listener on 0.0.0.0:6070 needs a token; \
                   set TOLLGATE_ADMIN_TOKEN, or write 127.0.0.1:6070";
    assert_eq!(error.to_string(), message);
}

#[test]
fn grpc_listens_on_a_unix_socket_if_asked() {
    let unix = |path: &str| GrpcAddress::Unix(path.into());
    assert_eq!(settings(&[("GRPC_UDS", "/run/rls.sock")]).grpc.address, unix("/run/rls.sock"));
    assert_eq!(
        with_file("listen: { grpc: 'unix:/run/a.sock' }\n").unwrap().grpc.address,
        unix("/run/a.sock")
    );
    let flags = Flags::default().with(&rows::GRPC_ADDRESS.row, "127.0.0.1:9");
    let (settings, _) =
        Settings::resolve(&flags, &environment(&[("GRPC_UDS", "/run/rls.sock")]), None).unwrap();
    assert_eq!(settings.grpc.address, GrpcAddress::Tcp(ListenAddress::new("127.0.0.1", 9)));
}

#[test]
fn two_listeners_on_one_port_are_refused() {
    let message = "listeners: HTTP on 0.0.0.0:8081 and gRPC on 0.0.0.0:8081 take each other's calls; \
                   write different ports";
    assert_eq!(mistakes(&[("PORT", "8081")]), [message]);
    settings(&[("PORT", "0"), ("GRPC_PORT", "0"), ("DEBUG_PORT", "0")]);
}

#[test]
fn statsd_is_used_only_if_asked_for() {
    let plain = settings(&[("USE_STATSD", "true")]).metrics.statsd.unwrap();
    assert_eq!((plain.host.as_str(), plain.port), ("localhost", 8125));
    assert_eq!((plain.protocol, plain.dialect), (StatsdProtocol::Tcp, StatsdDialect::Plain));
    assert!(settings(&[("STATSD_HOST", "stats")]).metrics.statsd.is_some());
    assert!(settings(&[("STATSD_HOST", "stats"), ("USE_STATSD", "false")]).metrics.statsd.is_none());
    assert!(settings(&[("USE_STATSD", "true"), ("DISABLE_STATS", "true")]).metrics.statsd.is_none());
    assert_eq!(
        mistakes(&[("USE_STATSD", "true"), ("USE_PROMETHEUS", "true")]),
        ["USE_STATSD: USE_STATSD and USE_PROMETHEUS exclude each other; set all but one to false"]
    );
}

#[test]
fn dog_statsd_rewrites_names_in_the_order_named() {
    let dog = settings(&[
        ("USE_DOG_STATSD", "true"),
        ("USE_DOG_STATSD_MOGRIFIERS", "HITS,OTHER"),
        ("DOG_STATSD_MOGRIFIER_HITS_PATTERN", r"^ratelimit\.(.*)$"),
        ("DOG_STATSD_MOGRIFIER_HITS_NAME", "ratelimit.$1"),
        ("DOG_STATSD_MOGRIFIER_HITS_TAGS", "domain:$1"),
        ("DOG_STATSD_MOGRIFIERS_OTHER_PATTERN", ".*"),
    ]);
    let statsd = dog.metrics.statsd.unwrap();
    assert_eq!(statsd.protocol, StatsdProtocol::Udp);
    let StatsdDialect::Dog(mogrifiers) = statsd.dialect else { panic!("not DogStatsD") };
    assert_eq!(mogrifiers[0].tags, [("domain".to_owned(), "$1".to_owned())]);
    assert_eq!((mogrifiers[0].name.as_str(), mogrifiers[1].pattern.as_str()), ("ratelimit.$1", ".*"));
    let missing = mistakes(&[("USE_DOG_STATSD", "true"), ("USE_DOG_STATSD_MOGRIFIERS", "X")]);
    assert_eq!(
        missing,
        ["DOG_STATSD_MOGRIFIER_X_PATTERN: USE_DOG_STATSD_MOGRIFIERS names it; write a regular expression"]
    );
}

#[test]
fn xds_settings_are_read_and_secrets_hidden() {
    let settings = settings(&[
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", "[::1]:18000"),
        ("CONFIG_GRPC_XDS_NODE_METADATA", "region=eu,zone=1"),
        ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "authorization=Bearer hunter2,x-a:b"),
        ("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "100ms"),
        ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "1s"),
        ("XDS_CLIENT_BACKOFF_JITTER", "false"),
        ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "1000"),
    ]);
    assert!(!format!("{settings:?}").contains("hunter2"));
    let RuleOrigin::Xds(xds) = settings.rules.origin else { panic!("no xDS") };
    assert_eq!(xds.server, "[::1]:18000");
    assert_eq!(xds.node_metadata[1], ("zone".to_owned(), "1".to_owned()));
    assert_eq!(xds.headers[0].1.expose(), "Bearer hunter2");
    assert_eq!(xds.headers[1].0, "x-a");
    assert_eq!((xds.backoff.random_permille, xds.max_message_bytes), (0, 1_000));
    assert_eq!(mistakes(&[("CONFIG_GRPC_XDS_SERVER_URL", "nowhere")]).len(), 1);
    let wrong = mistakes(&[("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "a b=hunter2")]);
    assert!(wrong[0].ends_with("header 'a b' cannot be sent; write a header of plain text"), "{wrong:?}");
}

#[test]
fn rejected_requests_are_not_counted_where_that_is_asked_for() {
    let stop = ("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "true");
    for origin in ["GRPC_XDS_SOTW", "FILE"] {
        let (settings, warnings) = resolved(&[stop, ("CONFIG_TYPE", origin)]);
        assert!(settings.rules.stop_counting_rejected && warnings.is_empty(), "{warnings:?}");
    }
}

#[test]
fn history_is_kept_in_a_folder_unless_it_is_turned_off() {
    let kept = settings(&[]).history.unwrap();
    assert_eq!(kept.folder, Path::new("./tollgate-data"));
    assert_eq!(kept.route_keys, ["path", "route", "url"]);
    assert!(settings(&[("TOLLGATE_HISTORY", "false")]).history.is_none());
    let asked = [("TOLLGATE_DATA", "/from/environment"), ("TOLLGATE_HISTORY_ROUTE_KEYS", "page, api")];
    let flags = Flags::default().with(&rows::DATA.row, "/from/flag");
    let (settings, _) = Settings::resolve(&flags, &environment(&asked), None).unwrap();
    let history = settings.history.unwrap();
    assert_eq!((history.folder.as_path(), history.route_keys.len()), (Path::new("/from/flag"), 2));
    let wrong = [("TOLLGATE_HISTORY_KEYS", "plain")];
    let told = "TOLLGATE_HISTORY_KEYS: 'plain' is not a way to keep keys; write clear, hashed or off";
    assert_eq!(mistakes(&wrong), [told]);
    let error = with_file("history: { templates: [users] }").unwrap_err();
    assert!(error.contains("tollgate.yaml:1:23: ") && error.contains("/users/{id}"), "{error}");
}

/// What help and guide show as the default of a flag or a variable can be written there.
#[test]
fn every_default_that_is_offered_is_accepted() {
    let places = |row: &SettingRow, value: &str| {
        let by_flag = (!row.flag.is_empty() && row.flag != "--config")
            .then(|| Settings::resolve(&Flags::default().with(row, value), &environment(&[]), None));
        let by_variable = (!row.variable.is_empty())
            .then(|| Settings::resolve(&Flags::default(), &environment(&[(row.variable, value)]), None));
        [by_flag, by_variable].into_iter().flatten().filter_map(Result::err).collect::<Vec<_>>()
    };
    for row in rows::all().filter(|row| !row.default.is_empty()) {
        let refused = places(row, row.default);
        assert!(refused.is_empty(), "{}={} is refused: {refused:?}", row.name(), row.default);
    }
}

#[test]
fn quiet_leaves_warnings_and_errors() {
    let level = |flags: &Flags, variables: &[(&str, &str)]| {
        Settings::resolve(flags, &environment(variables), None).unwrap().0.log.level
    };
    let quiet = Flags::default().with(&rows::QUIET.row, "true");
    assert_eq!(level(&quiet, &[]), LogLevel::Warn);
    assert_eq!(level(&quiet, &[("LOG_LEVEL", "debug")]), LogLevel::Warn);
    assert_eq!(level(&quiet, &[("LOG_LEVEL", "error")]), LogLevel::Error);
    let chatty = Flags::default().with(&rows::LOG_LEVEL.row, "debug");
    assert_eq!(level(&chatty, &[("LOG_LEVEL", "error")]), LogLevel::Debug, "a flag wins");
}

#[test]
fn counters_are_saved_with_a_folder_or_without_unless_it_is_turned_off() {
    assert_eq!(settings(&[]).snapshots.as_deref(), Some(Path::new("./tollgate-data")));
    assert_eq!(settings(&[("TOLLGATE_DATA", "/d")]).snapshots.as_deref(), Some(Path::new("/d")));
    let without_history = settings(&[("TOLLGATE_HISTORY", "false")]);
    assert!(without_history.snapshots.is_some());
    let off = [("TOLLGATE_SNAPSHOTS", "false"), ("TOLLGATE_DATA", "/d")];
    assert_eq!(settings(&off).snapshots, None);
}

#[test]
fn resp_is_off_until_it_is_asked_for() {
    assert!(settings(&[("TOLLGATE_RESP_PASSWORD", "hunter2")]).resp.is_none());
    assert!(settings(&[("TOLLGATE_RESP", "off")]).resp.is_none());
    let asked = [("TOLLGATE_RESP", "127.0.0.1:6380"), ("TOLLGATE_RESP_PASSWORD", "hunter2")];
    let flags = Flags::default().with(&rows::RESP_ADDRESS.row, ":6381");
    let (settings, _) = Settings::resolve(&flags, &environment(&asked), None).unwrap();
    let resp = settings.resp.unwrap();
    assert_eq!((resp.address.port, resp.password.unwrap().expose(), resp.tls), (6381, "hunter2", None));
    let filed =
        with_file("listen: { resp: '127.0.0.1:6380' }\nresp: { tls: { cert: a, key: b, client_ca: c } }\n");
    let tls = filed.unwrap().resp.unwrap().tls.unwrap();
    assert_eq!((tls.cert, tls.key, tls.client_ca), ("a".into(), "b".into(), Some("c".into())));
}

#[test]
fn wrong_settings_of_our_own_listeners_are_told() {
    let told = mistakes(&[("TOLLGATE_RESP", "6380"), ("TOLLGATE_RESP_TLS_CERT", "a.pem")]);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("TOLLGATE_RESP: '6380' is not an address; write HOST:PORT"), "{told:?}");
    let key = "TOLLGATE_RESP_TLS_KEY: TLS of the RESP listener needs it; write the path of a PEM file";
    assert_eq!(told[1], key);
    let told = mistakes(&[("TOLLGATE_HTTP_TLS_CERT", "a.pem"), ("TOLLGATE_HTTP_TLS_CLIENT_SAN", "envoy")]);
    let needed = "TLS of the HTTP listener needs it; write the path of a PEM file";
    assert_eq!(told, ["KEY", "CLIENT_CA"].map(|name| format!("TOLLGATE_HTTP_TLS_{name}: {needed}")));
    let told = mistakes(&[("TOLLGATE_RESP", "127.0.0.1:8080")]);
    assert!(told[0].contains("HTTP on 0.0.0.0:8080 and RESP on 127.0.0.1:8080"), "{told:?}");
}

/// Every key of the list, so that a key which the reader forgets is noticed.
#[test]
fn every_key_of_the_file_is_accepted() {
    let text = include_str!("complete.yaml");
    let file = ConfigFile::parse("complete.yaml", text).unwrap();
    let (settings, warnings) = Settings::resolve(&Flags::default(), &environment(&[]), Some(&file)).unwrap();
    assert_eq!(warnings.len(), 0, "{warnings:?}");
    assert_eq!(redis::redis(&settings).key_prefix, "shop:");
    assert_eq!(settings.metrics.statsd.as_ref().unwrap().tags, [("region".to_owned(), "eu".to_owned())]);
    let RuleOrigin::Xds(xds) = settings.rules.origin else { panic!("no xDS") };
    assert_eq!(xds.headers[0].0, "authorization");
    assert_eq!(xds.backoff.random_permille, 250);
    for row in rows::all().filter(|row| !row.key.is_empty()) {
        let last = row.key.rsplit('.').next().unwrap_or_default();
        assert!(text.contains(&format!("{last}:")), "complete.yaml lacks {}", row.key);
    }
}

#[test]
fn a_wrong_file_is_refused_with_places() {
    let cases = [
        (
            "listen:\n  htpp: ':8080'\nmemry: {}\n",
            "tollgate.yaml:2:3: unknown key 'listen.htpp'; write listen.http\n\
             tollgate.yaml:3:1: unknown key 'memry'; write memory",
        ),
        (
            "log: { level: loud, colour: red }\nmemory: { keys: many }\n",
            "tollgate.yaml:1:15: 'loud' is not a level; write trace, debug, info, warn or error\n\
             tollgate.yaml:1:21: unknown key 'log.colour'; write log.level or log.format\n\
             tollgate.yaml:2:17: 'many' is not a whole number in range; write one",
        ),
        ("memory: { keys: many }\n", "tollgate.yaml:1:17: 'many' is not a whole number in range; write one"),
        (
            "memory: 5\n",
            "tollgate.yaml:1:9: 'memory' is a section; write memory.keys, memory.log_bytes, memory.snapshots below it",
        ),
        ("log: { level: [info] }\n", "tollgate.yaml:1:15: must be one value; write a text or a number"),
        ("connections: { max_age: 1 }\n", "tollgate.yaml:1:25: '1' has no unit; write 1s, 1ms or 1m"),
        ("[]\n", "tollgate.yaml:1:1: a file of settings is a map; write listen: and the like"),
        ("listen: { http: ':1', http: ':2' }\n", "tollgate.yaml:1:23: 'http' is given twice; write it once"),
        ("log: {}\n---\nlog: {}\n", "tollgate.yaml:2:1: a second document is not read"),
        ("log: {\n", "tollgate.yaml:"),
        ("listen: { admin: ':6070' }\n", "tollgate.yaml:1:18: the admin listener on :6070 needs a token"),
    ];
    for (text, expected) in cases {
        let error = with_file(text).unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    assert_eq!(with_file("").unwrap().http.port, 8080);
    assert_eq!(with_file("# nothing\n").unwrap().http.port, 8080);
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let error = ConfigFile::find(Some(Path::new("no/such.yaml"))).unwrap_err().to_string();
    assert!(error.starts_with("no/such.yaml: cannot be read: "), "{error}");
    assert!(ConfigFile::find(None).unwrap().is_none());
    // One that is there says what is to be done about it.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("latin1.yaml");
    std::fs::write(&path, b"rules: [caf\xe9]\n").unwrap();
    let error = ConfigFile::find(Some(&path)).unwrap_err().to_string();
    assert!(error.ends_with("the file is not UTF-8 text, see line 1; save it as UTF-8"), "{error}");
}

/// Variables that remember which of them were read.
#[derive(Default)]
struct ReadVariables(RefCell<HashSet<String>>);

impl Variables for ReadVariables {
    fn get(&self, name: &str) -> Option<String> {
        self.0.borrow_mut().insert(name.to_owned());
        // Without these there is nothing to say about Redis.
        match name {
            "REDIS_URL" | "REDIS_PERSECOND_URL" => Some("redis://localhost".to_owned()),
            "REDIS_PERSECOND" => Some("true".to_owned()),
            _ => None,
        }
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn every_variable_of_the_list_is_read() {
    let asked = ReadVariables::default();
    Settings::resolve(&Flags::default(), &asked, None).unwrap();
    let asked = asked.0.into_inner();
    for row in rows::all().filter(|row| !row.variable.is_empty()) {
        assert!(asked.contains(row.variable), "{} is documented and not read", row.variable);
    }
}

/// The page is made from the list; where they differ, the right one lies ready.
#[test]
fn the_page_of_settings_is_made_from_the_list() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/settings.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mark = "<!-- made from crates/settings/src/rows.rs; do not edit below -->\n";
    let (head, tables) = page.split_once(mark).expect("the page has lost its mark");
    let right = Path::new(env!("CARGO_TARGET_TMPDIR")).join("settings.md");
    std::fs::write(&right, format!("{head}{mark}\n{}", help::markdown())).unwrap();
    let is_same = tables.trim() == help::markdown().trim();
    assert!(is_same, "the page is old; run: cp {} docs/guide/settings.md", right.display());
}

#[test]
fn levels_are_read_and_what_makes_no_sense_is_told() {
    let resolve = |text: &str| {
        let file = ConfigFile::parse("tollgate.yaml", text).unwrap();
        Settings::resolve(&Flags::default(), &HashMap::new(), Some(&file))
    };
    let (settings, warnings) = resolve(
        "levels: { connections: { per_second: 5, open: 9, exempt: [10.0.0.0/8] }, requests: { per_second: 7, burst: 20 } }",
    )
    .unwrap();
    let connections = settings.levels.connections.unwrap();
    assert_eq!((connections.rate.unwrap().capacity(), connections.open), (5, Some(9)));
    assert_eq!(connections.listeners, [LimitedListener::Gateway]);
    assert!(connections.exempts([10, 1, 2, 3].into()) && !connections.exempts([127, 0, 0, 1].into()));
    assert_eq!(settings.levels.requests.unwrap().capacity(), 20);
    assert!(warnings.is_empty(), "{warnings:?}");
    let (_, warnings) = resolve("levels: { requests: { burst: 20 } }").unwrap();
    let expected = "levels.requests.burst is set, but has no effect without levels.requests.per_second";
    assert_eq!(warnings[0].message, expected);
    let wrong = resolve("levels: { connections: { open: 0, listeners: [admin], exempt: [x] } }").unwrap_err();
    for part in ["0 would let nobody in", "'admin' is not a listener", "'x'"] {
        assert!(wrong.to_string().contains(part), "{wrong}");
    }
}
