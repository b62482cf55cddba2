//! The layer around services that only count their calls.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by failing"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Full};
use tollgate_core::{Micros, RuleSet, Time};
use tollgate_http::{
    Action, AddressPrefixes, ChargeTerms, Fact, Mapping, MappingDescriptor, MissingValue, ResponseCost,
    StatusSet,
};
use tollgate_limiter::{Clock, Limiter, ManualClock, MemoryStore, NoSink, Store};
use tollgate_redis::{RedisConfig, RedisStore};
use tollgate_rules::SourceFile;
use tollgate_testkit::redis::RedisServer;
use tollgate_tower::{PeerAddress, TollgateLayer};
use tower::limit::ConcurrencyLimit;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

/// Runs with tokio's time, which stands still but for sleeps.
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Time {
        Time::EPOCH + Micros::new(u64::try_from(self.0.elapsed().as_micros()).unwrap())
    }
}

type TestLayer = TollgateLayer<MemoryStore, TokioClock, NoSink>;
type TestLimiter = Limiter<MemoryStore, TokioClock, NoSink>;

fn rules(limit: &str) -> RuleSet {
    let text = format!("domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {{ {limit} }}\n");
    let source = SourceFile { name: "shop.yaml".into(), text };
    tollgate_rules::load(vec![source], &tollgate_rules::Options::default()).unwrap().rules
}

fn limiter(limit: &str) -> Arc<TestLimiter> {
    let clock = TokioClock(tokio::time::Instant::now());
    Arc::new(Limiter::with(rules(limit), MemoryStore::default(), clock, NoSink))
}

fn by_user(missing: MissingValue) -> Mapping {
    let user = Action::new("user", Fact::header("x-user").unwrap()).or(missing);
    Mapping::new("shop", vec![vec![user]]).unwrap()
}

fn layer(limit: &str) -> TestLayer {
    TollgateLayer::new(limiter(limit), by_user(MissingValue::Drop))
}

/// What a caller gets, and whether the service was called.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
    was_served: bool,
}

async fn ask(layer: &TestLayer, request: Request<Empty<Bytes>>) -> Answer {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let service = layer.layer(service_fn(move |_: Request<Empty<Bytes>>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, Infallible>(Response::new(Full::from("served"))) }
    }));
    let (parts, body) = service.oneshot(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status,
        headers: parts.headers,
        body: String::from_utf8(bytes.into()).unwrap(),
        was_served: calls.load(Ordering::SeqCst) == 1,
    }
}

fn from(user: &str) -> Request<Empty<Bytes>> {
    Request::get("/").header("x-user", user).body(Empty::new()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_allowed_is_served_and_told() {
    let layer = layer("requests_per_unit: 2, unit: minute");
    let answer = ask(&layer, from("me")).await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, "served"));
    assert_eq!(answer.headers["x-ratelimit-limit"], "2");
    assert_eq!(answer.headers["x-ratelimit-remaining"], "1");
    assert!(answer.headers.contains_key("ratelimit-policy"));
}

/// As in the gateway: a field that is there twice can be read either way.
#[tokio::test(start_paused = true)]
async fn what_a_service_says_about_limits_gives_way_to_what_is_told() {
    let layer = layer("algorithm: leaky_bucket, requests_per_unit: 2, unit: second, burst: 3");
    let service = layer.layer(service_fn(async |_: Request<Empty<Bytes>>| {
        let response = Response::builder().header("x-ratelimit-remaining", "77").header("retry-after", "5");
        let response = response.header("ratelimit", "\"theirs\";r=77;t=9").header("vary", "accept");
        Ok::<_, Infallible>(response.body(Full::<Bytes>::from("served")).unwrap())
    }));
    // One passes at once, and one is held.
    for remaining in ["3", "2"] {
        let headers = service.clone().oneshot(from("me")).await.unwrap().headers().clone();
        let values: Vec<_> = headers.get_all("x-ratelimit-remaining").iter().collect();
        assert_eq!(values, [remaining]);
        assert_eq!(headers.get_all("ratelimit").iter().count(), 1, "{headers:?}");
        assert_eq!(headers["retry-after"], "5");
        assert_eq!(headers["vary"], "accept");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_denied_never_reaches_the_service() {
    let layer = layer("name: tight, requests_per_unit: 1, unit: minute, algorithm: sliding_log");
    assert!(ask(&layer, from("me")).await.was_served);
    let answer = ask(&layer, from("me")).await;
    assert_eq!((answer.status, answer.was_served), (StatusCode::TOO_MANY_REQUESTS, false));
    assert_eq!(answer.headers["retry-after"], "60");
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    let problem: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(problem["violated-policies"], serde_json::json!(["tight"]));
    assert_eq!(problem["retry_after_ms"], 60_000);
    assert!(ask(&layer, from("you")).await.was_served);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_defers_denies_because_a_layer_can_send_nothing_later() {
    let layer = layer("name: orders, requests_per_unit: 1, unit: minute, over_limit: defer");
    assert_eq!(ask(&layer, from("ann")).await.status, 200);
    let denied = ask(&layer, from("ann")).await;
    assert_eq!((denied.status, denied.was_served), (StatusCode::TOO_MANY_REQUESTS, false));
    assert_eq!(denied.headers["retry-after"], "60");
    assert!(!denied.headers.contains_key("location"), "nothing is kept: {:?}", denied.headers);
    assert!(denied.body.contains("orders"), "{}", denied.body);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(ask(&layer, from("ann")).await.status, 200, "what it denies does not count, and nobody waits");
}

/// Whoever sends it over HTTP/2 must send no bytes.
#[tokio::test(start_paused = true)]
async fn a_denied_head_has_the_length_of_a_body_and_none() {
    let layer =
        TollgateLayer::new(limiter("requests_per_unit: 0, unit: minute"), by_user(MissingValue::Deny));
    for user in [Some("me"), None] {
        let request = |method| {
            let mut request = Request::builder().method(method).uri("/");
            if let Some(user) = user {
                request = request.header("x-user", user);
            }
            request.body(Empty::new()).unwrap()
        };
        let (get, head) = (ask(&layer, request("GET")).await, ask(&layer, request("HEAD")).await);
        assert_eq!((head.status, head.body.as_str(), head.was_served), (get.status, "", false));
        assert_eq!(head.headers["content-type"], "application/problem+json");
        assert_eq!(head.headers["content-length"], get.body.len().to_string().as_str());
    }
}

#[tokio::test(start_paused = true)]
async fn callers_of_grpc_get_a_status_of_grpc() {
    let layer = layer("requests_per_unit: 0, unit: minute, message: \"100 % used\"");
    let mut request = from("me");
    request.headers_mut().insert("content-type", "application/grpc+proto".parse().unwrap());
    let answer = ask(&layer, request).await;
    assert_eq!((answer.status, answer.was_served), (StatusCode::OK, false));
    assert_eq!(answer.headers["grpc-status"], "8");
    assert_eq!(answer.headers["grpc-message"], "100 %25 used");
    assert_eq!(
        (answer.headers["content-type"].as_bytes(), answer.body.as_str()),
        (&b"application/grpc"[..], "")
    );
}

/// On the memory store; whoever holds a response that nobody polls has been decided about.
#[test]
fn a_request_is_decided_when_the_service_is_called() {
    let clock = ManualClock::default();
    let limiter = Limiter::with(
        rules("algorithm: leaky_bucket, requests_per_unit: 1, unit: second, burst: 2"),
        MemoryStore::default(),
        clock,
        NoSink,
    );
    let layer = TollgateLayer::new(Arc::new(limiter), by_user(MissingValue::Drop));
    let mut service = layer.layer(service_fn(async |_: Request<Empty<Bytes>>| {
        Ok::<_, Infallible>(Response::new(Full::from("served")))
    }));
    // It passes and is charged, though nobody ever polls it: with the two that are held the bucket is full.
    drop(service.call(from("you")));
    let _held = [service.call(from("you")), service.call(from("you"))];
    let denied = poll_once(service.call(from("you"))).unwrap();
    assert_eq!(denied.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    let (passed, held) = (service.call(from("me")), service.call(from("me")));
    drop(service.call(from("me")));
    // Whoever left gave its place back, and whoever passed has had its own.
    let last = service.call(from("me"));
    let [denied, passed] = [service.call(from("me")), passed].map(|response| poll_once(response).unwrap());
    assert_eq!(denied.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(passed.unwrap().status(), StatusCode::OK);
    drop((held, last));
}

/// On a store that takes its time.
#[tokio::test]
async fn nothing_is_charged_on_redis_before_the_response_is_polled() {
    let url = format!("redis://127.0.0.1:{}", tollgate_testkit::redis::free_port());
    let store = RedisStore::new(RedisConfig::new(url.parse().unwrap())).unwrap();
    // It is away, and the limit decides here.
    let limit = rules("algorithm: sliding_log, requests_per_unit: 1, unit: hour, on_store_error: local");
    let limiter = Limiter::with(limit, store, tollgate_limiter::SystemClock::new(), NoSink);
    let layer = TollgateLayer::new(Arc::new(limiter), by_user(MissingValue::Drop));
    let mut service = layer.layer(service_fn(async |_: Request<Empty<Bytes>>| {
        Ok::<_, Infallible>(Response::new(Full::from("served")))
    }));
    drop(service.call(from("me")));
    for status in [200, 429] {
        assert_eq!(service.call(from("me")).await.unwrap().status(), status);
    }
}

/// One clone is denied, and keeps no other from the only permit of the service behind.
#[test]
fn what_is_not_served_keeps_no_place_in_the_service() {
    let limit = "requests_per_unit: 0, unit: minute";
    let [denied, refused] = [MissingValue::Drop, MissingValue::Deny].map(|missing| {
        let clock = ManualClock::default();
        let limiter = Limiter::with(rules(limit), MemoryStore::default(), clock, NoSink);
        TollgateLayer::new(Arc::new(limiter), by_user(missing))
    });
    let nobody = Request::get("/").body(Empty::new()).unwrap();
    for (layer, request, status) in [(denied, from("me"), 429), (refused, nobody, 403)] {
        let served = service_fn(async |_: Request<Empty<Bytes>>| {
            Ok::<_, Infallible>(Response::new(Full::from("served")))
        });
        let mut first = layer.layer(ConcurrencyLimit::new(served, 1));
        let mut second = first.clone();
        assert!(poll_once(first.ready()).is_some());
        assert!(poll_once(second.ready()).is_none(), "the only permit is taken");
        let answer = first.call(request);
        assert!(poll_once(second.ready()).is_some(), "{status} holds the permit");
        assert_eq!(poll_once(answer).unwrap().unwrap().status(), status);
    }
}

/// What a future has at once, without a runtime around it.
fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    match std::pin::pin!(future).poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_delayed_is_held() {
    let layer = layer("algorithm: leaky_bucket, requests_per_unit: 2, unit: second, burst: 5");
    let start = tokio::time::Instant::now();
    for expected_ms in [0, 500, 1_000] {
        let answer = ask(&layer, from("me")).await;
        assert!(answer.was_served && !answer.headers.contains_key("x-ratelimit-wait-ms"));
        let held = start.elapsed();
        let expected = Duration::from_millis(expected_ms);
        assert!(held >= expected && held < expected + Duration::from_millis(5), "{held:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_while_it_is_held_gives_its_place_back() {
    let layer = layer("algorithm: leaky_bucket, requests_per_unit: 4, unit: minute, burst: 1");
    assert!(ask(&layer, from("me")).await.was_served);
    for _ in 0..3 {
        let held = tokio::time::timeout(Duration::from_secs(1), ask(&layer, from("me"))).await;
        assert!(held.is_err(), "it is held, and leaves");
    }
    let mut held = Box::pin(ask(&layer, from("me")));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut held).await.is_err());
    assert!(!ask(&layer, from("me")).await.was_served, "the only place is taken");
    assert!(held.await.was_served);
}

/// Two servers on one Redis: each holds what the other has let pass.
#[tokio::test]
async fn a_delay_on_redis_is_held_by_every_server_on_it() {
    let redis = RedisServer::start();
    let start = tokio::time::Instant::now();
    let layers = [0, 1].map(|_| {
        let rules = rules("algorithm: leaky_bucket, requests_per_unit: 5, unit: second, burst: 9");
        let store = RedisStore::new(RedisConfig::new(redis.url().parse().unwrap())).unwrap();
        let limiter = Limiter::with(rules, store, tollgate_limiter::SystemClock::new(), NoSink);
        let service = service_fn(async |_: Request<Empty<Bytes>>| {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("served")))
        });
        TollgateLayer::new(Arc::new(limiter), by_user(MissingValue::Drop)).layer(service)
    });
    for (turn, service) in (0..).zip(layers.iter().cycle().take(4)) {
        let response = service.clone().oneshot(from("me")).await.unwrap();
        assert_eq!(
            (response.status(), response.headers().get("x-ratelimit-degraded")),
            (StatusCode::OK, None)
        );
        // The clock of Redis and tokio's timer each count in milliseconds or finer.
        let held = start.elapsed();
        assert!(held + Duration::from_millis(2) >= Duration::from_millis(200 * turn), "{turn}: {held:?}");
    }
}

/// How long somebody else waits for the only permit of a service while a request is held in front of it, and the
/// request that is held.
async fn waits_beside_a_held_request<S: Store + Send + Sync + 'static>(store: S) -> [Duration; 2] {
    let start = tokio::time::Instant::now();
    let rules = rules("algorithm: leaky_bucket, requests_per_unit: 2, unit: second, burst: 3");
    let limiter = Limiter::with(rules, store, TokioClock(start), NoSink);
    let layer = TollgateLayer::new(Arc::new(limiter), by_user(MissingValue::Drop));
    let answer = async |_: Request<Empty<Bytes>>| Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("")));
    let service = layer.layer(ConcurrencyLimit::new(service_fn(answer), 1));
    service.clone().oneshot(from("me")).await.unwrap();
    let held = tokio::spawn(service.clone().oneshot(from("me")));
    // Until it is decided.
    tokio::time::sleep(Duration::from_millis(100)).await;
    service.oneshot(from("you")).await.unwrap();
    let other = start.elapsed();
    held.await.unwrap().unwrap();
    [other, start.elapsed()]
}

#[tokio::test(start_paused = true)]
async fn what_is_held_keeps_no_place_in_the_service() {
    let url = format!("redis://127.0.0.1:{}", tollgate_testkit::redis::free_port());
    let away = RedisStore::new(RedisConfig::new(url.parse().unwrap())).unwrap();
    let waits =
        [waits_beside_a_held_request(MemoryStore::default()).await, waits_beside_a_held_request(away).await];
    for [other, held] in waits {
        assert!(other < Duration::from_millis(300), "{other:?}");
        assert!((400..600).contains(&held.as_millis()), "{held:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_held_for_longer_than_set() {
    let limit = "algorithm: leaky_bucket, requests_per_unit: 1, unit: minute, burst: 5";
    let layer = layer(limit).with_max_hold(Duration::from_secs(59));
    assert!(ask(&layer, from("me")).await.was_served);
    let answer = ask(&layer, from("me")).await;
    assert_eq!((answer.status, answer.was_served), (StatusCode::TOO_MANY_REQUESTS, false));
    assert_eq!(answer.headers["retry-after"], "1", "then its wait is 59 seconds");
}

#[tokio::test(start_paused = true)]
async fn a_shadow_limit_is_told_to_nobody() {
    let layer = TollgateLayer::new(
        Arc::new(
            Limiter::with(
                rules("requests_per_unit: 0, unit: minute"),
                MemoryStore::default(),
                TokioClock(tokio::time::Instant::now()),
                NoSink,
            )
            .with_all_shadow(true),
        ),
        by_user(MissingValue::Drop),
    );
    let answer = ask(&layer, from("me")).await;
    assert!(answer.was_served && answer.headers.is_empty(), "{:?}", answer.headers);
}

#[tokio::test(start_paused = true)]
async fn a_missing_value_is_what_the_operator_says() {
    let limit = "requests_per_unit: 1, unit: minute";
    let nobody = || Request::get("/").body(Empty::new()).unwrap();
    let dropped = layer(limit);
    let shared = TollgateLayer::new(limiter(limit), by_user(MissingValue::Key));
    let denied = TollgateLayer::new(limiter(limit), by_user(MissingValue::Deny));
    for (layer, statuses) in [(dropped, [200, 200]), (shared, [200, 429]), (denied, [403, 403])] {
        for status in statuses {
            assert_eq!(ask(&layer, nobody()).await.status, status);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rules_that_are_replaced_are_in_force() {
    let limiter = limiter("requests_per_unit: 1, unit: minute");
    let layer = TollgateLayer::new(Arc::clone(&limiter), by_user(MissingValue::Drop));
    assert!(ask(&layer, from("me")).await.was_served);
    assert!(!ask(&layer, from("me")).await.was_served);
    limiter.replace_rules(rules("requests_per_unit: 5, unit: minute"));
    assert!(ask(&layer, from("me")).await.was_served);
}

#[tokio::test(start_paused = true)]
async fn the_peer_is_found_where_the_server_puts_it() {
    let address = Action::new("user", Fact::RemoteAddress(AddressPrefixes::default()));
    let mapping = Mapping::new("shop", vec![vec![address]]).unwrap();
    let layer = TollgateLayer::new(limiter("requests_per_unit: 1, unit: minute"), mapping);
    let peer = |last: u8| {
        let mut request = from("me");
        request.extensions_mut().insert(PeerAddress([192, 0, 2, last].into()));
        request
    };
    for (last, status) in [(1, 200), (1, 429), (2, 200)] {
        assert_eq!(ask(&layer, peer(last)).await.status, status);
    }
    let elsewhere = layer.with_peer(|known| known.get::<u8>().map(|last| [192, 0, 2, *last].into()));
    let mut request = from("me");
    request.extensions_mut().insert(2_u8);
    assert_eq!(ask(&elsewhere, request).await.status, 429);
}

/// By user, on these terms.
fn on_terms(terms: ChargeTerms) -> Mapping {
    let user = Action::new("user", Fact::header("x-user").unwrap());
    Mapping::new("shop", vec![MappingDescriptor::new(vec![user], terms)]).unwrap()
}

fn on_status(statuses: &[&str]) -> ChargeTerms {
    ChargeTerms::OnResponse { status: Some(StatusSet::parse(statuses).unwrap()), cost: ResponseCost::One }
}

/// What a service does with the status that it is asked for.
async fn by_path(request: Request<Empty<Bytes>>) -> Result<Response<Full<Bytes>>, &'static str> {
    match request.uri().path() {
        "/error" => Err("broken"),
        "/never" => std::future::pending().await,
        path => {
            let mut response = Response::new(Full::from(r#"{"usage":{"total_tokens":3}}"#));
            *response.status_mut() = path[1..].parse().unwrap();
            response.headers_mut().insert("content-type", "application/json".parse().unwrap());
            Ok(response)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn responses_decide_what_is_charged() {
    const LIMIT: &str = "algorithm: sliding_log, requests_per_unit: 4, unit: minute";
    let tokens =
        ChargeTerms::OnResponse { status: None, cost: ResponseCost::json("usage.total_tokens", 1).unwrap() };
    let refund = ChargeTerms::RefundOn(StatusSet::parse(&["5xx"]).unwrap());
    for (terms, path, expected) in [
        (on_status(&["401"]), "/401", vec![401, 401, 401, 401, 429, 429]),
        (on_status(&["401"]), "/200", vec![200; 6]),
        (refund.clone(), "/200", vec![200, 200, 200, 200, 429, 429]),
        (refund.clone(), "/503", vec![503; 6]),
        // What servers answer when a service fails.
        (refund, "/error", vec![500; 6]),
        (on_status(&["500"]), "/error", vec![500, 500, 500, 500, 429, 429]),
        (tokens, "/200", vec![200, 200, 429, 429]),
        (on_status(&["499"]), "/never", vec![499, 499, 499, 499, 429, 429]),
        (on_status(&["401"]), "/never", vec![499; 6]),
    ] {
        let service = TollgateLayer::new(limiter(LIMIT), on_terms(terms.clone())).layer(service_fn(by_path));
        let mut seen = Vec::new();
        for _ in 0..expected.len() {
            let request = Request::get(path).header("x-user", "me").body(Empty::new()).unwrap();
            let answered =
                tokio::time::timeout(Duration::from_millis(1), service.clone().oneshot(request)).await;
            seen.push(match answered {
                Ok(Ok(response)) => {
                    let status = response.status().as_u16();
                    response.into_body().collect().await.unwrap();
                    status
                }
                Ok(Err(_)) => 500,
                // The caller leaves.
                Err(_) => 499,
            });
        }
        assert_eq!(seen, expected, "{path} {terms:?}");
    }
}

#[tokio::test]
async fn charges_go_on_while_redis_is_away() {
    let url = format!("redis://127.0.0.1:{}", tollgate_testkit::redis::free_port());
    let store = RedisStore::new(RedisConfig::new(url.parse().unwrap())).unwrap();
    let limit = rules("algorithm: sliding_log, requests_per_unit: 3, unit: hour");
    let limiter = Limiter::with(limit, store, tollgate_limiter::SystemClock::new(), NoSink);
    let service =
        TollgateLayer::new(Arc::new(limiter), on_terms(on_status(&["401"]))).layer(service_fn(by_path));
    let mut failed = 0;
    // A charge is on its way when its response is, so that some more may pass.
    let denied = loop {
        let request = Request::get("/401").header("x-user", "me").body(Empty::new()).unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        match response.status().as_u16() {
            401 => failed += 1,
            _ => break response,
        }
        assert!(failed < 1_000, "nothing is charged");
    };
    assert!(failed >= 3 && denied.status() == 429, "{failed}");
    assert_eq!(denied.headers()["x-ratelimit-degraded"], "true");
}
