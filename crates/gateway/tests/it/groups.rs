//! Groups of upstreams: the less busy one, ejection, health checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_gateway::{
    EjectPolicy, GatewayConfig, GatewayTimeouts, GroupConfig, HealthCheck, RouteConditions, RouteConfig,
};

use crate::support::{
    DEADLINE, GatewaySetup, Raw, RawUpstream, TestGateway, eventually, field, in_time, url,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const FAILED: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";

/// A group of these upstreams, to be changed by `change`.
fn config(upstreams: &[&RawUpstream], change: impl FnOnce(&mut GroupConfig)) -> GatewayConfig {
    let servers = upstreams.iter().map(|upstream| url(upstream.address)).collect();
    let mut group = GroupConfig::new("shop".to_owned(), servers);
    change(&mut group);
    let route = RouteConfig {
        conditions: RouteConditions::default(),
        group: Arc::new(group),
        mapping: None,
        timeouts: GatewayTimeouts::default(),
    };
    GatewayConfig { routes: vec![route], max_wait: DEADLINE }
}

async fn start(upstreams: &[&RawUpstream], change: impl FnOnce(&mut GroupConfig)) -> TestGateway {
    GatewaySetup::default().start_with(config(upstreams, change)).await
}

fn up(gateway: &TestGateway) -> Vec<bool> {
    gateway.gateway.upstreams().iter().map(|upstream| upstream.is_up).collect()
}

/// How many of so many requests, one after the other, got this status.
async fn count(gateway: &TestGateway, requests: usize, status: &str) -> usize {
    let mut count = 0;
    for _ in 0..requests {
        let mut client = Raw::connect(gateway.address).await;
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        count += usize::from(client.head().await.starts_with(&format!("HTTP/1.1 {status}")));
    }
    count
}

#[tokio::test]
async fn a_request_goes_to_the_less_busy_upstream() {
    let (one, two) = (RawUpstream::new().await, RawUpstream::new().await);
    let gateway = start(&[&one, &two], |_| {}).await;
    let (mut open, mut counts) = (Vec::new(), [0, 0]);
    for _ in 0..20 {
        let mut client = Raw::connect(gateway.address).await;
        client.send(GET).await;
        let mut backend = tokio::select! {
            backend = one.accept() => { counts[0] += 1; backend }
            backend = two.accept() => { counts[1] += 1; backend }
        };
        backend.head().await;
        open.push((client, backend));
    }
    assert_eq!(counts, [10, 10]);
    let load: Vec<usize> = gateway.gateway.upstreams().iter().map(|upstream| upstream.in_flight).collect();
    assert_eq!(load, [10, 10]);
    drop(open);
    eventually(|| gateway.gateway.upstreams().iter().all(|upstream| upstream.in_flight == 0)).await;
}

#[tokio::test]
async fn an_upstream_that_fails_again_and_again_is_left_alone() {
    let (bad, good) = (RawUpstream::new().await, RawUpstream::new().await);
    let eject = EjectPolicy { after: 3, base: DEADLINE };
    let gateway = start(&[&bad, &good], |group| group.eject = eject).await;
    let (_bad, _good) = (bad.answer_all(FAILED), good.answer_all(OK));
    assert_eq!(count(&gateway, 100, "500").await, 3);
    assert_eq!(up(&gateway), [false, true]);
    let [bad, good] = gateway.gateway.upstreams().try_into().unwrap();
    assert_eq!((bad.requests, bad.failures, bad.ejections), (3, 3, 1));
    assert_eq!((good.requests, good.failures, good.ejections), (97, 0, 0));
}

/// Everything can be wrong with an API but for the gateway in front of it.
#[tokio::test]
async fn the_last_upstream_is_never_left_alone() {
    let (one, two) = (RawUpstream::new().await, RawUpstream::new().await);
    let eject = EjectPolicy { after: 1, base: DEADLINE };
    let gateway = start(&[&one, &two], |group| group.eject = eject).await;
    let (_one, _two) = (one.answer_all(FAILED), two.answer_all(FAILED));
    assert_eq!(count(&gateway, 20, "500").await, 20);
    assert_eq!(up(&gateway).into_iter().filter(|is_up| *is_up).count(), 1);
}

#[tokio::test]
async fn an_upstream_comes_back_after_its_time() {
    let (bad, good) = (RawUpstream::new().await, RawUpstream::new().await);
    let eject = EjectPolicy { after: 1, base: Duration::from_millis(200) };
    let gateway = start(&[&bad, &good], |group| group.eject = eject).await;
    let is_bad = Arc::new(AtomicBool::new(true));
    let own = Arc::clone(&is_bad);
    let _bad = bad.answer_with(move |_| if own.load(Ordering::Relaxed) { FAILED } else { OK });
    let _good = good.answer_all(OK);
    in_time(async { while count(&gateway, 1, "500").await == 0 {} }).await;
    is_bad.store(false, Ordering::Relaxed);
    eventually(|| up(&gateway) == [true, true]).await;
    assert_eq!(count(&gateway, 40, "200").await, 40);
    assert!(gateway.gateway.upstreams()[0].requests > 1, "it gets requests again");
}

#[tokio::test]
async fn an_upstream_that_fails_its_health_checks_gets_no_requests_until_it_passes() {
    let (sick, well) = (RawUpstream::new().await, RawUpstream::new().await);
    let interval = Duration::from_millis(20);
    let check = HealthCheck { interval, ..HealthCheck::new("/healthz".parse().unwrap()) };
    let gateway = start(&[&sick, &well], |group| group.health_check = Some(check)).await;
    let is_sick = Arc::new(AtomicBool::new(true));
    let own = Arc::clone(&is_sick);
    let _sick = sick.answer_with(move |head| {
        let is_check = head.starts_with("GET /healthz ");
        if is_check && own.load(Ordering::Relaxed) { FAILED } else { OK }
    });
    let _well = well.answer_all(OK);
    eventually(|| up(&gateway) == [false, true]).await;
    let before = gateway.gateway.upstreams()[0].requests;
    assert_eq!(count(&gateway, 20, "200").await, 20);
    assert_eq!(gateway.gateway.upstreams()[0].requests, before, "checks are not counted");
    is_sick.store(false, Ordering::Relaxed);
    eventually(|| up(&gateway) == [true, true]).await;
}

/// A check that is wrong must not take the API down.
#[tokio::test]
async fn if_all_fail_their_health_checks_all_get_requests() {
    let (one, two) = (RawUpstream::new().await, RawUpstream::new().await);
    let interval = Duration::from_millis(20);
    let statuses = vec![418];
    let check = HealthCheck { interval, statuses, ..HealthCheck::new("/".parse().unwrap()) };
    let gateway = start(&[&one, &two], |group| group.health_check = Some(check)).await;
    let (_one, _two) = (one.answer_all(OK), two.answer_all(OK));
    eventually(|| up(&gateway) == [false, false]).await;
    assert_eq!(count(&gateway, 10, "200").await, 10);
}

#[tokio::test]
async fn if_all_are_down_it_is_a_502_and_limits_go_on() {
    const TWO: &str = "domain: gateway\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: year, requests_per_unit: 2 }\n";
    let (one, two) = (RawUpstream::new().await, RawUpstream::new().await);
    let config = config(&[&one, &two], |_| {});
    drop((one, two));
    let gateway = GatewaySetup { rules: TWO, ..GatewaySetup::default() }.start_with(config).await;
    let mut client = Raw::connect(gateway.address).await;
    for status in ["502", "502", "429"] {
        let (head, body) = client.ask(GET).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        assert_eq!(field(&head, "content-type"), Some("application/problem+json"));
        assert!(status == "429" || body.contains("the upstream cannot be reached"), "{body}");
    }
}

/// A client that breaks its request off says nothing about the upstream.
#[tokio::test]
async fn a_client_that_goes_away_is_no_failure_of_the_upstream() {
    let (one, two) = (RawUpstream::new().await, RawUpstream::new().await);
    let eject = EjectPolicy { after: 1, base: DEADLINE };
    let gateway = start(&[&one, &two], |group| group.eject = eject).await;
    for _ in 0..4 {
        let mut client = Raw::connect(gateway.address).await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab").await;
        let mut backend =
            tokio::select! { backend = one.accept() => backend, backend = two.accept() => backend };
        backend.head().await;
        drop(client);
        backend.rest().await;
    }
    assert_eq!(up(&gateway), [true, true]);
}

/// What is known about an upstream outlives a reload, and so do requests on their way.
#[tokio::test]
async fn a_reload_keeps_requests_connections_and_health() {
    let (one, two) = (RawUpstream::new().await, RawUpstream::new().await);
    let gateway = start(&[&one], |_| {}).await;
    let mut client = Raw::connect(gateway.address).await;
    client.send(GET).await;
    let mut backend = one.accept().await;
    backend.head().await;
    let mapping = tollgate_gateway::default_mapping();
    gateway.gateway.reload(&config(&[&two], |_| {}), &mapping).unwrap();
    // On its way: it is answered by the old one. The next on the same connection: by the new one.
    backend.send(OK).await;
    assert!(client.head().await.starts_with("HTTP/1.1 200"));
    client.bytes(2).await;
    client.send(GET).await;
    let mut other = two.accept().await;
    other.head().await;
    other.send(OK).await;
    assert!(client.head().await.starts_with("HTTP/1.1 200"));
    client.bytes(2).await;
    // And with the one that stays the connection does, too.
    gateway.gateway.reload(&config(&[&two, &one], |_| {}), &mapping).unwrap();
    assert_eq!(gateway.gateway.upstreams()[0].requests, 1);
    let only = config(&[&two], |_| {});
    gateway.gateway.reload(&only, &mapping).unwrap();
    client.send(GET).await;
    other.head().await;
}
