//! Which store is meant, and how it is reached.

use super::*;

pub(crate) fn redis(settings: &Settings) -> &RedisConfig {
    match &settings.store {
        StoreSettings::Redis(config) => config,
        StoreSettings::Memory(_) => panic!("the store is memory"),
    }
}

/// The shared store that the settings choose.
#[test]
fn the_store_is_chosen_by_flag_before_variables_before_the_file() {
    let file = ConfigFile::parse("tollgate.yaml", "store: redis://file\n").unwrap();
    let chosen = |flag: Option<&str>, variables: &[(&str, &str)]| {
        let flags = Flags::default();
        let flags = flag.map_or(flags.clone(), |store| flags.with(&rows::STORE.row, store));
        let (settings, _) = Settings::resolve(&flags, &environment(variables), Some(&file)).unwrap();
        match settings.store {
            StoreSettings::Memory(_) => "memory".to_owned(),
            StoreSettings::Redis(config) => config.main.to_string(),
        }
    };
    let variables = [("REDIS_SOCKET_TYPE", "tcp"), ("REDIS_URL", "variable:1")];
    assert_eq!(chosen(None, &[]), "redis://file:6379");
    assert_eq!(chosen(None, &variables), "redis://variable:1");
    assert_eq!(chosen(Some("redis+cluster://a:1,b:2"), &variables), "redis+cluster://a:1,b:2");
    assert_eq!(chosen(Some("memory"), &variables), "memory");
}

#[test]
fn what_belongs_to_any_redis_is_taken_from_wherever_it_is_said() {
    let flags = Flags::default().with(&rows::STORE.row, "redis://host");
    let variables = [
        ("REDIS_AUTH", "me:hunter2"),
        ("REDIS_TIMEOUT", "5ms"),
        ("CACHE_KEY_PREFIX", "p:"),
        ("TOLLGATE_REDIS_LAYOUT", "envoy"),
        ("EXPIRATION_JITTER_MAX_SECONDS", "7"),
        ("LOCAL_CACHE_SIZE_IN_BYTES", "1000"),
        ("REDIS_PERSECOND", "true"),
        ("REDIS_PERSECOND_SOCKET_TYPE", "tcp"),
        ("REDIS_PERSECOND_URL", "master,s1:1,s2:2"),
        ("REDIS_PERSECOND_TYPE", "SENTINEL"),
    ];
    let (settings, warnings) = Settings::resolve(&flags, &environment(&variables), None).unwrap();
    assert!(warnings.is_empty());
    let config = redis(&settings);
    assert_eq!(config.main.credentials.user.as_deref(), Some("me"));
    assert_eq!(config.main.timeout, Duration::from_millis(5));
    assert_eq!((config.key_prefix.as_str(), config.denial_bytes), ("p:", 1_000));
    assert_eq!(config.layout, Layout::Envoy { jitter_max_s: 7 });
    let other = config.per_second.as_ref().map(ToString::to_string);
    assert_eq!(other.as_deref(), Some("redis+sentinel://s1:1,s2:2/master"));
    assert!(!format!("{settings:?}").contains("hunter2"));
}

#[test]
fn a_store_that_cannot_be_meant_is_told_without_its_password() {
    let told = mistakes(&[
        ("REDIS_URL", "redis://me:hunter2@host:x"),
        ("REDIS_SOCKET_TYPE", "udp"),
        ("REDIS_TIMEOUT", "0s"),
        ("TOLLGATE_REDIS_LAYOUT", "mine"),
        ("REDIS_TLS_CLIENT_CERT", "/nowhere/cert.pem"),
    ]);
    let all = told.join("\n");
    for part in [
        "REDIS_URL: the port of host is not a number; write host:port",
        "REDIS_SOCKET_TYPE: 'udp' is not a type of sockets; write tcp or unix",
        "REDIS_TIMEOUT: no time at all is too short",
        "TOLLGATE_REDIS_LAYOUT: 'mine' is not a layout; write tollgate or envoy",
        "REDIS_TLS_CLIENT_CERT: cannot read '/nowhere/cert.pem'",
    ] {
        assert!(all.contains(part), "{part}\n{all}");
    }
    assert!(!all.contains("hunter2"), "{all}");
    let flags = Flags::default().with(&rows::STORE.row, "postgres://me:hunter2@host");
    let error = Settings::resolve(&flags, &environment(&[]), None).unwrap_err().to_string();
    assert!(error.contains("--store: unknown scheme postgres; write redis://host:port"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn a_redis_at_a_port_needs_no_type_of_socket() {
    let at = |url: &str| redis(&settings(&[("REDIS_URL", url)])).main.to_string();
    assert_eq!(at("localhost:6379"), "redis://localhost:6379");
    assert_eq!(at("/run/redis.sock"), "redis+unix:///run/redis.sock");
}

#[test]
fn what_is_said_about_any_redis_holds_for_a_store_of_ours() {
    let flags = Flags::default().with(&rows::STORE.row, "redis+sentinel://a,b/main");
    let said = [("REDIS_AUTH", "one"), ("REDIS_SENTINEL_AUTH", "two"), ("REDIS_TLS", "true")];
    let (settings, _) = Settings::resolve(&flags, &environment(&said), None).unwrap();
    let main = &redis(&settings).main;
    assert_eq!(main.credentials, Credentials::parse("one"));
    let Topology::Sentinel { credentials, .. } = &main.topology else { panic!("{main}") };
    assert_eq!(*credentials, Credentials::parse("two"));
    assert!(main.tls.is_some(), "{main}");
}
