//! Every decision of every interface is remembered, and can be asked for.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

mod broken;
mod prometheus;
mod questions;
mod recording;
mod shared;

use serde_json::Value;

use crate::support::http::{get, request};
use crate::support::{Server, eventually};

/// Two an hour for each user; what is in the shadow refuses nothing.
const RULES: &str = "
domain: shop
descriptors:
  - key: user_id
    rate_limit: { name: per_user, algorithm: sliding_log, requests_per_unit: 2, unit: hour }
  - key: path
    rate_limit: { name: per_path, algorithm: sliding_log, requests_per_unit: 1000, unit: hour }
  - key: dark
    shadow_mode: true
    rate_limit: { name: in_the_dark, requests_per_unit: 1, unit: year }
  - key: slow
    rate_limit: { name: slow, algorithm: leaky_bucket, requests_per_unit: 1, unit: minute, burst: 5 }
  - key: kind
    rate_limit: { name: kind, algorithm: sliding_log, requests_per_unit: 1, unit: year, throttle: { soft: { exceed: 100% } } }
";

/// What a path of the admin listener answers.
async fn asked(server: &Server, path: &str) -> Value {
    let (status, body) = get(server.addresses.admin, path).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// Waits until so many requests can be asked for. What was counted within a second after a
/// flush, which comes every 15 seconds, is seen a moment later.
async fn see(server: &Server, requests: u64) {
    eventually("what was counted can be asked for", || async {
        asked(server, "/v1/history/summary").await["total"] == requests
    })
    .await;
}

/// Asks `/v1` to do something so often; the answers' statuses.
async fn v1(server: &Server, path: &str, body: &str, times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        statuses.push(request(server.addresses.http, &(head + body)).await.0);
    }
    statuses
}

/// Total and denied of each row of a top list.
async fn top(server: &Server, by: &str) -> Vec<(String, u64, u64)> {
    let top = asked(server, &format!("/v1/history/top?by={by}&last=1h")).await;
    let rows = top["rows"].as_array().unwrap().iter();
    rows.map(|row| {
        (
            row["name"].as_str().unwrap().to_owned(),
            row["total"].as_u64().unwrap(),
            row["denied"].as_u64().unwrap(),
        )
    })
    .collect()
}

fn row(name: &str, total: u64, denied: u64) -> (String, u64, u64) {
    (name.to_owned(), total, denied)
}
