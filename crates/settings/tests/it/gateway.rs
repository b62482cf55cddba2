//! `gateway` in `tollgate.yaml`: routes and upstreams; what is wrong, where, all at once.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use tollgate_settings::{ConfigFile, Flags, GatewaySettings, Settings, needing_restart, rows};

const LISTEN: &str = "listen: { gateway: '127.0.0.1:8000' }\n";

fn resolved(text: &str, flags: &Flags) -> Result<(Settings, Vec<String>), String> {
    let file =
        ConfigFile::parse("tollgate.yaml", &format!("{LISTEN}{text}")).map_err(|error| error.to_string())?;
    let resolved = Settings::resolve(flags, &HashMap::new(), Some(&file));
    let told = |(settings, warnings): (Settings, Vec<_>)| {
        (settings, warnings.iter().map(ToString::to_string).collect())
    };
    resolved.map(told).map_err(|error| error.to_string())
}

fn gateway(text: &str) -> GatewaySettings {
    resolved(text, &Flags::default()).unwrap().0.gateway.unwrap()
}

fn refused(text: &str) -> String {
    resolved(text, &Flags::default()).expect_err("it is wrong")
}

#[test]
fn routes_have_groups_and_what_they_leave_out_is_as_in_general() {
    let GatewaySettings { config, .. } = gateway(
        r#"
mapping: { domain: edge, trusted_proxies: [10.0.0.0/8], descriptors: [[method: {}]] }
gateway:
  timeouts: { idle: 7s }
  upstreams:
    shop: [http://10.0.0.1:9000, http://10.0.0.2:9000]
    users: { servers: http://10.0.0.3:9000 }
  routes:
    - host: [users.example, "*.users.example"]
      path: [/login, "/users/{id}"]
      method: [post, GET]
      headers: { X-Beta: "1", X-Any: "*" }
      upstream: users
      timeouts: { first_byte: 5s }
      mapping: { descriptors: [[remote_address: {}]] }
    - { path: /old, upstream: "http://10.0.0.4:80" }
    - upstream: shop
"#,
    );
    let [users, old, shop] = config.routes.as_slice() else { panic!("{config:?}") };
    assert_eq!(
        (users.group.to_string(), old.group.to_string()),
        ("http://10.0.0.3:9000".into(), "http://10.0.0.4:80".into())
    );
    assert_eq!(shop.group.to_string(), "http://10.0.0.1:9000, http://10.0.0.2:9000");
    let conditions = &users.conditions;
    assert_eq!((conditions.hosts.len(), conditions.methods.len(), conditions.headers.len()), (2, 2, 2));
    assert_eq!(conditions.paths.as_ref().unwrap().matched(b"/users/7"), Some("/users/{id}"));
    assert!(shop.conditions.are_empty() && shop.mapping.is_none());
    assert_eq!(
        (users.timeouts.first_byte, users.timeouts.idle),
        (Duration::from_secs(5), Duration::from_secs(7))
    );
    let mapping = users.mapping.as_ref().unwrap();
    assert_eq!(mapping.domain(), "edge");
    assert!(mapping.proxies().trusts([10, 0, 0, 1].into()));
}

#[test]
fn a_group_says_how_its_upstreams_are_spoken_to_and_watched() {
    let GatewaySettings { config, .. } = gateway(
        r#"
gateway:
  upstreams:
    shop:
      servers: ["https://10.0.0.1", "https://10.0.0.2:8443"]
      host: shop.internal
      tls: { ca: ca.pem, server_name: shop.internal, cert: cert.pem, key: key.pem }
      eject: { after: 0 }
      health_check: { path: /healthz, interval: 1s, status: [200, 204], unhealthy_after: 1 }
"#,
    );
    let group = &config.routes[0].group;
    assert_eq!(group.host.as_ref().unwrap(), "shop.internal");
    assert_eq!(group.tls.ca.as_deref(), Some(Path::new("ca.pem")));
    assert!(group.tls.identity.is_some() && !group.tls.accepts_any_certificate);
    assert_eq!((group.eject.after, group.eject.base), (0, Duration::from_secs(10)));
    let check = group.health_check.as_ref().unwrap();
    assert_eq!((check.path.as_str(), check.interval.as_secs(), check.timeout.as_secs()), ("/healthz", 1, 2));
    assert_eq!((check.healthy_after, check.unhealthy_after), (2, 1));
    assert_eq!(check.statuses, [200, 204]);
}

#[test]
fn what_is_wrong_with_a_group_is_told() {
    let error = refused(
        r#"gateway:
  upstreams:
    shop:
      servers: [http://a]
      host: "a b"
      tls: { cert: cert.pem, verify: false }
      eject: { after: many }
      health_check: { path: healthz, interval: 1ms, status: [2xx] }
"#,
    );
    for line in [
        "tollgate.yaml:6:13: 'a b' is not a host; write such as api.internal",
        "tollgate.yaml:7:12: tls is for upstreams of https://, and there is none; write https://HOST:PORT",
        "tollgate.yaml:7:12: a certificate needs its key; write cert: FILE and key: FILE",
        "tollgate.yaml:7:30: unknown key 'verify';",
        "tollgate.yaml:8:23: after must be a whole number, this is the text 'many'",
        "tollgate.yaml:9:29: 'healthz' is not a path; write such as /healthz",
        "tollgate.yaml:9:48: interval is too short; write 100ms or more",
        "tollgate.yaml:9:62: '2xx' is not a status; write such as 200",
    ] {
        assert!(error.contains(line), "not told: {line}\ntold:\n{error}");
    }
}

#[test]
fn one_group_needs_no_routes() {
    let GatewaySettings { config, .. } = gateway("gateway: { upstreams: { shop: 'http://a:1' } }\n");
    let [only] = config.routes.as_slice() else { panic!("{config:?}") };
    assert!(only.conditions.are_empty());
    assert_eq!(only.group.name, "shop");
    let error = refused("gateway: { upstreams: { shop: 'http://a:1', users: 'http://b:1' } }\n");
    assert!(error.contains("several groups of upstreams; write which requests go where"), "{error}");
}

#[test]
fn a_group_that_nobody_uses_is_told_about() {
    let text =
        "gateway: { upstreams: { shop: 'http://a:1', users: 'http://b:1' }, routes: [{ upstream: shop }] }\n";
    assert_eq!(resolved(text, &Flags::default()).unwrap().1, ["no route of the gateway goes to users"]);
}

#[test]
fn an_upstream_beside_routes_is_one_too_many() {
    let flags = Flags::default().with(&rows::UPSTREAM.row, "http://a:1");
    let error = resolved("gateway: { routes: [{ upstream: 'http://b:1' }] }\n", &flags).unwrap_err();
    assert!(error.starts_with("--upstream: gateway.routes and gateway.upstreams say where"), "{error}");
}

#[test]
fn all_mistakes_are_told_at_once_with_their_places() {
    let error = refused(
        r#"gateway:
  upstreams:
    shop: [http://a:1, ftp://b, http://a:1]
    users: { severs: [http://a:1] }
    none: []
    shop: http://c:1
  routes:
    - { host: "a:80", path: users, method: "G T", upstream: shpo }
    - { pth: /a, upstream: shop }
    - { path: ["/a/{b}", "/a/{c}"] }
    - { headers: { "x y": 1, Host: a }, upstream: shop }
    - { upstream: "http://", timeouts: { idle: soon, first: 1s } }
    - { path: /b, upstream: shop, mapping: { descriptors: [[jwt_claim: { claim: sub }]], jwt: {} } }
    - { upstream: shop }
    - { path: /c, upstream: shop }
"#,
    );
    for line in [
        "tollgate.yaml:4:24: 'ftp://b' is not an upstream; write http://HOST:PORT, https://HOST:PORT or h2c://HOST:PORT",
        "tollgate.yaml:4:33: http://a:1 is given twice; write it once",
        "tollgate.yaml:5:14: unknown key 'severs'; write servers",
        "tollgate.yaml:6:11: none has no upstream;",
        "tollgate.yaml:7:5: 'shop' is given twice; write it once",
        "tollgate.yaml:9:15: 'a:80' is not a host; write such as api.example.com or *.example.com, without a port",
        "tollgate.yaml:9:29: 'users' cannot be a path template: it does not begin with a slash;",
        "tollgate.yaml:9:44: 'G T' is not a method; write such as GET",
        "tollgate.yaml:9:61: there is no upstream 'shpo'; write shop",
        "tollgate.yaml:10:9: unknown key 'pth'; write path",
        "tollgate.yaml:11:7: a route needs upstream; write upstream: NAME",
        "tollgate.yaml:11:26: '/a/{c}' cannot be a path template: it matches the same paths as /a/{b}",
        "tollgate.yaml:12:20: 'x y' is not the name of a header;",
        "tollgate.yaml:12:30: the host of a request is not only in its field; write host: beside headers:",
        "tollgate.yaml:13:19: 'http://' is not an upstream;",
        "tollgate.yaml:13:48: 'soon' is not a duration;",
        "tollgate.yaml:13:54: unknown key 'first'; write connect, first_byte, idle or total",
        "tollgate.yaml:14:44: a claim needs keys to verify tokens with;",
        "tollgate.yaml:14:90: unknown key 'jwt'; write domain or descriptors",
        "tollgate.yaml:16:7: no request gets to this route; write it before the one that takes all requests",
    ] {
        assert!(error.contains(line), "not told: {line}\ntold:\n{error}");
    }
}

#[test]
fn an_upstreams_password_is_not_repeated() {
    for upstream in ["u:hush@h:1", "http://u:hush@h:1"] {
        let error = refused(&format!("gateway: {{ routes: [{{ upstream: '{upstream}' }}] }}\n"));
        assert!(!error.contains("hush") && error.contains("cannot have a user or a password"), "{error}");
    }
}

/// It would listen nowhere, and nobody would be told.
#[test]
fn a_gateway_without_a_group_is_refused() {
    let error = refused("gateway: { upstreams: {} }\n");
    let told = "tollgate.yaml:2:23: gateway.upstreams is empty; write NAME: [http://HOST:PORT] below it";
    assert!(error.contains(told), "{error}");
}

#[test]
fn what_can_never_work_is_refused_with_its_place() {
    let error = refused(
        r#"gateway:
  timeouts: { connect: 0s, first_byte: 0ms, idle: 0s, total: 0s }
  upstreams: { shop: ["http://a:0", "http://a:65536", "http://a:x", "http://[::1]:"], good: { servers: ["http://a:65535"], eject: { for: 0s } } }
  routes:
    - { path: [], method: [], host: [], upstream: good }
    - { path: /a, upstream: "http://b:99999", timeouts: { first_byte: 0s, total: 0s } }
    - { upstream: good }
"#,
    );
    let zero = "'0s' would cut everything off; write such as 5s";
    let port = "write a port from 1 to 65535";
    let lines = [
        format!("tollgate.yaml:3:24: {zero}"),
        "tollgate.yaml:3:40: '0ms' would cut everything off; write such as 5s".to_owned(),
        format!("tollgate.yaml:3:51: {zero}"),
        format!("tollgate.yaml:4:23: 'http://a:0' has no port to connect to; {port}"),
        format!("tollgate.yaml:4:37: 'http://a:65536' has no port to connect to; {port}"),
        "tollgate.yaml:4:55: 'http://a:x' ".to_owned(),
        format!("tollgate.yaml:4:69: 'http://[::1]:' has no port to connect to; {port}"),
        format!("tollgate.yaml:4:138: {zero}"),
        "tollgate.yaml:6:15: path is an empty list, and no request would fit; write path: /PATH, or leave it out".to_owned(),
        "tollgate.yaml:6:27: method is an empty list, and no request would fit; write method: GET, or leave it out".to_owned(),
        "tollgate.yaml:6:37: host is an empty list, and no request would fit; write host: api.example.com, or leave it out".to_owned(),
        format!("tollgate.yaml:7:29: 'http://b:99999' has no port to connect to; {port}"),
        format!("tollgate.yaml:7:71: {zero}"),
    ];
    let wrong: Vec<&String> = lines.iter().filter(|line| !error.contains(*line)).collect();
    assert_eq!(wrong, [""; 0], "told:\n{error}");
    assert_eq!(error.matches("0s' would").count(), 4, "total may take any time:\n{error}");
}

/// All that is not followed is told, since the log says that the file is in force.
#[test]
fn what_needs_a_restart_is_named() {
    let read = |text: &str| resolved(text, &Flags::default()).unwrap().0.in_force;
    let old = read("gateway: { upstream: 'http://a:1' }\nlevels: { requests: { per_second: 5 } }\n");
    let new =
        read("gateway: { upstream: 'http://b:1' }\nlevels: { requests: { per_second: 6, burst: 9 } }\n");
    assert_eq!(needing_restart(&old, &new), ["levels.requests.per_second", "levels.requests.burst"]);
    assert_eq!(needing_restart(&old, &old), [""; 0]);
}
