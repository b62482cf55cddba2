//! `/v1` over a real socket.
//!
//! | module | what it shows |
//! |---|---|
//! | `decide` | check, peek, report and refund, single and in batches |
//! | `operators` | `/v1/keys` and `/v1/rules` of the admin listener, and the documents |
//! | `document` | the OpenAPI documents, held against the server by schemathesis |
//! | `mistakes` | what is said about bad input: the field and the fix |
//! | `too_much` | bounds on bodies, batches, lengths and time |
//! | `direct` | requests that come in one piece, one after the other on a connection |
//! | `neighbours` | small requests beside giant batches |
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

mod decide;
mod direct;
mod document;
mod mistakes;
mod neighbours;
mod operators;
mod too_much;

use std::net::SocketAddr;

use serde_json::Value;

use crate::support::http;

/// Windows that do not end while a test runs.
const RULES: &str = "
domain: shop
descriptors:
  - key: user_id
    rate_limits:
      - { name: burst, algorithm: sliding_log, requests_per_unit: 3, unit: hour }
      - { name: sustained, algorithm: token_bucket, requests_per_unit: 5, unit: week }
  - key: team
    rate_limit: { name: team, algorithm: sliding_log, requests_per_unit: 2, unit: hour, message: ask your admin }
  - key: project
    rate_limit: { name: project, algorithm: token_bucket, requests_per_unit: 2, unit: week }
  - key: queue
    rate_limit: { name: queue, algorithm: leaky_bucket, requests_per_unit: 1, unit: hour, burst: 1 }
  - key: trial
    shadow_mode: true
    rate_limit: { name: trial, algorithm: sliding_log, requests_per_unit: 1, unit: hour }
";

/// The status, and the body as JSON.
async fn post(address: SocketAddr, path: &str, body: &str) -> (u16, Value) {
    let (status, text) = http::post(address, path, body).await;
    (status, serde_json::from_str(&text).unwrap_or_else(|_| text.into()))
}

/// The status, and the body as JSON, of a request without a body.
async fn send(address: SocketAddr, line: &str) -> (u16, Value) {
    let bytes = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let (status, text) = http::request(address, &bytes).await;
    (status, serde_json::from_str(&text).unwrap_or_else(|_| text.into()))
}

/// A request for one key of cost 1.
fn one(key: &str, value: &str) -> String {
    costing(key, value, 1)
}

fn costing(key: &str, value: &str, cost: u64) -> String {
    serde_json::json!({ "domain": "shop", "descriptors": [{ key: value }], "cost": cost }).to_string()
}

/// What a reply says, in short: `allow burst 2, sustained 4`.
fn short(reply: &Value) -> String {
    let decisions = reply["decisions"].as_array().unwrap().iter();
    let each: Vec<String> = decisions
        .map(|one| format!("{} {}", one["rule"].as_str().unwrap(), one["remaining"].as_u64().unwrap()))
        .collect();
    format!("{} {}", reply["verdict"].as_str().unwrap(), each.join(", ")).trim_end().to_owned()
}
