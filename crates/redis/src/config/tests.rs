//! Addresses of every form, and that no password is ever shown.

use super::*;

fn read(text: &str) -> Endpoint {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn tcp(host: &str, port: u16) -> ServerAddress {
    ServerAddress::Tcp { host: host.into(), port }
}

#[test]
fn every_form_is_read_and_shown_without_its_password() {
    for (text, shown) in [
        ("redis://localhost", "redis://localhost:6379"),
        ("redis://10.0.0.1:7000/3", "redis://10.0.0.1:7000/3"),
        ("rediss://app:s3cret@db:7000", "rediss://db:7000"),
        ("redis://:p%40ss@[::1]:7000/0", "redis://[::1]:7000"),
        ("redis+unix:///run/redis.sock", "redis+unix:///run/redis.sock"),
        ("redis+cluster://a:1,b:2,c", "redis+cluster://a:1,b:2,c:6379"),
        ("rediss+sentinel://:pw@a,b:2/main", "rediss+sentinel://a:26379,b:2/main"),
        ("redis+sentinel://a:1/main/4", "redis+sentinel://a:1/main/4"),
    ] {
        assert_eq!(read(text).to_string(), shown);
    }
}

#[test]
fn a_user_and_a_password_are_read_with_their_escapes() {
    let endpoint = read("redis://app:a%3Ab@c@db");
    assert_eq!(endpoint.credentials.user.as_deref(), Some("app"));
    assert_eq!(endpoint.credentials.password, Some(Secret::new("a:b@c")));
    assert_eq!(endpoint.topology, Topology::Single(tcp("db", 6379)));
}

#[test]
fn nothing_that_is_printed_holds_the_password() {
    let mut config = RedisConfig::new(read("redis+sentinel://app:s3cret@a:1/main"));
    let Topology::Sentinel { credentials, .. } = &mut config.main.topology else { panic!("a sentinel") };
    *credentials = Credentials::parse("other:s3cret");
    let client = ClientCertificate { chain: "c".into(), key: Secret::new("s3cret") };
    config.main.tls = Some(RedisTls { client: Some(client), ..RedisTls::default() });
    let printed = format!("{config:?} {config:#?} {}", config.main);
    assert!(!printed.contains("s3cret"), "{printed}");
    for text in ["redis:/x:s3cret@h", "redis://x:s3cret@h:port", "nope://x:s3cret@h", "redis://x:%s3cret@h"] {
        let error = text.parse::<Endpoint>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
}

#[test]
fn what_is_wrong_is_told_with_what_to_write() {
    for (text, part) in [
        ("localhost:6379", "a store needs a scheme"),
        ("http://localhost", "unknown scheme http"),
        ("redis://", "a host is missing"),
        ("redis://h:x", "the port of h is not a number"),
        ("redis://h/x", "the database is not a number"),
        ("redis+unix://run/x", "needs its whole path"),
        ("redis+sentinel://h:1", "the name of the master is missing"),
        ("redis+cluster://h:1/2", "no numbered databases"),
        ("redis://h?db=1", "takes no ?"),
    ] {
        let error = text.parse::<Endpoint>().unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("; "), "{text}: {error}");
    }
}

#[test]
fn the_settings_of_the_reference_mean_the_same_here() {
    let reference = |redis_type: &str, url: &str| EnvoyRedisSettings {
        redis_type: redis_type.into(),
        url: url.into(),
        socket_type: SocketType::Tcp,
        ..EnvoyRedisSettings::default()
    };
    let single = reference("SINGLE", "redis:6379").endpoint().unwrap();
    assert_eq!(single.topology, Topology::Single(tcp("redis", 6379)));
    let cluster = reference("cluster", "redis://u:p@a:1,b:2").endpoint().unwrap();
    assert_eq!(cluster.topology, Topology::Cluster(vec![tcp("a", 1), tcp("b", 2)]));
    assert_eq!(cluster.credentials.user.as_deref(), Some("u"));
    let mut sentinel = reference("Sentinel", "mymaster,s1:1,s2:2");
    sentinel.auth = Some(Secret::new("user:pass:word"));
    sentinel.sentinel_auth = Some(Secret::new("word"));
    let sentinel = sentinel.endpoint().unwrap();
    assert_eq!(sentinel.to_string(), "redis+sentinel://s1:1,s2:2/mymaster");
    assert_eq!(sentinel.credentials.password, Some(Secret::new("pass:word")));
    let Topology::Sentinel { credentials, .. } = sentinel.topology else { panic!("a sentinel") };
    assert_eq!(credentials, Credentials { user: None, password: Some(Secret::new("word")) });
    let unix = EnvoyRedisSettings { url: "/var/run/x.sock".into(), ..EnvoyRedisSettings::default() }
        .endpoint()
        .unwrap();
    assert_eq!(unix.to_string(), "redis+unix:///var/run/x.sock");
}
