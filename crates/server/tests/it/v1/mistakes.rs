//! What is said about bad input: the field, and the fix.

use super::{RULES, post, send};
use crate::support::http::request;
use crate::support::{Server, Setup};

#[tokio::test]
async fn a_mistake_is_named_with_its_place_and_what_to_send() {
    let server = Server::with(RULES).await;
    let cases = [
        ("", "", "the body is empty", "send {\"domain\":\"shop\""),
        ("{", "", "the body is not JSON", "send one JSON object"),
        ("\"shop\"", "", "invalid type: string", "send {\"domain\""),
        ("{}", "/domain", "the domain is missing", "send the domain of a rule file"),
        (r#"{"domain":7,"descriptors":[{"a":"b"}]}"#, "/domain", "invalid type: integer `7`", "send a text"),
        (r#"{"domain":"d"}"#, "/descriptors", "there are no descriptors", "send at least one"),
        (r#"{"domain":"d","descriptors":{}}"#, "/descriptors", "invalid type: map", "send an array"),
        (r#"{"domain":"d","descriptors":["a"]}"#, "/descriptors/0", "invalid type: string", "send an object"),
        (r#"{"domain":"d","descriptors":[{"a":1.5}]}"#, "/descriptors/0/a", "floating point", "send a text"),
        (
            r#"{"domain":"d","descriptors":[{"a":"b"},{"a/b":null}]}"#,
            "/descriptors/1/a~1b",
            "null",
            "send a text",
        ),
        (
            r#"{"domain":"d","descriptors":[{"a":"1","a":"2"}]}"#,
            "/descriptors/0/a",
            "twice",
            "send each key once",
        ),
        (r#"{"domain":"d","descriptors":[{"a":"b"}],"cost":-1}"#, "/cost", "-1", "send a whole number"),
        (
            r#"{"domain":"d","descriptors":[{"a":"b"}],"hits":1}"#,
            "/hits",
            "unknown field `hits`",
            "send {\"domain\"",
        ),
        (
            r#"{"domain":"d","descriptors":[{"entries":[],"a":"b"}]}"#,
            "/descriptors/0/a",
            "no such member beside",
            "send {\"entries\"",
        ),
        (r#"[{"domain":"d","descriptors":[{"a":"b"}]},7]"#, "/1", "integer `7`", "send {\"domain\""),
    ];
    for (body, pointer, detail, fix) in cases {
        let (status, problem) = post(server.addresses.http, "/v1/check", body).await;
        assert_eq!((status, &problem["title"]), (400, &"Bad Request".into()), "{body}: {problem}");
        assert_eq!(problem["pointer"], pointer, "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{body}: {problem}");
        assert!(problem["fix"].as_str().unwrap().starts_with(fix), "{body}: {problem}");
    }
}

#[tokio::test]
async fn a_path_a_method_or_a_type_that_is_none_is_told_what_there_is() {
    let server = Server::with(RULES).await;
    let http = server.addresses.http;
    let (status, problem) = send(http, "GET /v1/chekc").await;
    assert_eq!((status, &problem["detail"]), (404, &"there is no /v1/chekc".into()));
    assert!(problem["fix"].as_str().unwrap().contains("/v1/openapi.json"), "{problem}");

    let (status, problem) = send(http, "GET /v1/check").await;
    assert_eq!((status, &problem["fix"]), (405, &"use one of these: POST".into()));
    let (status, problem) = send(server.addresses.admin, "PUT /v1/keys").await;
    assert_eq!((status, &problem["fix"]), (405, &"use one of these: GET, POST, DELETE".into()));

    let body = r#"{"domain":"shop","descriptors":[{"team":"a"}]}"#;
    for (kind, expected) in [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("application/vnd.own+json", 200),
        // As `curl -d`, `fetch` and others say where nobody told them.
        ("application/x-www-form-urlencoded", 200),
        ("text/plain;charset=UTF-8", 200),
        ("application/octet-stream", 200),
        ("multipart/form-data; boundary=x", 415),
        ("application/xml", 415),
    ] {
        let head =
            format!("POST /v1/peek HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-type: {kind}\r\n");
        let asked = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        let (status, text) = request(http, &asked).await;
        assert_eq!(status, expected, "{kind}: {text}");
        assert_eq!(status == 415, text.contains("send the header content-type: application/json"), "{text}");
    }
}

#[tokio::test]
async fn before_the_first_rules_a_caller_is_asked_to_come_again() {
    let server = Setup::new(&[("bad.yaml", "descriptors: 7")]).without_waiting().start().await;
    let (status, problem) =
        post(server.addresses.http, "/v1/check", r#"{"domain":"d","descriptors":[{"a":"b"}]}"#).await;
    assert_eq!((status, &problem["fix"]), (503, &"send it again later".into()), "{problem}");
}
