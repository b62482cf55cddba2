//! The layer with a real client and a real server that refuses in every usual form.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_client::{OutgoingLayer, OutgoingSettings};
use tower::{Layer as _, ServiceExt as _};

use crate::connections::{CannedServer, answer};
use crate::support::TestServer;

fn get(url: &str) -> Request<Full<Bytes>> {
    Request::get(url).body(Full::default()).unwrap()
}

async fn fetch(
    layer: &OutgoingLayer<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> (StatusCode, HeaderMap, String) {
    let http = legacy::Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let (parts, body) = layer.layer(http).oneshot(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (parts.status, parts.headers, String::from_utf8(bytes.into()).unwrap())
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "dates are made from the clock that the client reads")]
async fn every_form_of_come_back_later_is_waited_for() {
    // Dates have whole seconds, so that this is 2 to 3 s from now.
    let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3));
    let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + 3;
    let shapes: Vec<(u16, Vec<(&str, String)>)> = vec![
        (429, vec![("retry-after", "1".into())]),
        (503, vec![("retry-after", "1".into())]),
        (429, vec![("retry-after", soon)]),
        (
            429,
            vec![("ratelimit", "\"burst\";r=0;t=1".into()), ("ratelimit-policy", "\"burst\";q=1;w=1".into())],
        ),
        (429, vec![("ratelimit", "limit=1, remaining=0, reset=1".into())]),
        (429, vec![("ratelimit-remaining", "0".into()), ("ratelimit-reset", "1".into())]),
        (429, vec![("x-ratelimit-remaining", "0".into()), ("x-ratelimit-reset", "1".into())]),
        (429, vec![("x-ratelimit-remaining", "0".into()), ("x-ratelimit-reset", epoch.to_string())]),
        (429, vec![("x-rate-limit-remaining", "0".into()), ("x-rate-limit-reset", "1".into())]),
        (429, vec![("x-ratelimit-remaining", "0".into()), ("x-ratelimit-retry-after", "1".into())]),
    ];
    let mut calls = JoinSet::new();
    for (status, fields) in shapes {
        calls.spawn(async move {
            let shape = format!("{status} {fields:?}");
            let refused = fields.clone();
            let server = CannedServer::start(move |number| {
                let mut response = answer(if number == 0 { status } else { 200 }, "");
                for (name, value) in refused.iter().filter(|_| number == 0) {
                    response
                        .headers_mut()
                        .insert(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
                }
                response
            })
            .await;
            let start = Instant::now();
            let layer = OutgoingLayer::new(OutgoingSettings::default());
            let (status, ..) = fetch(&layer, get(&server.url())).await;
            (shape, status, start.elapsed(), server.bodies().len())
        });
    }
    while let Some(done) = calls.join_next().await {
        let (shape, status, took, visits) = done.unwrap();
        assert_eq!((status, visits), (StatusCode::OK, 2), "{shape}");
        // Hyper dates its answers, in whole seconds, and a busy machine sends them late, so that a date may be
        // up to two seconds nearer than it looks.
        assert!(took >= Duration::from_millis(900), "{shape}: {took:?}");
    }
}

#[tokio::test]
async fn a_storm_on_real_sockets_stays_within_the_budget() {
    let server = CannedServer::start(|_| answer(503, "busy")).await;
    let layer = Arc::new(OutgoingLayer::new(OutgoingSettings::default()));
    let mut calls = JoinSet::new();
    for _ in 0..100 {
        let (layer, request) = (Arc::clone(&layer), get(&server.url()));
        calls.spawn(async move { fetch(&layer, request).await.0 });
    }
    while let Some(status) = calls.join_next().await {
        assert_eq!(status.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    }
    let visits = server.bodies().len();
    assert!((101..=100 + 10 + 20).contains(&visits), "{visits}");
}

#[tokio::test]
async fn an_answer_is_kept_off_the_wire_and_asked_about_when_it_is_old() {
    let server = CannedServer::start(|number| {
        let mut response = answer(if number == 0 { 200 } else { 304 }, if number == 0 { "kept" } else { "" });
        let headers = response.headers_mut();
        headers.insert("etag", "\"v1\"".parse().unwrap());
        headers
            .insert("cache-control", if number == 0 { "max-age=0" } else { "max-age=600" }.parse().unwrap());
        response
    })
    .await;
    let layer = OutgoingLayer::new(OutgoingSettings::default());
    for visits in [1, 2, 2, 2] {
        let (status, _, body) = fetch(&layer, get(&server.url())).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "kept"));
        assert_eq!(server.bodies().len(), visits);
    }
}

/// Tollgate's own answers are among those that the layer understands.
#[tokio::test]
async fn a_tollgate_server_is_called_within_its_limits() {
    let rules = "
domain: shop
descriptors:
  - key: user
    rate_limit: { requests_per_unit: 2, unit: second, algorithm: sliding_log }
";
    let server = TestServer::with(rules).await;
    let layer = OutgoingLayer::new(OutgoingSettings::default()).with_replay(|_| true);
    let url = format!("http://{}/v1/check", server.http);
    let start = Instant::now();
    for _ in 0..5 {
        let body = r#"{"domain":"shop","descriptors":[{"user":"42"}]}"#;
        let request = Request::post(&url).header("content-type", "application/json");
        let (status, _, text) = fetch(&layer, request.body(Full::from(body)).unwrap()).await;
        assert_eq!(status, StatusCode::OK, "{text}");
    }
    assert!(start.elapsed() >= Duration::from_secs(2));
}
