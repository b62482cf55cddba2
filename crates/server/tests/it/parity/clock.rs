//! Steps of the clock, which is the test's own here, and a queue while it stands still: what a limiter decides that
//! is asked directly, the gateway and the tower layer decide too.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use http_body_util::Empty;
use tokio::net::TcpListener;
use tollgate_core::{Descriptor, Entry, Micros, Time, Verdict};
use tollgate_gateway::{ClientSocket, Gateway, GatewayConfig, GatewayTimeouts};
use tollgate_http::{Action, Fact, LimiterChecker, Mapping, ResponseSettings};
use tollgate_limiter::{Limiter, ManualClock, MemoryStore, NoSink};
use tollgate_tower::{TollgateBody, TollgateLayer};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use super::RULES;
use crate::support::http;

type ClockLimiter = Limiter<MemoryStore, ManualClock, NoSink>;

const NOON: u64 = 1_700_049_600;
const DAY: u64 = 86_400;

/// When, and what is decided then about the next request of each key.
const SCRIPT: [(u64, &[&str]); 9] = [
    (NOON, &["allow", "allow", "allow", "allow"]),
    (NOON + 1, &["allow", "allow", "deny", "allow"]),
    (NOON + 2, &["deny", "deny", "deny", "allow"]),
    // Back by less than a second and by more than a window: nobody gets more, or waits for longer.
    (NOON + 1, &["deny", "deny", "deny", "allow"]),
    (NOON - 3 * DAY, &["deny", "deny", "deny", "allow"]),
    (NOON - DAY + 1, &["allow", "allow", "allow", "allow"]),
    (NOON - DAY + 2, &["allow", "allow", "deny", "allow"]),
    (NOON - DAY + 3, &["deny", "deny", "deny", "allow"]),
    // Ahead by years.
    (NOON + 1_000 * DAY, &["allow", "allow", "allow", "allow"]),
];
const KEYS: [&str; 4] = ["log", "buckets", "rejected", "trial_log"];
/// The key of a queue, from which fifty go each second.
const LINE: &str = "line";

fn limiter() -> Arc<ClockLimiter> {
    let source = tollgate_rules::SourceFile { name: "rules.yaml".into(), text: RULES.into() };
    let rules = tollgate_rules::load(vec![source], &tollgate_rules::Options::default()).unwrap().rules;
    Arc::new(Limiter::with(rules, MemoryStore::default(), ManualClock::default(), NoSink))
}

fn mapping() -> Mapping {
    let descriptor = |key: &str| vec![Action::new(key, Fact::header(&format!("x-{key}")).unwrap())];
    let mut descriptors = Vec::from(KEYS.map(descriptor));
    descriptors.push(descriptor(LINE));
    Mapping::new("shop", descriptors).unwrap()
}

async fn gateway(limiter: &Arc<ClockLimiter>) -> SocketAddr {
    let upstream = super::ways::api().await.parse().unwrap();
    let config = GatewayConfig::single(upstream, GatewayTimeouts::default(), Duration::from_secs(30));
    let checker = LimiterChecker { limiter: Arc::clone(limiter), responses: ResponseSettings::default() };
    let gateway = Arc::new(Gateway::new(&config, &mapping(), Arc::new(checker)).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let socket = ClientSocket { peer: Some(peer.ip()), is_tls: false };
            tokio::spawn(Arc::clone(&gateway).serve(stream, socket, std::future::pending()));
        }
    });
    address
}

/// A service that answers everything with nothing, behind the layer.
fn tower(
    limiter: &Arc<ClockLimiter>,
) -> impl Service<Request<()>, Response = Response<TollgateBody<Empty<Bytes>>>, Error = Infallible> + Clone {
    let layer = TollgateLayer::new(Arc::clone(limiter), mapping());
    layer.layer(service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    }))
}

/// The clock stands still, so that the limiter knows to the millisecond how long a request waits; it is held for no
/// less.
#[tokio::test]
async fn a_queue_is_waited_in_alike_and_told_alike() {
    let (direct, by_gateway, by_tower) = (limiter(), limiter(), limiter());
    let gateway = gateway(&by_gateway).await;
    let service = tower(&by_tower);
    for limiter in [&direct, &by_gateway, &by_tower] {
        limiter.clock().set(Time::from_secs(NOON));
    }
    for (verdict, remaining, wait_ms) in
        [("allow", "3", 0), ("delay", "2", 20), ("delay", "1", 40), ("delay", "0", 60), ("deny", "0", 0)]
    {
        let entries = [Entry { key: LINE, value: "a" }];
        let descriptors = [Descriptor::new(&entries)];
        let asked = direct.check(&tollgate_core::Request::new("shop", &descriptors)).at_once();
        assert_eq!(asked.verdict.word(), verdict, "directly");
        if let Verdict::Delay { wait } = asked.verdict {
            assert_eq!(wait, Micros::from_millis(wait_ms), "directly");
        }
        let expected = (if verdict == "deny" { "429" } else { "200" }, Some(remaining));
        let wait = Duration::from_millis(wait_ms);
        let begun = tokio::time::Instant::now();
        let head = http::raw(
            gateway,
            format!("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-{LINE}: a\r\n\r\n").as_bytes(),
        )
        .await;
        assert!(begun.elapsed() >= wait, "gateway");
        let find = |name| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let told = (&head[9..12], find("x-ratelimit-remaining"));
        assert_eq!(told, expected, "gateway: {head}");
        let begun = tokio::time::Instant::now();
        let request = Request::get("/").header(format!("x-{LINE}"), "a").body(()).unwrap();
        let answer = service.clone().oneshot(request).await.unwrap();
        assert!(begun.elapsed() >= wait, "tower");
        let status = answer.status();
        let find = |name| answer.headers().get(name).map(|value| value.to_str().unwrap());
        let told = (status.as_str(), find("x-ratelimit-remaining"));
        assert_eq!(told, expected, "tower");
    }
}

#[tokio::test]
async fn steps_of_the_clock_are_followed_alike() {
    let (direct, by_gateway, by_tower) = (limiter(), limiter(), limiter());
    let gateway = gateway(&by_gateway).await;
    let service = tower(&by_tower);
    for (at, verdicts) in SCRIPT {
        for limiter in [&direct, &by_gateway, &by_tower] {
            limiter.clock().set(Time::from_secs(at));
        }
        for (key, verdict) in KEYS.iter().zip(verdicts) {
            let entries = [Entry { key, value: "a" }];
            let descriptors = [Descriptor::new(&entries)];
            let asked = direct.check(&tollgate_core::Request::new("shop", &descriptors)).at_once();
            assert_eq!(asked.verdict.word(), *verdict, "directly: {key} at {at}");
            let status = if *verdict == "deny" { 429 } else { 200 };
            let (seen, _) = http::get_with(gateway, "/", &format!("x-{key}: a")).await;
            assert_eq!(seen, status, "gateway: {key} at {at}");
            let request = Request::get("/").header(format!("x-{key}"), "a").body(()).unwrap();
            let seen = service.clone().oneshot(request).await.unwrap().status();
            assert_eq!(seen, status, "tower: {key} at {at}");
        }
    }
}
