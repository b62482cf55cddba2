//! How one asks: every path, every format, and what is told about mistakes.

use serde_json::{Value, json};

use super::{RULES, asked, see, v1};
use crate::support::Server;
use crate::support::http::{get, raw, request};

/// A server that has counted a little.
async fn counted() -> Server {
    let server = Server::with(RULES).await;
    for (path, times) in [("/cart", 3), ("/=1+1", 1)] {
        let body = format!(r#"{{"domain":"shop","descriptors":[{{"path":"{path}"}}]}}"#);
        v1(&server, "/v1/check", &body, times).await;
    }
    v1(&server, "/v1/check", r#"{"domain":"shop","descriptors":[{"user_id":"u"}]}"#, 3).await;
    see(&server, 7).await;
    server
}

#[tokio::test]
async fn a_curve_has_the_shape_of_the_contract() {
    let server = counted().await;
    let answer = asked(&server, "/v1/history/series?by=route&name=/cart&last=10m").await;
    assert_eq!((&answer["step_s"], &answer["total"]), (&json!(60), &json!(3)));
    assert_eq!(answer["partial_last"], true, "this minute is not over");
    let curve = &answer["series"][0];
    assert_eq!((&curve["name"], &curve["outcome"]), (&json!("/cart"), &json!("allowed")));
    let points = curve["points"].as_array().unwrap();
    assert!(points.len() <= 2, "before the start nobody counted, so there are gaps: {points:?}");
    let sum: u64 = points.iter().filter_map(|point| point[1].as_u64()).sum();
    assert_eq!(sum, 3);
    let both =
        asked(&server, "/v1/history/series?by=route&name=/cart&name=/%3D1%2B1&name=/none&last=10m").await;
    let totals: Vec<_> =
        both["series"].as_array().unwrap().iter().map(|own| (&own["name"], &own["total"])).collect();
    assert_eq!(totals, [(&json!("/=1+1"), &json!(1)), (&json!("/cart"), &json!(3))]);
    let many = format!("/v1/history/series?{}", "name=/a&".repeat(101));
    assert_eq!(get(server.addresses.admin, &many).await.0, 400);
    let compared = asked(&server, "/v1/history/series?last=10m&compare=previous_period").await;
    assert_eq!(compared["total"], 7);
    assert_eq!(compared["compare"]["total"], 0);
    assert_eq!(compared["compare"]["to"], compared["from"]);
    let denied = asked(&server, "/v1/history/series?by=rule&outcome=denied").await;
    assert_eq!((&denied["total"], &denied["series"][0]["outcome"]), (&json!(1), &json!("denied")));
    let day = asked(&server, "/v1/history/series?last=24h").await;
    assert_eq!(day["step_s"], 300);
    let fine = asked(&server, "/v1/history/series?last=24h&max_points=1440").await;
    assert_eq!(fine["step_s"], 60);
    let year = asked(&server, "/v1/history/series?last=1y").await;
    assert_eq!(year["step_s"], 172_800);
}

#[tokio::test]
async fn lists_are_sorted_by_what_is_asked_for() {
    let server = counted().await;
    let by_total = asked(&server, "/v1/history/top?by=key&limit=1").await;
    assert_eq!(
        by_total["rows"],
        json!([{"name": "path=/cart", "domain": "shop", "rule": "per_path", "total": 3, "denied": 0}])
    );
    assert_eq!(by_total["other"], json!({"total": 4, "denied": 1}));
    let by_denied = asked(&server, "/v1/history/top?by=key&order=denied").await;
    assert_eq!(
        by_denied["rows"],
        json!([{"name": "user_id=u", "domain": "shop", "rule": "per_user", "total": 3, "denied": 1}])
    );
    let labels = asked(&server, "/v1/history/labels").await;
    assert_eq!(labels["labels"][0], json!({"name": "route", "values": 2}));
    let values = asked(&server, "/v1/history/labels/route/values?prefix=/c").await;
    assert_eq!(values, json!({"name": "route", "values": ["/cart"], "more": false}));
    let first = asked(&server, "/v1/history/labels/route/values?limit=1").await;
    assert_eq!((&first["values"], &first["more"]), (&json!(["/=1+1"]), &json!(true)));
    let status = asked(&server, "/v1/history/status").await;
    assert_eq!((&status["open"], &status["lost_requests"]), (&json!(true), &json!(0)));
    assert_eq!(status["tiers"][0]["name"], "1m");
}

#[tokio::test]
async fn every_format_says_the_same() {
    let server = counted().await;
    let get = async |path: &str| get(server.addresses.admin, path).await.1;
    let csv = get("/v1/history/top?by=rule&format=csv").await;
    assert_eq!(
        csv,
        "domain,rule,name,total,denied\r\nshop,,per_path,4,0\r\nshop,,per_user,3,1\r\n,,(other),0,0\r\n"
    );
    let ndjson = get("/v1/history/top?by=rule&format=ndjson").await;
    let lines: Vec<Value> = ndjson.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json!({"domain": "shop", "name": "per_path", "total": 4, "denied": 0}));
    let points = get("/v1/history/series?format=csv").await;
    assert!(points.starts_with("time,domain,rule,name,outcome,count\r\n"), "{points}");
    let head = raw(
        server.addresses.admin,
        b"GET /v1/history/summary?format=csv HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(head.contains("content-type: text/csv; charset=utf-8; header=present\r\n"), "{head}");
}

#[tokio::test]
async fn a_key_is_forgotten() {
    let server = counted().await;
    let forget = async |query: &str| {
        let head = format!(
            "DELETE /v1/history/keys{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        );
        let (status, body) = request(server.addresses.admin, &head).await;
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    assert_eq!(forget("?name=user_id=u&rule=per_path").await, (200, json!({"forgotten": 0})));
    assert_eq!(
        forget("?name=user_id=u").await,
        (200, json!({"forgotten": 1})),
        "also what was not written yet"
    );
    let (status, problem) = forget("").await;
    assert_eq!((status, &problem["pointer"]), (400, &json!("/name")));
    let keys = asked(&server, "/v1/history/top?by=key").await;
    assert!(!keys.to_string().contains("user_id=u"), "{keys}");
    assert_eq!(keys["other"], json!({"total": 3, "denied": 1}), "its counts are among the others");
}

#[tokio::test]
async fn a_mistake_is_told_with_the_parameter_and_what_to_send() {
    let server = Server::with(RULES).await;
    let cases = [
        ("series?by=url", "/by", "send route, rule or key"),
        ("series?from=yesterday", "/from", "send RFC 3339, unix seconds, or now-6h"),
        ("series?from=now&to=now-1h", "/from", "send a start before the end"),
        ("series?from=now-1h&last=1h", "/last", "send from or last, not both"),
        ("series?step=soon", "/step", "send a number with s, m, h, d, w or y, such as 24h"),
        ("series?max_points=0", "/max_points", "send 1 to 11000"),
        ("series?compare=never", "/compare", "send previous_period, previous_week or previous_year"),
        ("series?format=xml", "/format", "send json, ndjson or csv"),
        (
            "series?outcome=maybe",
            "/outcome",
            "send some of allowed, soft, delayed, denied, shadow_denied, degraded",
        ),
        ("top?limit=100000", "/limit", "send 1 to 10000"),
        ("top?order=growth", "/order", "send total or denied"),
        ("top?by=key&by=rule", "/by", "send it once"),
        ("top?by=route&rule=login", "/rule", "send by=rule or by=key"),
        ("series?domain=shop", "/domain", "send by=rule or by=key"),
        ("summary?since=now-1h", "/since", "send one of from, to, last, format"),
        ("status?verbose=1", "/verbose", "send none"),
    ];
    for (path, pointer, fix) in cases {
        let (status, body) = get(server.addresses.admin, &format!("/v1/history/{path}")).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["pointer"], &body["fix"]), (400, &json!(pointer), &json!(fix)), "{path}");
    }
    assert_eq!(get(server.addresses.admin, "/v1/history/labels/url/values").await.0, 404);
}

/// The members of an object, sorted.
fn members(value: &Value) -> Vec<&str> {
    let mut members: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    members
}

#[tokio::test]
async fn the_document_has_the_members_that_answers_have() {
    let server = counted().await;
    let document = asked(&server, "/v1/openapi.json").await;
    let schemas = &document["components"]["schemas"];
    for (path, schema) in [
        ("series?compare=previous_period", "HistorySeries"),
        ("top", "HistoryTop"),
        ("summary", "HistorySummary"),
        ("labels", "HistoryLabels"),
        ("labels/route/values", "HistoryValues"),
    ] {
        let answer = asked(&server, &format!("/v1/history/{path}")).await;
        let described = &schemas[schema]["properties"];
        assert!(described.is_object(), "{schema} is in the document: {schemas:#}");
        assert_eq!(members(&answer), members(described), "{path}");
    }
    let status = asked(&server, "/v1/history/status").await;
    let described = members(&schemas["HistoryStatus"]["properties"]);
    let without_error: Vec<&str> = described.into_iter().filter(|name| *name != "error").collect();
    assert_eq!(members(&status), without_error);
}
