//! Calls through the layer to servers that play a part, on tokio's clock, which stands still but for sleeps.

mod caching;
mod crossings;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::*;

type TestResponse = Response<Full<Bytes>>;
type TestService = BoxCloneSyncService<Request<Full<Bytes>>, Response<OutgoingBody<Full<Bytes>>>, Infallible>;

/// One request at the server: when it came, when it was answered, what was told.
#[derive(Debug, Clone, Copy)]
struct Visit {
    came: Instant,
    left: Instant,
    told: Option<Duration>,
}

/// The visits of a server, in the order in which they were answered.
type Visits = Arc<Mutex<Vec<Visit>>>;

/// What a server makes of request number `n`: after how long, what status, what `Retry-After`.
type Part = Arc<dyn Fn(usize, &Parts) -> (Duration, TestResponse) + Send + Sync>;

fn server(layer: &OutgoingLayer<Full<Bytes>>, part: Part) -> (TestService, Visits) {
    let visits = Visits::default();
    let count = Arc::new(Mutex::new(0));
    let kept = Arc::clone(&visits);
    let service = service_fn(move |request: Request<Full<Bytes>>| {
        let (part, kept, count) = (Arc::clone(&part), Arc::clone(&kept), Arc::clone(&count));
        async move {
            let came = Instant::now();
            let number = {
                let mut count = count.lock();
                *count += 1;
                *count - 1
            };
            let (takes, response) = part(number, &request.into_parts().0);
            tokio::time::sleep(takes).await;
            let told =
                response.headers().get("retry-after").map(|told| told.to_str().unwrap().parse().unwrap());
            let told = told.map(Duration::from_secs);
            kept.lock().push(Visit { came, left: Instant::now(), told });
            Ok::<_, Infallible>(response)
        }
    });
    (BoxCloneSyncService::new(layer.layer(service)), visits)
}

fn answer(status: u16, fields: &[(&str, &str)], body: &str) -> TestResponse {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(Full::from(body.to_owned())).unwrap()
}

fn request(method: &str, uri: &str) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(uri).body(Full::from("")).unwrap()
}

async fn text(response: Response<OutgoingBody<Full<Bytes>>>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.into()).unwrap()
}

fn settings() -> OutgoingSettings {
    OutgoingSettings { cache: None, ..OutgoingSettings::default() }
}

const MS: Duration = Duration::from_millis(1);

/// No visit may begin before the time that an earlier one was told.
fn assert_never_too_early(visits: &[Visit]) {
    for told in visits {
        let Some(wait) = told.told else { continue };
        for other in visits.iter().filter(|other| other.came > told.left) {
            assert!(other.came >= told.left + wait, "{other:?} came too early after {told:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_made_again_after_the_time_that_was_told() {
    let layer = OutgoingLayer::new(settings());
    let (service, visits) = server(
        &layer,
        Arc::new(|number, _| match number {
            0 => (MS, answer(429, &[("retry-after", "7")], "")),
            1 => (MS, answer(503, &[("retry-after", "2")], "")),
            _ => (MS, answer(200, &[], "fine")),
        }),
    );
    let start = Instant::now();
    let response = service.oneshot(request("GET", "http://api/a")).await.unwrap();
    assert_eq!((response.status(), text(response).await.as_str()), (StatusCode::OK, "fine"));
    let visits = visits.lock().clone();
    assert_never_too_early(&visits);
    // Full jitter adds at most 200 ms, then 400 ms.
    assert!(visits.len() == 3 && start.elapsed() < Duration::from_millis(9_700), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn without_a_time_retries_back_off_and_end() {
    let layer = OutgoingLayer::new(settings());
    let (service, visits) = server(&layer, Arc::new(|_, _| (MS, answer(503, &[], "busy"))));
    let response = service.oneshot(request("GET", "http://api/a")).await.unwrap();
    assert_eq!((response.status().as_u16(), text(response).await.as_str()), (503, "busy"));
    let visits = visits.lock().clone();
    assert_eq!(visits.len(), 4);
    for (retry, pair) in visits.windows(2).enumerate() {
        let ceiling = settings().backoff.ceiling(u32::try_from(retry).unwrap());
        assert!(pair[1].came - pair[0].left <= ceiling + MS, "retry {retry}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_may_be_sent_twice_is_sent_twice() {
    let refusing: Part = Arc::new(|_, _| (MS, answer(503, &[], "")));
    let cloning = OutgoingLayer::new(settings());
    let told =
        OutgoingLayer::new(settings()).with_replay(|request| request.headers.contains_key("idempotency-key"));
    let not_cloning = OutgoingLayer::with_clone(settings(), |_: &Full<Bytes>| None);
    let cases = [
        (&cloning, "GET", 4),
        (&cloning, "PUT", 4),
        (&cloning, "DELETE", 4),
        (&cloning, "POST", 1),
        (&cloning, "PATCH", 1),
        (&told, "POST", 4),
        (&not_cloning, "GET", 1),
    ];
    for (layer, method, calls) in cases {
        let (service, visits) = server(layer, Arc::clone(&refusing));
        let mut request = request(method, "http://api/a");
        request.headers_mut().insert("idempotency-key", "1".parse().unwrap());
        assert_eq!(service.oneshot(request).await.unwrap().status().as_u16(), 503);
        assert_eq!(visits.lock().len(), calls, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_remembered_for_its_host_and_no_other() {
    let layer = OutgoingLayer::new(OutgoingSettings { max_wait: Duration::from_secs(5), ..settings() });
    let (service, visits) = server(
        &layer,
        Arc::new(|_, request| match request.uri.host() {
            Some("strict") => (MS, answer(429, &[("retry-after", "60")], "theirs")),
            _ => (MS, answer(200, &[], "")),
        }),
    );
    let ask = async |uri: &str| service.clone().oneshot(request("GET", uri)).await.unwrap();
    let first = ask("http://strict/a").await;
    assert!(first.extensions().get::<NotSent>().is_none());
    assert_eq!(text(first).await, "theirs");
    let second = ask("http://STRICT/b").await;
    assert_eq!((second.status().as_u16(), second.headers()["retry-after"].to_str().unwrap()), (429, "60"));
    assert!(second.extensions().get::<NotSent>().is_some());
    assert!(text(second).await.contains("60 s more"));
    assert_eq!(ask("http://other/a").await.status(), StatusCode::OK);
    assert_eq!(visits.lock().len(), 2);
    // Once the rest fits into what a call may wait, it is waited for.
    tokio::time::advance(Duration::from_secs(56)).await;
    assert!(ask("http://strict/a").await.extensions().get::<NotSent>().is_none());
    assert_never_too_early(&visits.lock());
    layer.forget("http://strict");
    assert!(ask("http://strict/a").await.extensions().get::<NotSent>().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_host_is_the_same_however_its_port_is_written() {
    let layer = OutgoingLayer::new(OutgoingSettings { max_wait: Duration::from_secs(5), ..settings() });
    let (service, _) = server(&layer, Arc::new(|_, _| (MS, answer(429, &[("retry-after", "60")], ""))));
    for (uri, is_sent) in [
        ("http://strict/", true),
        ("http://strict:80/", false),
        ("http://strict:/", false),
        ("http://strict:443/", true),
        ("http://strict:8080/", true),
        ("https://strict:443/", true),
        ("https://strict/", false),
        ("https://strict:80/", true),
        ("http://[::80]/", true),
        ("http://[::80]:80/", false),
    ] {
        let response = service.clone().oneshot(request("GET", uri)).await.unwrap();
        assert_eq!(response.extensions().get::<NotSent>().is_none(), is_sent, "{uri}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_of_ones_own_tells_apart_what_the_server_tells_apart() {
    let layer = OutgoingLayer::new(OutgoingSettings { max_wait: Duration::from_secs(5), ..settings() })
        .with_key(|request| format!("{:?}", request.headers.get("x-api-key")));
    let (service, _) = server(
        &layer,
        Arc::new(|number, _| match number {
            0 => (MS, answer(429, &[("retry-after", "60")], "")),
            _ => (MS, answer(200, &[], "")),
        }),
    );
    let ask = async |key: &str, host: &str| {
        let mut request = request("GET", host);
        request.headers_mut().insert("x-api-key", key.parse().unwrap());
        service.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!(ask("k1", "http://a/").await, 429);
    assert_eq!(ask("k2", "http://a/").await, 200);
    assert_eq!(ask("k1", "http://b/").await, 429);
}

#[tokio::test(start_paused = true)]
async fn calls_slow_down_before_the_quota_is_empty() {
    // Ten a minute, and the server counts.
    let layer = OutgoingLayer::new(OutgoingSettings { max_wait: Duration::from_secs(600), ..settings() });
    let start = Instant::now();
    let counts = Arc::new(Mutex::new(std::collections::BTreeMap::<u64, u64>::new()));
    let (service, visits) = server(
        &layer,
        Arc::new(move |_, _| {
            let passed = start.elapsed();
            let window = passed.as_secs() / 60;
            let mut counts = counts.lock();
            let used = counts.entry(window).or_default();
            *used += 1;
            let reset = (60 * (window + 1) - passed.as_secs()).to_string();
            if *used > 10 {
                return (MS, answer(429, &[("retry-after", &reset)], ""));
            }
            let left = format!("\"m\";r={};t={reset}", 10 - *used);
            (MS, answer(200, &[("ratelimit-policy", "\"m\";q=10;w=60"), ("ratelimit", &left)], ""))
        }),
    );
    for _ in 0..25 {
        let status = service.clone().oneshot(request("GET", "http://api/")).await.unwrap().status();
        assert_eq!(status, StatusCode::OK);
    }
    let visits = visits.lock().clone();
    assert!(visits.iter().all(|visit| visit.told.is_none()), "nothing was ever refused");
    assert_eq!(visits.len(), 25);
}

/// Callers who wait for less than the turns are apart, one after the other or several at once: what is left of the
/// quota is used all the same, and no faster.
#[tokio::test(start_paused = true)]
async fn calls_that_are_given_up_take_nobodys_turn() {
    for at_once in [1, 7] {
        let layer = OutgoingLayer::new(settings());
        let start = Instant::now();
        let (service, visits) = server(
            &layer,
            Arc::new(move |number, _| {
                let left = format!(r#""a";r={};t={}"#, 5_usize.saturating_sub(number), {
                    60_u64.saturating_sub(start.elapsed().as_secs())
                });
                (Duration::ZERO, answer(200, &[("ratelimit", &left)], ""))
            }),
        );
        service.clone().oneshot(request("GET", "http://api/a")).await.unwrap();
        let mut callers = JoinSet::new();
        for _ in 0..at_once {
            let service = service.clone();
            callers.spawn(async move {
                while start.elapsed() < Duration::from_secs(59) {
                    let call = service.clone().oneshot(request("GET", "http://api/a"));
                    if tokio::time::timeout(500 * MS, call).await.is_ok() {
                        // It was sent, or told to come later.
                        tokio::time::sleep(10 * MS).await;
                    }
                }
            });
        }
        callers.join_all().await;
        let came: Vec<u128> = visits.lock().iter().map(|visit| (visit.came - start).as_millis()).collect();
        assert!(came.len() >= 5, "{at_once}: {came:?}");
        assert!(came.windows(2).all(|pair| pair[1] - pair[0] >= 9_000), "{at_once}: {came:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_refused_calls_stays_within_the_budget() {
    for told in [None, Some("1")] {
        let layer = OutgoingLayer::new(settings());
        let fields: Vec<(&'static str, &'static str)> =
            told.map(|told| ("retry-after", told)).into_iter().collect();
        let (service, visits) = server(&layer, Arc::new(move |_, _| (50 * MS, answer(429, &fields, ""))));
        let mut calls = JoinSet::new();
        for _ in 0..500 {
            calls.spawn(service.clone().oneshot(request("GET", "http://api/")));
        }
        while let Some(response) = calls.join_next().await {
            assert_eq!(response.unwrap().unwrap().status().as_u16(), 429);
        }
        let visits = visits.lock().clone();
        // 500 calls pay for 100 retries, beside the reserve of 10.
        assert!(visits.len() <= 610, "{} calls", visits.len());
        assert!(visits.len() > 500, "some were tried again");
        assert_never_too_early(&visits);
    }
}

/// What one call meets: when it starts, and what each attempt gets.
type Plan = (u64, Vec<(u16, Option<u64>, u64)>);

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let attempt = (prop::sample::select(vec![200_u16, 429, 503]), prop::option::of(0_u64..8), 0_u64..900);
    prop::collection::vec((0_u64..10_000, prop::collection::vec(attempt, 1..4)), 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_servers_say_nobody_comes_too_early_waits_too_long_or_storms(
        plans in plans(), max_wait_s in 0_u64..20, reserve in 0_u32..3,
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let max_wait = Duration::from_secs(max_wait_s);
            let budget = RetryBudget { reserve, percent: 20 };
            let layer = OutgoingLayer::new(OutgoingSettings { max_wait, budget, ..settings() });
            let attempts: Vec<_> = plans.iter().flat_map(|(_, attempts)| attempts.clone()).collect();
            let (service, visits) = server(&layer, Arc::new(move |number, _| {
                let (status, told, takes_ms) = attempts[number % attempts.len()];
                let told = told.filter(|_| status != 200).map(|told| told.to_string());
                let fields: Vec<(&str, &str)> = told.iter().map(|told| ("retry-after", told.as_str())).collect();
                (Duration::from_millis(takes_ms), answer(status, &fields, ""))
            }));
            let mut calls = JoinSet::new();
            for (start_ms, _) in &plans {
                let (service, start) = (service.clone(), Duration::from_millis(*start_ms));
                calls.spawn(async move {
                    tokio::time::sleep(start).await;
                    let start = Instant::now();
                    let response = service.oneshot(request("GET", "http://api/")).await.unwrap();
                    (start.elapsed(), response.status())
                });
            }
            let mut count = 0;
            while let Some(done) = calls.join_next().await {
                let (took, _) = done.unwrap();
                // Tokio's timer rounds up; an attempt takes up to 900 ms.
                assert!(took <= max_wait + 902 * MS, "{took:?}");
                count += 1;
            }
            let visits = visits.lock().clone();
            assert_never_too_early(&visits);
            assert!(visits.len() * 100 <= (count + usize::try_from(reserve).unwrap()) * 100 + 20 * count);
        });
    }
}

/// The wall clock of these tests, which can be set.
pub(super) fn stepped_wall_now() -> SystemTime {
    caching::WALL_STEP_S.with(|step| {
        let passed =
            caching::START.with(|start| *start.borrow_mut().get_or_insert_with(Instant::now)).elapsed();
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(caching::WALL_START_S) + passed;
        let step: i64 = step.get();
        let span = Duration::from_secs(step.unsigned_abs());
        if step < 0 { wall - span } else { wall + span }
    })
}
