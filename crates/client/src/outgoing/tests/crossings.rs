//! Two or three promises at once: bodies, methods, the budget, the cache, and refusals with and without a time.

use super::caching::{SHARED, WALL_START_S, WALL_STEP_S, caching, get};
use super::*;

/// What a server got, in order: method, whether it came with a condition, body.
type Received = Arc<Mutex<Vec<(String, bool, Bytes)>>>;

/// A server that keeps what it got, and answers as `part` says.
fn keeping(layer: &OutgoingLayer<Full<Bytes>>, part: Part) -> (TestService, Received) {
    let received = Received::default();
    let kept = Arc::clone(&received);
    let service = service_fn(move |request: Request<Full<Bytes>>| {
        let (part, kept) = (Arc::clone(&part), Arc::clone(&kept));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let number = kept.lock().len();
            let is_asking = parts.headers.contains_key("if-none-match");
            kept.lock().push((parts.method.to_string(), is_asking, body));
            Ok::<_, Infallible>(part(number, &parts).1)
        }
    });
    (BoxCloneSyncService::new(layer.layer(service)), received)
}

fn refusing(times: usize, fields: &'static [(&'static str, &'static str)]) -> Part {
    Arc::new(move |number, _| match number {
        number if number < times => (MS, answer(if number % 2 == 0 { 429 } else { 503 }, fields, "busy")),
        _ => (MS, answer(200, &[], "fine")),
    })
}

fn with_body(method: &str, body: &str) -> Request<Full<Bytes>> {
    request(method, "http://api/a").map(|_| Full::from(body.to_owned()))
}

const BUDGET_NONE: RetryBudget = RetryBudget { reserve: 0, percent: 0 };

#[tokio::test(start_paused = true)]
async fn a_body_that_is_sent_again_is_the_same_to_the_byte() {
    let long = "0123456789".repeat(10_000);
    for fields in [&[][..], &[("retry-after", "1")]] {
        let (service, received) = keeping(&OutgoingLayer::new(settings()), refusing(2, fields));
        let response = service.oneshot(with_body("PUT", &long)).await.unwrap();
        assert_eq!(text(response).await, "fine");
        let received = received.lock().clone();
        assert_eq!(received.len(), 3);
        assert!(received.iter().all(|(method, _, body)| method == "PUT" && *body == long.as_bytes()));
    }
}

/// A body that cannot be cloned is sent once, whatever the method; what can be, in the same layer, again.
#[tokio::test(start_paused = true)]
async fn only_bodies_that_can_be_cloned_are_sent_again() {
    let small = |body: &Full<Bytes>| {
        let is_small = http_body::Body::size_hint(body).exact() <= Some(10);
        is_small.then(|| body.clone())
    };
    for (method, body, calls) in [("PUT", "small", 2), ("PUT", "much too large", 1), ("POST", "small", 1)] {
        let layer = OutgoingLayer::with_clone(settings(), small);
        let (service, received) = keeping(&layer, refusing(1, &[]));
        service.oneshot(with_body(method, body)).await.unwrap();
        assert_eq!(received.lock().len(), calls, "{method} {body}");
    }
}

/// Without a budget nothing is sent again, but the time that was told holds all the same, also for a call
/// that may not be sent twice.
#[tokio::test(start_paused = true)]
async fn an_empty_budget_ends_retries_and_not_the_memory_of_a_denial() {
    for method in ["GET", "POST"] {
        for (told, waited) in
            [(&[("retry-after", "5")][..], 5), (&[("ratelimit", "\"a\";r=0;t=5")], 5), (&[], 0)]
        {
            let layer = OutgoingLayer::new(OutgoingSettings { budget: BUDGET_NONE, ..settings() });
            let (service, received) = keeping(&layer, refusing(1, told));
            let start = Instant::now();
            let first = service.clone().oneshot(with_body(method, "x")).await.unwrap();
            assert_eq!(
                (first.status().as_u16(), start.elapsed()),
                (429, Duration::ZERO),
                "{method} {told:?}"
            );
            assert_eq!(text(first).await, "busy", "what the server said is passed on");
            let second = service.clone().oneshot(with_body(method, "y")).await.unwrap();
            assert_eq!(second.status(), StatusCode::OK, "{method} {told:?}");
            let took = start.elapsed();
            assert!(
                took.as_secs() == waited && took < Duration::from_millis(5_202),
                "{method} {told:?}: {took:?}"
            );
            assert_eq!(received.lock().len(), 2);
        }
    }
}

/// Answers of the cache, and calls that were never sent, pay for no retry.
#[tokio::test(start_paused = true)]
async fn what_is_not_sent_pays_for_no_retries() {
    let budget = RetryBudget { reserve: 1, percent: 50 };
    let settings =
        OutgoingSettings { budget, max_wait: Duration::from_secs(5), ..OutgoingSettings::default() };
    let layer =
        OutgoingLayer::with_wall_clock(settings, |body: &Full<Bytes>| Some(body.clone()), stepped_wall_now);
    let (service, received) = keeping(
        &layer,
        Arc::new(|_, request| match request.uri.path() {
            "/kept" => (MS, answer(200, &[("cache-control", "max-age=60")], "kept")),
            "/away" => (MS, answer(429, &[("retry-after", "60")], "")),
            _ => (MS, answer(503, &[], "")),
        }),
    );
    let visits = || received.lock().len();
    get(&service, "http://a/kept", &[]).await;
    get(&service, "http://b/away", &[]).await;
    // One retry is saved up, and two calls pay for another.
    get(&service, "http://c/busy", &[]).await;
    assert_eq!(visits(), 2 + 2);
    for _ in 0..100 {
        assert_eq!(get(&service, "http://a/kept", &[]).await.0, 200);
        assert_eq!(get(&service, "http://b/x", &[]).await.0, 429);
    }
    assert_eq!(visits(), 4);
    get(&service, "http://c/busy", &[]).await;
    assert_eq!(visits(), 4 + 1);
    get(&service, "http://c/busy", &[]).await;
    assert_eq!(visits(), 5 + 2);
}

/// A refusal is never kept, however long it says that it is good for.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_no_answer_for_the_cache() {
    for status in [429, 503] {
        let (service, received) = keeping(
            &caching(SHARED),
            Arc::new(move |number, _| {
                let fields = [("cache-control", "public, max-age=60")];
                (MS, answer(if number < 4 { status } else { 200 }, &fields, &number.to_string()))
            }),
        );
        assert_eq!(get(&service, "http://api/a", &[]).await, (status, "3".into()));
        assert_eq!(get(&service, "http://api/a", &[]).await, (200, "4".into()));
        assert_eq!(get(&service, "http://api/a", &[]).await, (200, "4".into()));
        assert_eq!(received.lock().len(), 5);
    }
}

/// An old answer is asked about, refused, and asked about again with the same condition.
#[tokio::test(start_paused = true)]
async fn a_refused_question_about_an_old_answer_is_asked_again() {
    let (service, received) = keeping(
        &caching(SHARED),
        Arc::new(|number, _| match number {
            0 => (MS, answer(200, &[("cache-control", "max-age=10"), ("etag", "\"v1\"")], "kept")),
            1 => (MS, answer(429, &[("retry-after", "2")], "")),
            2 => (MS, answer(503, &[], "")),
            _ => (MS, answer(304, &[("cache-control", "max-age=10"), ("etag", "\"v1\"")], "")),
        }),
    );
    assert_eq!(get(&service, "http://api/a", &[]).await.1, "kept");
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(get(&service, "http://api/a", &[]).await, (200, "kept".into()));
    assert_eq!(get(&service, "http://api/a", &[]).await, (200, "kept".into()));
    let asking: Vec<bool> = received.lock().iter().map(|(_, is_asking, _)| *is_asking).collect();
    assert_eq!(asking, [false, true, true, true]);
}

/// While a host is left alone, the cache goes on, and what is not sent changes nothing in it.
#[tokio::test(start_paused = true)]
async fn the_cache_answers_for_a_host_that_is_left_alone() {
    let (service, received) = keeping(
        &caching(SHARED),
        Arc::new(|_, request| match request.uri.path() {
            "/kept" => (MS, answer(200, &[("cache-control", "max-age=9999")], "kept")),
            _ => (MS, answer(503, &[("retry-after", "3600")], "")),
        }),
    );
    assert_eq!(get(&service, "http://api/kept", &[]).await.0, 200);
    assert_eq!(get(&service, "http://api/busy", &[]).await.0, 503);
    let change = service.clone().oneshot(request("POST", "http://api/kept")).await.unwrap();
    assert!(
        change.status() == StatusCode::SERVICE_UNAVAILABLE && change.extensions().get::<NotSent>().is_some()
    );
    assert_eq!(get(&service, "http://api/kept", &[]).await, (200, "kept".into()));
    assert_eq!(received.lock().len(), 2);
}

/// The time on the wall, so many seconds after the start, as the server writes it.
fn date(after_s: u64) -> String {
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(WALL_START_S + after_s))
}

/// After what time a refused call was made again, full jitter of at most 200 ms with it; none if it was not.
async fn made_again_after(status: u16, fields: &[(&'static str, String)]) -> Option<Duration> {
    let settings = OutgoingSettings { max_wait: Duration::from_secs(100), ..settings() };
    let clone = |body: &Full<Bytes>| Some(body.clone());
    let layer = OutgoingLayer::with_wall_clock(settings, clone, stepped_wall_now);
    let fields = fields.to_vec();
    let part: Part = Arc::new(move |number, _| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if number == 0 { (MS, answer(status, &fields, "busy")) } else { (MS, answer(200, &[], "fine")) }
    });
    let (service, received) = keeping(&layer, part);
    let start = Instant::now();
    let response = service.oneshot(with_body("GET", "")).await.unwrap();
    let is_again = received.lock().len() == 2;
    assert_eq!(is_again, response.status() == StatusCode::OK);
    is_again.then(|| start.elapsed())
}

/// Every form of a time that can be told, by both statuses, on a clock that is right or wrong by hours either way.
#[tokio::test(start_paused = true)]
async fn whatever_form_a_time_has_it_is_waited_for_on_any_clock() {
    const YEARS: u64 = 20 * 365 * 86_400;
    let after = |text: &str| vec![("retry-after", text.to_owned())];
    let at = |after_s: u64| after(&date(after_s));
    let dated = |mut fields: Vec<(&'static str, String)>, now_s: u64| {
        fields.push(("date", date(now_s)));
        fields
    };
    let with = |mut fields: Vec<(&'static str, String)>, name: &'static str, value: &str| {
        fields.push((name, value.to_owned()));
        fields
    };
    // What is told, and when the call is made again; none where that is too far away.
    let cases = [
        (after("0"), Some(0)),
        (after("7"), Some(7)),
        (after("99"), Some(99)),
        (after("101"), None),
        (after("18446744073709551616"), None),
        (dated(at(7), 0), Some(7)),
        (dated(at(3_607), 3_600), Some(7)),
        (dated(at(0), 60), Some(0)),
        (dated(at(YEARS), 0), None),
        // What cannot be read is as good as none: the next in the table counts, or the jitter alone.
        (after("-5"), Some(0)),
        (after("soon"), Some(0)),
        (after("7 s"), Some(0)),
        (after("Thu, 99 Foo 2026 00:00:00 GMT"), Some(0)),
        (with(after("-5"), "ratelimit", r#""a";r=0;t=9"#), Some(9)),
        (with(after("7"), "ratelimit", r#""a";r=0;t=9"#), Some(7)),
        // Of several items those count that are empty, and of these the longest.
        (vec![("ratelimit", r#""a";r=0;t=5, "b";r=0;t=9, "c";r=1;t=99"#.to_owned())], Some(9)),
        (with(vec![("ratelimit", r#""a";r=0;t=5"#.to_owned())], "ratelimit", r#""b";r=0;t=9"#), Some(9)),
        (vec![("ratelimit", r#""a";r=-1;t=5, "b";r=0;t=9, "c";t=x"#.to_owned())], Some(9)),
        (vec![("ratelimit", r#""a";r=3;t=99"#.to_owned())], Some(0)),
    ];
    for step_s in [0, 3 * 3_600, -3 * 3_600] {
        WALL_STEP_S.with(|step| step.set(step_s));
        for status in [429, 503] {
            for (fields, expected) in &cases {
                let again = made_again_after(status, fields).await;
                let told = expected.map(Duration::from_secs);
                let is_right = match (again, told) {
                    (Some(again), Some(told)) => again >= told && again <= told + 202 * MS,
                    (again, told) => again == told,
                };
                assert!(is_right, "{status} {fields:?}, a clock off by {step_s} s: {again:?}");
            }
        }
    }
    WALL_STEP_S.with(|step| step.set(0));
}

/// A date without the server's own `Date` can only be held against this clock. A clock that is wrong makes the wait
/// wrong; it never makes it longer than a day, and what was learnt before is kept.
#[tokio::test(start_paused = true)]
async fn a_date_without_a_date_is_held_against_this_clock() {
    for (step_s, expected) in
        [(0_i64, Some(7_u64)), (5, Some(2)), (3_600, Some(0)), (-60, Some(67)), (-3_600, None)]
    {
        WALL_STEP_S.with(|step| step.set(0));
        let right = stepped_wall_now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        WALL_STEP_S.with(|step| step.set(step_s));
        let again = made_again_after(429, &[("retry-after", date(right - WALL_START_S + 7))]).await;
        let is_near = match (again, expected.map(Duration::from_secs)) {
            // A date is of whole seconds: what has passed of this one is not waited for.
            (Some(again), Some(told)) => again + 1_000 * MS >= told && again <= told + 202 * MS,
            (again, told) => again == told,
        };
        assert!(is_near, "off by {step_s} s: {again:?}");
    }
    WALL_STEP_S.with(|step| step.set(0));
}

/// A clock that is set while a host is left alone changes nothing: what is waited for is a span.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_ends_no_wait_and_makes_none_longer() {
    for step_s in [86_400 * 400, -86_400 * 400] {
        let settings = OutgoingSettings { max_wait: Duration::from_secs(5), ..settings() };
        let clone = |body: &Full<Bytes>| Some(body.clone());
        let layer = OutgoingLayer::with_wall_clock(settings, clone, stepped_wall_now);
        let fields = [("retry-after", "60")];
        let (service, received) =
            keeping(
                &layer,
                Arc::new(move |number, _| {
                    if number == 0 { (MS, answer(429, &fields, "")) } else { (MS, answer(200, &[], "")) }
                }),
            );
        assert_eq!(get(&service, "http://api/a", &[]).await.0, 429);
        WALL_STEP_S.with(|step| step.set(step_s));
        assert_eq!(get(&service, "http://api/a", &[]).await.0, 429, "{step_s}");
        assert_eq!(received.lock().len(), 1, "it was not sent");
        tokio::time::advance(Duration::from_secs(56)).await;
        assert_eq!(get(&service, "http://api/a", &[]).await.0, 200, "{step_s}");
        WALL_STEP_S.with(|step| step.set(0));
    }
}

/// Calls that were refused at one instant with one time do not come back at one instant: chance takes any part of what
/// it may add, told or not.
#[tokio::test(start_paused = true)]
async fn calls_that_are_refused_together_come_back_one_by_one() {
    let most = settings().backoff.ceiling(0);
    for told_s in [None, Some(3)] {
        let budget = RetryBudget { reserve: 200, percent: 0 };
        let layer = OutgoingLayer::new(OutgoingSettings { budget, ..settings() });
        let fields: Vec<(&'static str, &'static str)> =
            told_s.map(|_| ("retry-after", "3")).into_iter().collect();
        let (service, visits) = server(
            &layer,
            Arc::new(move |number, _| (MS, answer(if number < 200 { 429 } else { 200 }, &fields, ""))),
        );
        let start = Instant::now();
        let mut calls = JoinSet::new();
        for _ in 0..200 {
            calls.spawn(service.clone().oneshot(request("GET", "http://api/")));
        }
        let answered = calls.join_all().await;
        assert!(answered.into_iter().all(|response| response.unwrap().status() == StatusCode::OK));
        let first = start + MS + Duration::from_secs(told_s.unwrap_or(0));
        let visits = visits.lock().clone();
        let mut in_halves = [0; 2];
        for visit in visits.iter().filter(|visit| visit.came > start) {
            let late = visit.came.duration_since(first);
            // Tokio's timer rounds up to a millisecond.
            assert!(visit.came >= first && late <= most + 2 * MS, "{told_s:?}: {late:?}");
            in_halves[usize::from(late > most / 2)] += 1;
        }
        // With a time that was told, a call takes the later of two chances, so that some 50 of 200 come early.
        assert!(in_halves.iter().all(|count| *count >= 15), "{told_s:?}: {in_halves:?}");
    }
}
