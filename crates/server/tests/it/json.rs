//! `/json` and `/healthcheck`, byte by byte.

use crate::support::http::{get, post, request};
use crate::support::{Server, Setup, eventually};

const RULES: &str = "
domain: d
descriptors:
  - key: two
    rate_limit: { name: pair, unit: year, requests_per_unit: 2 }
  - key: zero
    rate_limit: { unit: year, requests_per_unit: 0 }
  - key: free
    rate_limit: { unlimited: true }
  - key: attached
    metadata: { b: [1, 2], a: text }
    rate_limit: { unit: year, requests_per_unit: 9 }
";

/// The body with the one number that the clock decides taken out.
fn without_reset(body: &str) -> String {
    let Some((before, rest)) = body.split_once("\"durationUntilReset\":\"") else { return body.to_owned() };
    let (seconds, after) = rest.split_once("s\"").expect("it ends with a unit");
    let seconds: u64 = seconds.parse().expect("it is whole seconds");
    assert!((1..=31_536_000).contains(&seconds));
    format!("{before}\"durationUntilReset\":\"Ns\"{}", without_reset(after))
}

#[tokio::test]
async fn a_call_is_answered_in_protobufs_json() {
    let server = Server::with(RULES).await;
    let asked = r#"{"domain":"d","descriptors":[{"entries":[{"key":"two","value":"x"}]}]}"#;
    let golden = [
        (
            200,
            r#"{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"pair","requestsPerUnit":2,"unit":"YEAR"},"limitRemaining":1,"durationUntilReset":"Ns"}]}"#,
        ),
        (
            200,
            r#"{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"pair","requestsPerUnit":2,"unit":"YEAR"},"durationUntilReset":"Ns"}]}"#,
        ),
        (
            429,
            r#"{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"name":"pair","requestsPerUnit":2,"unit":"YEAR"},"durationUntilReset":"Ns"}]}"#,
        ),
    ];
    for (status, body) in golden {
        let answer = post(server.addresses.http, "/json", asked).await;
        assert_eq!((answer.0, without_reset(&answer.1).as_str()), (status, body));
    }
}

#[tokio::test]
async fn zero_values_are_left_out_and_everything_else_is_there() {
    let server = Setup::new(&[("rules.yaml", RULES)])
        .env("LIMIT_RESPONSE_HEADERS_ENABLED", "true")
        .env("RESPONSE_DYNAMIC_METADATA", "true")
        .start()
        .await;
    let asked = r#"{"domain":"d","descriptors":[
        {"entries":[{"key":"zero"}]}, {"entries":[{"key":"free"}]}, {"entries":[{"key":"missing"}]}]}"#;
    let (status, body) = post(server.addresses.http, "/json", asked).await;
    assert_eq!(status, 429);
    let reset =
        body.split("\"key\":\"RateLimit-Reset\",\"value\":\"").nth(1).unwrap().split('"').next().unwrap();
    let golden = [
        r#"{"overallCode":"OVER_LIMIT","statuses":["#,
        r#"{"code":"OVER_LIMIT","currentLimit":{"unit":"YEAR"},"durationUntilReset":"Ns"},"#,
        r#"{"code":"OK","limitRemaining":4294967295},{"code":"OK"}],"#,
        r#""responseHeadersToAdd":[{"key":"RateLimit-Limit","value":"0"},"#,
        r#"{"key":"RateLimit-Remaining","value":"0"},"#,
        &format!(r#"{{"key":"RateLimit-Reset","value":"{reset}"}}],"#),
        r#""dynamicMetadata":{"descriptors":[{"entries":["zero="]},{"entries":["free="]},"#,
        r#"{"entries":["missing="]}],"domain":"d"}}"#,
    ];
    assert_eq!(without_reset(&body), golden.concat());

    let asked =
        r#"{"domain":"d","hits_addend":3,"descriptors":[{"entries":[{"key":"attached","value":"1"}]}]}"#;
    let (_, body) = post(server.addresses.http, "/json", asked).await;
    let metadata = r#""dynamicMetadata":{"descriptors":[{"entries":["attached=1"]}],"domain":"d","hitsAddend":3,"metadata":{"a":"text","b":[1,2]}}"#;
    assert!(body.contains(metadata), "{body}");
}

#[tokio::test]
async fn what_envoy_is_to_tell_is_in_the_reply_if_asked_for() {
    let server = Setup::new(&[("rules.yaml", RULES)]).env("TOLLGATE_TELL_THROUGH_ENVOY", "all").start().await;
    let asked = r#"{"domain":"d","descriptors":[{"entries":[{"key":"zero"}]}]}"#;
    let (status, body) = post(server.addresses.http, "/json", asked).await;
    let golden = [
        r#"{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"unit":"YEAR"},"durationUntilReset":"Ns"}],"#,
        r#""responseHeadersToAdd":[{"key":"x-ratelimit-limit","value":"0"},{"key":"x-ratelimit-remaining","value":"0"},"#,
        r#"{"key":"ratelimit-policy","value":"\"d.zero\";q=0;w=31536000"},{"key":"ratelimit","value":"\"d.zero\";r=0"},"#,
        r#"{"key":"content-type","value":"application/problem+json"}],"rawBody":""#,
        // The problem, in base64.
        "eyJ0eXBlIjoiaHR0cHM6Ly9pYW5hLm9yZy9hc3NpZ25tZW50cy9odHRwLXByb2JsZW0tdHlwZXMjcXVvdGEtZXhjZWVkZWQi",
    ];
    let told = without_reset(&body);
    assert_eq!(status, 429);
    assert!(told.starts_with(&golden.concat()), "{told}");
}

#[tokio::test]
async fn any_method_will_do() {
    let server = Server::with(RULES).await;
    let body = r#"{"domain":"d","descriptors":[{"entries":[{"key":"free"}]}]}"#;
    for method in ["GET", "PUT", "PATCH", "DELETE"] {
        let head = format!("{method} /json HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: ");
        let (status, answer) =
            request(server.addresses.http, &format!("{head}{}\r\n\r\n{body}", body.len())).await;
        assert_eq!(status, 200, "{method}: {answer}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_named_and_whose_fault_it_is_is_told_by_the_status() {
    let server = Server::with(RULES).await;
    let cases = [
        (r#"{"domian":"d"}"#, 400, "`domian`"),
        ("not json", 400, "line 1"),
        ("", 400, r#"the body is empty; send a rate limit request as JSON, such as {"domain":"shop""#),
        (" \r\n", 400, "the body is empty"),
        (r#"{"descriptors":[{}]}"#, 400, "the domain is empty"),
        (r#"{"domain":"d"}"#, 400, "there are no descriptors"),
        (r#"{"domain":"d","descriptors":[{"limit":{"requestsPerUnit":1}}]}"#, 400, "descriptor 0"),
    ];
    for (body, status, text) in cases {
        let answer = post(server.addresses.http, "/json", body).await;
        assert_eq!(answer.0, status, "{body}");
        assert!(answer.1.contains(text), "{body} gets {}", answer.1);
    }
    let (status, _) = get(server.addresses.http, "/elsewhere").await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn before_the_first_rules_the_server_is_unavailable_and_not_the_caller_wrong() {
    let server = Setup::new(&[("bad.yaml", "descriptors: 7")]).without_waiting().start().await;
    let body = r#"{"domain":"d","descriptors":[{}]}"#;
    let (status, text) = post(server.addresses.http, "/json", body).await;
    assert_eq!(status, 503);
    assert!(text.contains("no rules are loaded"), "{text}");
}

#[tokio::test]
async fn the_health_check_is_ok_or_500_and_verbose_says_why() {
    let server = Setup::new(&[("bad.yaml", "descriptors: 7")])
        .env("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true")
        .without_waiting()
        .start()
        .await;
    let http = server.addresses.http;
    assert_eq!(get(http, "/healthcheck").await, (500, String::new()));
    server.until_verbose("\"failures\":1").await;
    let (status, body) = get(http, "/healthcheck?verbose").await;
    assert_eq!(status, 500);
    let verbose: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        verbose["components"],
        serde_json::json!({ "config": "failed", "store": "ok", "sigterm": "ok" })
    );
    assert!(verbose["rules"]["errors"][0].as_str().unwrap().contains("bad.yaml"), "{body}");
    assert_eq!(verbose["addresses"]["http"], http.to_string());

    crate::support::replace_file(&server.rules_folder().join("bad.yaml"), RULES);
    eventually("healthy", || async { get(http, "/healthcheck").await == (200, "OK".to_owned()) }).await;
}
