//! What is kept and used again.

use std::cell::{Cell, RefCell};

use super::*;

/// 2026-01-01T00:00:00Z.
pub(super) const WALL_START_S: u64 = 1_767_225_600;

thread_local! {
    /// By how much the wall clock was set.
    pub(super) static WALL_STEP_S: Cell<i64> = const { Cell::new(0) };
    pub(super) static START: RefCell<Option<Instant>> = const { RefCell::new(None) };
}

pub(super) fn caching(cache: CacheSettings) -> OutgoingLayer<Full<Bytes>> {
    let settings = OutgoingSettings { cache: Some(cache), ..OutgoingSettings::default() };
    OutgoingLayer::with_wall_clock(settings, |body: &Full<Bytes>| Some(body.clone()), stepped_wall_now)
}

pub(super) const SHARED: CacheSettings =
    CacheSettings { bytes_max: 1 << 20, body_max: 1 << 10, is_shared: true };

/// A server that numbers its answers, and answers a condition that names its tag with 304.
fn numbering(fields: &'static [(&'static str, &'static str)], takes: Duration) -> Part {
    Arc::new(move |number, request| {
        let tag = fields.iter().find(|(name, _)| *name == "etag").map(|(_, tag)| *tag);
        let asked = request.headers.get("if-none-match").map(|asked| asked.to_str().unwrap());
        if tag.is_some() && tag == asked {
            return (takes, answer(304, fields, ""));
        }
        (takes, answer(200, fields, &number.to_string()))
    })
}

pub(super) async fn get(service: &TestService, uri: &str, fields: &[(&'static str, &str)]) -> (u16, String) {
    let mut request = request("GET", uri);
    for (name, value) in fields {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    let response = service.clone().oneshot(request).await.unwrap();
    (response.status().as_u16(), text(response).await)
}

/// The bodies of two GETs, `pass_s` seconds apart.
async fn twice(
    cache: CacheSettings,
    fields: &'static [(&'static str, &'static str)],
    pass_s: u64,
) -> [String; 2] {
    let (service, _) = server(&caching(cache), numbering(fields, Duration::ZERO));
    let first = get(&service, "http://api/a", &[]).await.1;
    tokio::time::advance(Duration::from_secs(pass_s)).await;
    [first, get(&service, "http://api/a", &[]).await.1]
}

const SAME: [&str; 2] = ["0", "0"];
const ANEW: [&str; 2] = ["0", "1"];

#[tokio::test(start_paused = true)]
async fn an_answer_is_used_again_as_long_as_it_is_fresh() {
    assert_eq!(twice(SHARED, &[("cache-control", "max-age=60")], 59).await, SAME);
    assert_eq!(twice(SHARED, &[("cache-control", "max-age=60")], 60).await, ANEW);
    assert_eq!(twice(SHARED, &[("cache-control", "max-age=60"), ("age", "50")], 9).await, SAME);
    assert_eq!(twice(SHARED, &[("cache-control", "max-age=60"), ("age", "50")], 10).await, ANEW);
    assert_eq!(
        twice(SHARED, &[("cache-control", "max-age=60"), ("age", "99999999999999999999")], 0).await,
        ANEW
    );
    assert_eq!(
        twice(SHARED, &[("cache-control", "max-age=60"), ("age", "18446744073709551615")], 0).await,
        ANEW
    );
    assert_eq!(twice(SHARED, &[("cache-control", "no-store")], 0).await, ANEW);
    assert_eq!(twice(SHARED, &[("cache-control", "no-cache")], 0).await, ANEW);
    assert_eq!(twice(SHARED, &[], 0).await, ANEW);
    assert_eq!(twice(SHARED, &[("cache-control", "max-age=60"), ("vary", "*")], 0).await, ANEW);
    assert_eq!(twice(SHARED, &[("cache-control", "private, max-age=60")], 0).await, ANEW);
    let own = CacheSettings { is_shared: false, ..SHARED };
    assert_eq!(twice(own, &[("cache-control", "private, max-age=60")], 0).await, SAME);
}

/// The answer says when it was made, so that its way here counts.
#[tokio::test(start_paused = true)]
async fn an_answer_is_as_old_as_its_date_and_its_way() {
    let old = &[("cache-control", "max-age=60"), ("date", "Wed, 31 Dec 2025 23:59:00 GMT")];
    assert_eq!(twice(SHARED, old, 0).await, ANEW);
    let (service, visits) =
        server(&caching(SHARED), numbering(&[("cache-control", "max-age=5")], Duration::from_secs(5)));
    assert_eq!(get(&service, "http://api/a", &[]).await.1, "0");
    assert_eq!(get(&service, "http://api/a", &[]).await.1, "1");
    assert_eq!(visits.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_step_of_the_wall_clock_makes_nothing_fresh_or_stale() {
    for step_s in [-86_400, 86_400] {
        WALL_STEP_S.set(0);
        let (service, _) =
            server(&caching(SHARED), numbering(&[("cache-control", "max-age=60")], Duration::ZERO));
        assert_eq!(get(&service, "http://api/a", &[]).await.1, "0");
        WALL_STEP_S.set(step_s);
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(get(&service, "http://api/a", &[]).await.1, "0", "{step_s}");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(get(&service, "http://api/a", &[]).await.1, "1", "{step_s}");
    }
    WALL_STEP_S.set(0);
}

#[tokio::test(start_paused = true)]
async fn a_stale_answer_is_used_if_the_server_says_that_it_is_right() {
    let fields = &[("cache-control", "max-age=10"), ("etag", "\"v1\""), ("link", "<a>")];
    let (service, visits) = server(&caching(SHARED), numbering(fields, Duration::ZERO));
    assert_eq!(get(&service, "http://api/a", &[]).await, (200, "0".into()));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(get(&service, "http://api/a", &[]).await, (200, "0".into()));
    assert_eq!(visits.lock().len(), 2);
    // It is fresh again.
    tokio::time::advance(Duration::from_secs(9)).await;
    let response = service.clone().oneshot(request("GET", "http://api/a")).await.unwrap();
    assert_eq!(response.headers()["age"], "9");
    assert_eq!(response.headers()["link"], "<a>");
    assert_eq!((text(response).await.as_str(), visits.lock().len()), ("0", 2));
}

#[tokio::test(start_paused = true)]
async fn a_304_that_means_another_answer_is_not_believed() {
    let (service, visits) = server(
        &caching(SHARED),
        Arc::new(|number, request| {
            let fields =
                [("cache-control", "max-age=10"), ("etag", if number == 0 { "\"v1\"" } else { "\"v2\"" })];
            let status = if request.headers.contains_key("if-none-match") { 304 } else { 200 };
            (Duration::ZERO, answer(status, &fields, &number.to_string()))
        }),
    );
    assert_eq!(get(&service, "http://api/a", &[]).await, (200, "0".into()));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(get(&service, "http://api/a", &[]).await, (200, "2".into()));
    assert_eq!(visits.lock().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_for_those_who_sent_the_same_varied_fields() {
    let fields = &[("cache-control", "max-age=60"), ("vary", "accept-language, x-plan")];
    let (service, _) = server(&caching(SHARED), numbering(fields, Duration::ZERO));
    let ask = async |fields: &[(&'static str, &str)]| get(&service, "http://api/a", fields).await.1;
    assert_eq!(ask(&[("accept-language", "de")]).await, "0");
    assert_eq!(ask(&[("accept-language", "fr")]).await, "1");
    assert_eq!(ask(&[("accept-language", "de")]).await, "0");
    assert_eq!(ask(&[("accept-language", "fr")]).await, "1");
    assert_eq!(ask(&[]).await, "2");
    assert_eq!(ask(&[("accept-language", "de"), ("x-plan", "free")]).await, "3");
    // The second value counts as well, so that such a request is always asked for.
    assert_eq!(ask(&[("accept-language", "de"), ("accept-language", "fr")]).await, "4");
    assert_eq!(ask(&[("accept-language", "de"), ("accept-language", "fr")]).await, "5");
    assert_eq!(ask(&[("accept-language", "de"), ("other", "x")]).await, "0");
}

#[tokio::test(start_paused = true)]
async fn what_requests_say_about_the_cache_is_done() {
    let fields = &[("cache-control", "max-age=60")];
    let (service, visits) = server(&caching(SHARED), numbering(fields, Duration::ZERO));
    let ask = async |fields: &[(&'static str, &str)]| get(&service, "http://api/a", fields).await;
    assert_eq!(ask(&[("cache-control", "only-if-cached")]).await.0, 504);
    assert_eq!(ask(&[("cache-control", "no-store")]).await.1, "0");
    assert_eq!(ask(&[]).await.1, "1");
    assert_eq!(ask(&[("cache-control", "only-if-cached")]).await.1, "1");
    assert_eq!(ask(&[("cache-control", "no-cache")]).await.1, "2");
    assert_eq!(ask(&[]).await.1, "2");
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(ask(&[("cache-control", "max-age=20")]).await.1, "3");
    // Who brings conditions or wants a part has a cache of its own.
    assert_eq!(ask(&[("range", "bytes=0-1")]).await.1, "4");
    assert_eq!(ask(&[("if-none-match", "\"x\"")]).await.1, "5");
    assert_eq!(visits.lock().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_shared_cache_keeps_what_is_for_one_person_only_if_told() {
    let ask = async |fields: &'static [(&'static str, &'static str)]| {
        let (service, _) = server(&caching(SHARED), numbering(fields, Duration::ZERO));
        let authorized = [("authorization", "Bearer me")];
        get(&service, "http://api/a", &authorized).await;
        get(&service, "http://api/a", &authorized).await.1
    };
    assert_eq!(ask(&[("cache-control", "max-age=60")]).await, "1");
    assert_eq!(ask(&[("cache-control", "public, max-age=60")]).await, "0");
}

#[tokio::test(start_paused = true)]
async fn whoever_changes_something_makes_the_answers_about_it_go() {
    let fields = &[("cache-control", "max-age=60")];
    let (service, _) = server(&caching(SHARED), numbering(fields, Duration::ZERO));
    assert_eq!(get(&service, "http://api/a", &[]).await.1, "0");
    assert_eq!(get(&service, "http://api/b", &[]).await.1, "1");
    service.clone().oneshot(request("HEAD", "http://api/a")).await.unwrap();
    assert_eq!(get(&service, "http://api/a", &[]).await.1, "0");
    service.clone().oneshot(request("POST", "http://api/a")).await.unwrap();
    assert_eq!(get(&service, "http://api/a", &[]).await.1, "4");
    assert_eq!(get(&service, "http://api/b", &[]).await.1, "1");
}

#[tokio::test(start_paused = true)]
async fn the_cache_stays_within_its_bytes_and_drops_the_longest_unused() {
    let cache = CacheSettings { bytes_max: 40_000, ..SHARED };
    let layer = caching(cache);
    let body = "x".repeat(1_000);
    let (service, visits) = server(
        &layer,
        Arc::new(move |_, request| {
            let body = if request.uri.path() == "/long" { "x".repeat(1_025) } else { body.clone() };
            (Duration::ZERO, answer(200, &[("cache-control", "max-age=9999")], &body))
        }),
    );
    for number in 0..200 {
        get(&service, &format!("http://api/{number}"), &[]).await;
        // This one is always in use.
        get(&service, "http://api/0", &[]).await;
        assert!(layer.cache_bytes() <= 40_000);
    }
    assert_eq!(visits.lock().len(), 200);
    assert!(layer.cache_bytes() > 35_000);
    get(&service, "http://api/1", &[]).await;
    assert_eq!(visits.lock().len(), 201);
    for _ in 0..2 {
        get(&service, "http://api/long", &[]).await;
    }
    assert_eq!(visits.lock().len(), 203);
}

#[tokio::test(start_paused = true)]
async fn a_fresh_answer_needs_no_turn_and_its_limits_are_not_believed() {
    let fields = &[("cache-control", "max-age=60"), ("ratelimit", "\"a\";r=0;t=20")];
    let (service, visits) = server(&caching(SHARED), numbering(fields, Duration::ZERO));
    let start = Instant::now();
    for _ in 0..3 {
        assert_eq!(get(&service, "http://api/a", &[]).await.1, "0");
    }
    assert_eq!((start.elapsed(), visits.lock().len()), (Duration::ZERO, 1));
    assert_eq!(get(&service, "http://api/b", &[]).await.1, "1");
    assert!(start.elapsed() >= Duration::from_secs(20));
}

/// Names and values that mean something to a cache, and some that mean nothing.
const NAMES: &[&str] = &[
    "cache-control",
    "age",
    "date",
    "expires",
    "last-modified",
    "etag",
    "vary",
    "warning",
    "connection",
    "pragma",
    "set-cookie",
    "content-length",
];
const VALUES: &[&str] = &[
    "",
    "0",
    "-1",
    "60",
    "18446744073709551615",
    "99999999999999999999",
    "max-age=60",
    "max-age=-1",
    "max-age=18446744073709551615",
    "max-age=\"60",
    "s-maxage=9",
    "no-store",
    "no-cache",
    "private",
    "public, immutable",
    "must-revalidate, max-age=0",
    "stale-while-revalidate",
    "Wed, 31 Dec 2025 23:59:00 GMT",
    "Thu, 01 Jan 1600 00:00:00 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Thu, 01 Jan 2026 00:00:59 GMT",
    "\"v1\"",
    "W/\"v1\"",
    "*",
    "accept, accept",
    "accept-language",
    "close, etag",
    "199 - \"w\"",
    "110 - \"w\", 2",
    ",,;=",
    "caf\u{e9}",
];

proptest! {
    /// Whatever a server sends, nothing breaks, and what is not to be stored is not.
    #[test]
    fn no_field_breaks_the_cache(
        fields in prop::collection::vec((prop::sample::select(NAMES), prop::sample::select(VALUES)), 0..7),
        passes_s in prop::collection::vec(0_u64..100, 3), is_shared: bool,
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let sent = fields.clone();
            let part: Part = Arc::new(move |number, request| {
                let asks = ["if-none-match", "if-modified-since"];
                let is_asked = asks.iter().any(|name| request.headers.contains_key(*name));
                let status = if is_asked && number % 2 == 1 { 304 } else { 200 };
                let mut response = answer(status, &[], &number.to_string());
                for (name, value) in &sent {
                    let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
                    response.headers_mut().append(*name, value);
                }
                (Duration::ZERO, response)
            });
            let (service, visits) = server(&caching(CacheSettings { is_shared, ..SHARED }), part);
            for pass_s in passes_s {
                let (status, body) = get(&service, "http://api/a", &[("accept", "x")]).await;
                let visits = visits.lock().len();
                assert!(status == 200 && body.parse::<usize>().unwrap() < visits, "{status} {body}");
                tokio::time::advance(Duration::from_secs(pass_s)).await;
            }
            if fields.contains(&("cache-control", "no-store")) {
                assert_eq!(visits.lock().len(), 3);
            }
        });
    }
}
