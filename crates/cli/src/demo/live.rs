//! Sends what the callers of the demo send, second by second, to the running server.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tollgate_limiter::{Clock as _, SystemClock};

use super::DOMAIN;
use super::callers::{DemoCall, DemoCallers};

/// No call is worth a longer wait.
const CALL_MAX: Duration = Duration::from_secs(2);

/// Calls the server at `http` until this is dropped with its runtime.
pub(super) async fn run(http: SocketAddr) {
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let clock = SystemClock::new();
    let mut callers = DemoCallers::default();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        let second = clock.now().get() / 1_000_000;
        for call in callers.calls(second) {
            let answered = tokio::time::timeout(CALL_MAX, send(&client, http, &call)).await;
            callers.told(&call, second, answered.ok().flatten());
        }
    }
}

/// Sends a call; how long to wait if it is denied.
async fn send(client: &Client<HttpConnector, Full<Bytes>>, http: SocketAddr, call: &DemoCall) -> Option<u64> {
    let object = |own: &super::callers::Entries| {
        own.iter().map(|(key, value)| ((*key).to_owned(), value.clone().into())).collect()
    };
    let descriptors: Vec<serde_json::Map<String, serde_json::Value>> =
        call.descriptors.iter().map(object).collect();
    let body = serde_json::json!({ "domain": DOMAIN, "descriptors": descriptors }).to_string();
    let request = Request::post(format!("http://{http}/v1/check")).header(CONTENT_TYPE, "application/json");
    let response = client.request(request.body(Full::from(body)).ok()?).await.ok()?;
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    // The rest is read, so that the connection can be used again.
    drop(response.into_body().collect().await);
    retry_after
}
