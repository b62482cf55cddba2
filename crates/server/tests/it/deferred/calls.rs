//! `/v1/defer`, and ways in that cannot send anything later: there the limit denies.

use serde_json::{Value, json};

use super::{NotingApi, RULES, setup, start, until};
use crate::support::{Setup, http};

fn call(path: &str, request: &Value) -> String {
    let descriptors = json!([{ "path": path, "remote_address": "10.0.0.1" }]);
    json!({ "domain": "gateway", "descriptors": descriptors, "request": request }).to_string()
}

async fn defer(address: std::net::SocketAddr, body: &str) -> (u16, Value) {
    let (status, told) = http::post(address, "/v1/defer", body).await;
    (status, serde_json::from_str(&told).unwrap())
}

#[tokio::test]
async fn a_call_is_taken_and_sent_or_says_why_not() {
    let api = NotingApi::default();
    let (server, _) = start(setup(&api, RULES).await.env("TOLLGATE_DEFER_MAX_BODY", "10")).await;
    let http = server.addresses.http;
    let request = json!({ "method": "PUT", "path": "/x?y", "headers": { "x-a": "1" }, "body": "hello" });
    let (status, told) = defer(http, &call("/one", &request)).await;
    assert_eq!((status, &told["rule"]), (202, &Value::from("one")), "{told}");
    until(http, &told, "done").await;
    let sent = api.seen().pop().unwrap();
    assert!(sent.starts_with("PUT /x?y HTTP/1.1\r\n") && sent.ends_with("\r\n\r\nhello"), "{sent}");
    assert!(sent.contains(&format!("idempotency-key: {}\r\n", told["id"].as_str().unwrap())), "{sent}");
    let (status, waits) = defer(http, &call("/one", &request)).await;
    assert_eq!((status, &waits["status"]), (202, &Value::from("waiting")));
    let cases = [
        (call("/other", &request), 409, "no limit that this request meets puts anything off"),
        (
            call("/one", &json!({ "path": "/", "body": "eleven long" })),
            413,
            "its body has more than 10 bytes",
        ),
        (
            call("/one", &json!({ "path": "/", "headers": { "Authorization": "x" } })),
            400,
            "this header may hold credentials, which are not kept",
        ),
        (
            call("/one", &json!({ "method": "get", "path": "/" })),
            400,
            "this is no method that can be sent later",
        ),
        (r#"{"domain":"gateway","descriptors":[{"a":"b"}]}"#.to_owned(), 400, "there is no request to send"),
        (String::new(), 400, "the body is empty"),
    ];
    for (body, expected, detail) in cases {
        let (status, problem) = defer(http, &body).await;
        assert_eq!(status, expected, "{problem}");
        assert!(problem["detail"].as_str().unwrap().ends_with(detail), "{problem}");
    }
    let taken =
        [defer(http, &call("/both", &request)).await.0, defer(http, &call("/both", &request)).await.0];
    assert_eq!(taken, [202, 202], "what waits has taken nothing yet");
    assert_eq!(http::get(http, "/v1/deferred/nonsense").await.0, 404);
    assert_eq!(http::get(http, "/v1/defer").await.0, 405);
}

#[tokio::test]
async fn without_a_gateway_or_a_limit_that_defers_it_is_said_so() {
    let request = call("/one", &json!({ "path": "/" }));
    let server = Setup::new(&[("gateway.yaml", RULES)]).start().await;
    let (status, problem) = defer(server.addresses.http, &request).await;
    assert_eq!(
        (status, &problem["fix"]),
        (409, &Value::from("start the server with --gateway and --upstream"))
    );
    let api = NotingApi::default();
    let server = setup(&api, &RULES.replace("over_limit: defer", "over_limit: deny")).await.start().await;
    let (status, problem) = defer(server.addresses.http, &request).await;
    assert_eq!((status, &problem["detail"]), (409, &Value::from("no limit in force puts anything off")));
}

#[tokio::test]
async fn ways_in_that_cannot_defer_deny() {
    let mapping = "mapping:\n  domain: gateway\n  trusted_proxies: [127.0.0.1]\n  descriptors:\n    - [path: {}, remote_address: {}]\n";
    let server = Setup::new(&[("gateway.yaml", RULES)]).file(mapping).start().await;
    let asked = "x-forwarded-method: GET\r\nx-forwarded-uri: /one\r\nx-forwarded-for: 9.9.9.9";
    let authz = [
        http::get_with(server.addresses.http, "/v1/authz", asked).await.0,
        http::get_with(server.addresses.http, "/v1/authz", asked).await.0,
    ];
    assert_eq!(authz, [200, 429]);
    let check = r#"{"domain":"gateway","descriptors":[{"path":"/one","remote_address":"8.8.8.8"}]}"#;
    let checks = [
        http::post(server.addresses.http, "/v1/check", check).await.0,
        http::post(server.addresses.http, "/v1/check", check).await.0,
    ];
    assert_eq!(checks, [200, 429]);
}
