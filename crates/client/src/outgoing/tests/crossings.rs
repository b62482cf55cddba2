//! Two or three promises at once: bodies, methods, the budget, the cache, and refusals with and without a time.

use super::caching::{SHARED, caching, get};
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
