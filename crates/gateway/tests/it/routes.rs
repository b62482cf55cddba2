//! Routes: the first that fits is taken, with its upstream, its mapping and its timeouts.

use std::sync::Arc;
use std::time::Duration;

use tollgate_gateway::config::DEFAULT_DOMAIN;
use tollgate_gateway::{GatewayConfig, GatewayTimeouts, GroupConfig, RouteConditions, RouteConfig};
use tollgate_http::{Action, Fact, Mapping, PathTemplates};

use crate::support::{DEADLINE, GatewaySetup, Raw, RawUpstream, field, url};

/// A route to an upstream, for paths of these templates.
fn route(upstream: &RawUpstream, paths: &[&str]) -> RouteConfig {
    let paths = (!paths.is_empty()).then(|| PathTemplates::new(paths).unwrap());
    RouteConfig {
        conditions: RouteConditions { paths, ..RouteConditions::default() },
        group: Arc::new(GroupConfig::of(url(upstream.address))),
        mapping: None,
        timeouts: GatewayTimeouts::default(),
    }
}

fn config(routes: Vec<RouteConfig>) -> GatewayConfig {
    GatewayConfig { routes, max_wait: DEADLINE }
}

/// What an upstream answers that is called so.
fn named(name: &str) -> &'static str {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()).leak()
}

#[tokio::test]
async fn the_first_route_that_fits_is_taken_whatever_the_spelling() {
    let (users, rest) = (RawUpstream::new().await, RawUpstream::new().await);
    let mut by_host = route(&users, &[]);
    by_host.conditions.hosts = vec!["users.example".parse().unwrap()];
    let routes = vec![by_host, route(&users, &["/users/{id}"]), route(&rest, &["/{*rest}", "/"])];
    let gateway = GatewaySetup::default().start_with(config(routes)).await;
    let (_users, _rest) = (users.answer_all(named("users")), rest.answer_all(named("rest")));
    let mut client = Raw::connect(gateway.address).await;
    for (target, host, expected) in [
        ("/users/7", "a", "users"),
        ("/x/..//users/%37?q=1", "a", "users"),
        ("http://users.example/", "a", "users"),
        ("/", "USERS.example:80", "users"),
        ("/users", "a", "rest"),
        ("/", "a", "rest"),
    ] {
        let (head, body) = client.ask(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
        assert_eq!(body, expected, "{target} of {host}: {head}");
    }
}

#[tokio::test]
async fn where_no_route_fits_nothing_is_found() {
    let upstream = RawUpstream::new().await;
    let gateway = GatewaySetup::default().start_with(config(vec![route(&upstream, &["/a"])])).await;
    let mut client = Raw::connect(gateway.address).await;
    let (head, body) = client.ask("GET /b HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(
        head.starts_with("HTTP/1.1 404") && body.contains("no route of the gateway fits"),
        "{head}{body}"
    );
    assert_eq!(field(&head, "content-type"), Some("application/problem+json"));
    upstream.was_left_alone().await;
}

/// Requests of the second route are limited by what only its mapping sends.
#[tokio::test]
async fn a_route_can_have_a_mapping_of_its_own() {
    const RULES: &str = "domain: gateway\ndescriptors:\n  - key: login\n    rate_limit: { unit: year, requests_per_unit: 1 }\n";
    let upstream = RawUpstream::new().await;
    let text = Action::new("login", Fact::Text("yes".to_owned()));
    let mut login = route(&upstream, &["/login"]);
    login.mapping = Some(Mapping::new(DEFAULT_DOMAIN, vec![vec![text]]).unwrap());
    let routes = vec![login, route(&upstream, &[])];
    let gateway = GatewaySetup { rules: RULES, ..GatewaySetup::default() }.start_with(config(routes)).await;
    let _upstream = upstream.answer_all(named("ok"));
    let mut client = Raw::connect(gateway.address).await;
    for (path, status) in [("/login", "200"), ("//login/", "429"), ("/other", "200"), ("/other", "200")] {
        let (head, _) = client.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {head}");
    }
}

/// The host is text only where somebody wants it.
#[tokio::test]
async fn a_mapping_can_limit_by_host() {
    const RULES: &str = "domain: gateway\ndescriptors:\n  - key: host\n    rate_limit: { unit: year, requests_per_unit: 1 }\n";
    let upstream = RawUpstream::new().await;
    let by_host = Action::new("host", Fact::header(":authority").unwrap());
    let mut limited = route(&upstream, &["/limited"]);
    limited.mapping = Some(Mapping::new(DEFAULT_DOMAIN, vec![vec![by_host]]).unwrap());
    let routes = vec![limited, route(&upstream, &[])];
    let gateway = GatewaySetup { rules: RULES, ..GatewaySetup::default() }.start_with(config(routes)).await;
    let _upstream = upstream.answer_all(named("ok"));
    let mut client = Raw::connect(gateway.address).await;
    for (host, status) in [("a", "200"), ("b", "200"), ("a", "429"), ("b", "429")] {
        let (head, _) = client.ask(&format!("GET /limited HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {head}");
    }
}

/// A connection that stays open looks again for every request.
#[tokio::test]
async fn other_routes_are_taken_from_the_next_request_on() {
    let (old, new) = (RawUpstream::new().await, RawUpstream::new().await);
    let setup = GatewaySetup::default();
    let mapping = setup.mapping.clone();
    let gateway = setup.start_with(config(vec![route(&old, &[])])).await;
    let next = config(vec![route(&new, &[])]);
    let (_old, _new) = (old.answer_all(named("old")), new.answer_all(named("new")));
    let mut client = Raw::connect(gateway.address).await;
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(client.ask(request).await.1, "old");
    gateway.gateway.reload(&next, &mapping).unwrap();
    assert_eq!(client.ask(request).await.1, "new");
}

#[tokio::test]
async fn a_route_can_have_timeouts_of_its_own() {
    let upstream = RawUpstream::new().await;
    let mut fast = route(&upstream, &["/fast"]);
    fast.timeouts.first_byte = Duration::from_millis(100);
    let gateway = GatewaySetup::default().start_with(config(vec![fast, route(&upstream, &[])])).await;
    let mut client = Raw::connect(gateway.address).await;
    let mut slow = Raw::connect(gateway.address).await;
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut backend = upstream.accept().await;
    backend.head().await;
    let asked = client.ask("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_silent, (head, _)) = tokio::join!(upstream.accept(), asked);
    assert!(head.starts_with("HTTP/1.1 504"), "{head}");
    backend.send(named("late")).await;
    assert!(slow.head().await.starts_with("HTTP/1.1 200"));
}

/// An upstream that accepts no connection was sent nothing, so that another one can be asked.
#[tokio::test]
async fn another_upstream_of_the_group_is_asked_if_one_is_away() {
    let (away, there) = (RawUpstream::new().await, RawUpstream::new().await);
    let servers = vec![url(away.address), url(there.address)];
    drop(away);
    let mut both = route(&there, &[]);
    both.group = Arc::new(GroupConfig::new("both".to_owned(), servers));
    let gateway = GatewaySetup::default().start_with(config(vec![both])).await;
    let _there = there.answer_all(named("there"));
    for _ in 0..20 {
        let mut client = Raw::connect(gateway.address).await;
        let (head, body) = client
            .ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
            .await;
        assert_eq!(body, "there", "{head}");
    }
}
