//! Questions as proxies ask them, and as nobody should.

use std::time::{Duration, Instant};

use super::{BY_ADDRESS, BY_PATH, RULES, ask, ask_from, mapping, send, server};
use crate::support::{Setup, http};

#[tokio::test]
async fn an_allowed_request_is_told_what_is_left_and_a_denied_one_when_to_come_again() {
    let server = server(&mapping(BY_ADDRESS)).await;
    let question = ["X-Forwarded-Method: GET", "X-Forwarded-Uri: /a", "X-Forwarded-For: 203.0.113.9"];
    for remaining in ["1", "0"] {
        let allowed = ask(&server, "GET /v1/authz", &question).await;
        assert_eq!((allowed.status, allowed.body.as_str()), (200, ""), "{allowed:?}");
        assert_eq!(allowed.header("x-ratelimit-limit"), Some("2"));
        assert_eq!(allowed.header("x-ratelimit-remaining"), Some(remaining));
        assert_eq!(allowed.header("x-tollgate-verdict"), Some("allow"));
    }
    let denied = ask(&server, "GET /v1/authz", &question).await;
    assert_eq!(denied.status, 429);
    let seconds: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!((3_500..=3_600).contains(&seconds), "{denied:?}");
    assert_eq!(denied.header("x-tollgate-verdict"), Some("deny"));
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    assert!(denied.header("ratelimit").unwrap().starts_with("\"address\";r=0;t="), "{denied:?}");
    assert!(denied.body.contains(r#""violated-policies":["address"]"#), "{}", denied.body);
    assert!(denied.body.contains(r#""detail":"slow down""#), "{}", denied.body);
    let other = ask(&server, "GET /v1/authz", &["X-Forwarded-For: 203.0.113.10"]).await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn every_method_is_a_question() {
    let server = server(&mapping(BY_PATH)).await;
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
        let line = format!("{method} /v1/authz/users/42");
        let answer = ask(&server, &line, &[]).await;
        // Each is a counter of its own, so that all of them pass.
        let told = (answer.status, answer.header("x-ratelimit-remaining"));
        assert_eq!(told, (200, Some("2")), "{method}: {answer:?}");
    }
}

#[tokio::test]
async fn the_request_is_found_wherever_a_proxy_describes_it() {
    let server = server(&mapping(BY_PATH)).await;
    let same: [(&str, &[&str]); 6] = [
        ("GET /v1/authz", &["X-Forwarded-Method: POST", "X-Forwarded-Uri: /users/1?a=b"]),
        ("GET /v1/authz", &["X-Original-Method: POST", "X-Original-URI: //users/%32"]),
        (
            "GET /v1/authz?deny=403",
            &["X-Original-Method: POST", "X-Original-URL: https://shop.example/users/3"],
        ),
        ("POST /v1/authz/users/4?x=y", &[]),
        ("POST /v1/authz", &["X-Original-URI: /users/5"]),
        ("POST /v1/authz", &["X-Forwarded-Uri: /users/6", "X-Original-URI: /users/6"]),
    ];
    for (index, (line, headers)) in same.into_iter().enumerate() {
        let answer = ask(&server, line, headers).await;
        let expected = match index {
            0..3 => 200,
            _ => 429,
        };
        assert_eq!(answer.status, expected, "{line} {headers:?}: {answer:?}");
    }
}

#[tokio::test]
async fn the_page_at_the_root_is_asked_about_like_any_other() {
    let server = server(&mapping(BY_PATH)).await;
    for line in ["GET /v1/authz/", "GET /v1/authz/?x=1", "HEAD /v1/authz/"] {
        assert_eq!(ask(&server, line, &[]).await.status, 200, "{line}");
    }
}

#[tokio::test]
async fn nginx_is_answered_with_403_and_a_marker_if_it_asks_so() {
    let server = server(&mapping(BY_ADDRESS)).await;
    for _ in 0..2 {
        assert_eq!(ask(&server, "GET /v1/authz?deny=403", &[]).await.status, 200);
    }
    let denied = ask(&server, "GET /v1/authz?x=1&deny=403", &[]).await;
    assert_eq!((denied.status, denied.header("x-tollgate-verdict")), (403, Some("deny")));
    assert!(denied.header("retry-after").is_some() && denied.body.contains(r#""status":403"#), "{denied:?}");
    assert_eq!(ask(&server, "GET /v1/authz?deny=429", &[]).await.status, 429);
    assert_eq!(ask(&server, "GET /v1/authz?deny=200", &[]).await.status, 400);
}

#[tokio::test]
async fn the_status_of_a_refusal_can_be_set() {
    let server = server(&(mapping(BY_ADDRESS) + "forward_auth: { deny_status: 403 }\n")).await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(ask(&server, "GET /v1/authz", &[]).await.status);
    }
    assert_eq!(statuses, [200, 200, 403]);
}

#[tokio::test]
async fn descriptions_that_disagree_are_not_believed() {
    let server = server(&mapping(BY_PATH)).await;
    for headers in [
        &["X-Forwarded-Uri: /a", "X-Original-URI: /b"][..],
        &["X-Forwarded-Method: GET", "X-Original-Method: POST"],
        &["X-Forwarded-Uri: /a", "X-Forwarded-Uri: /a"],
        &["X-Original-URI: /a", "X-Original-URI: /b"],
        &["X-Forwarded-Method: GET", "X-Forwarded-Method: GET"],
        // The proxy writes the URL, and the client the URI.
        &["X-Original-URL: https://shop.example/login", "X-Original-URI: /other"],
        &["X-Forwarded-Uri: /a", "X-Original-URL: https://shop.example/b"],
        // The same path under another host may have another limit.
        &["X-Original-URL: https://evil.example/a", "X-Original-URI: /a"],
        &["X-Original-URI: /a", "X-Forwarded-Uri: /a", "X-Forwarded-Host: evil.example"],
        &["X-Original-URL: https://shop.example/a", "X-Forwarded-Host: evil.example"],
        &["X-Original-URL: https://shop.example/a", "X-Forwarded-Host: a", "X-Forwarded-Host: b"],
    ] {
        let answer = ask(&server, "GET /v1/authz", headers).await;
        assert_eq!(answer.status, 400, "{headers:?}");
        assert_eq!(answer.header("x-tollgate-verdict"), None);
    }
}

#[tokio::test]
async fn a_path_behind_ours_and_headers_must_agree() {
    let server = server(&mapping(BY_PATH)).await;
    for header in ["X-Forwarded-Uri: /b", "X-Original-URI: /b", "X-Forwarded-Method: POST"] {
        assert_eq!(ask(&server, "GET /v1/authz/a", &[header]).await.status, 400, "{header}");
    }
    let same = ["X-Forwarded-Method: GET", "X-Forwarded-Uri: /a?b=c"];
    assert_eq!(ask(&server, "GET /v1/authz/a?b=c", &same).await.status, 200);
    let same = ["X-Original-URL: http://shop.example/a", "X-Original-URI: /a", "X-Forwarded-Uri: /a"];
    assert_eq!(ask(&server, "GET /v1/authz", &same).await.status, 200);
    let same = ["X-Original-URL: http://shop.example/b", "X-Forwarded-Host: shop.example"];
    assert_eq!(ask(&server, "GET /v1/authz", &same).await.status, 200);
}

#[tokio::test]
async fn the_query_of_a_client_does_not_choose_the_status() {
    for from in ["itself", "auto"] {
        let settings = mapping(BY_ADDRESS) + &format!("forward_auth: {{ request_from: {from} }}\n");
        let server = server(&settings).await;
        let mut statuses = Vec::new();
        for query in ["deny=200", "deny=403", "deny=403"] {
            statuses.push(ask(&server, &format!("GET /v1/authz/a?{query}"), &[]).await.status);
        }
        assert_eq!(statuses, [200, 200, 429], "{from}");
    }
}

/// To nginx all of these are one page.
#[tokio::test]
async fn a_path_has_one_counter_however_it_is_spelled() {
    let server = server(&mapping(BY_PATH)).await;
    let spellings = ["/login", "/x%2f..%2flogin", "/%2flogin", "/.%2flogin", "//%6Cogin", "/x\\..\\login"];
    let mut statuses = Vec::new();
    for path in spellings {
        statuses.push(ask(&server, "GET /v1/authz", &[&format!("X-Original-URI: {path}")]).await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
}

/// Whoever sends no key has no counter of his own, and is not free.
#[tokio::test]
async fn a_missing_value_is_limited_or_denied() {
    let user = |missing: &str| {
        mapping(&format!("[request_headers: {{ header_name: x-user, descriptor_key: user, {missing} }}]"))
    };
    let shared = server(&user("missing: key")).await;
    assert_eq!(ask(&shared, "GET /v1/authz", &[]).await.status, 200);
    assert_eq!(ask(&shared, "GET /v1/authz", &[]).await.status, 429);
    assert_eq!(ask(&shared, "GET /v1/authz", &["X-User:"]).await.status, 429, "an empty one is no other");
    assert_eq!(ask(&shared, "GET /v1/authz", &["X-User: 1"]).await.status, 200);
    for missing in ["missing: deny", "required: true"] {
        let strict = server(&user(missing)).await;
        let denied = ask(&strict, "GET /v1/authz", &[]).await;
        assert_eq!((denied.status, denied.header("x-tollgate-verdict")), (403, None), "{denied:?}");
        assert!(denied.body.contains("the header x-user is missing"), "{}", denied.body);
        for empty in ["X-User:", "X-User:  \t"] {
            assert_eq!(ask(&strict, "GET /v1/authz", &[empty]).await.status, 403, "{empty:?}");
        }
        assert_eq!(ask(&strict, "GET /v1/authz", &["X-User: 1"]).await.status, 200);
    }
}

#[tokio::test]
async fn what_the_settings_name_is_the_only_description() {
    let only = |from: &str| mapping(BY_PATH) + &format!("forward_auth: {{ request_from: {from} }}\n");
    let both = ["X-Forwarded-Uri: /forwarded", "X-Original-URI: /original"];
    for (from, path) in [("x-forwarded", "/forwarded"), ("x-original", "/original"), ("itself", "/itself")] {
        let server = server(&only(from)).await;
        for _ in 0..3 {
            assert_eq!(ask(&server, "GET /v1/authz/itself", &both).await.status, 200);
        }
        let said = [format!("X-Forwarded-Uri: {path}"), format!("X-Original-URI: {path}")];
        let said = said.each_ref().map(String::as_str);
        let again = ask(&server, &format!("GET /v1/authz{path}"), &said).await;
        assert_eq!(again.status, 429, "{from}");
    }
}

#[tokio::test]
async fn whoever_is_no_trusted_proxy_is_refused() {
    let server = server(&mapping(BY_ADDRESS)).await;
    let forged = ["X-Forwarded-For: 203.0.113.9", "X-Forwarded-Uri: /"];
    let answer = ask_from([127, 0, 0, 2], server.addresses.http, "GET /v1/authz", &forged).await;
    assert_eq!((answer.status, answer.header("x-tollgate-verdict")), (403, None));
    assert!(answer.body.contains("mapping.trusted_proxies"), "{}", answer.body);
    assert!(!answer.body.contains("127.0.0.2"), "{}", answer.body);
}

#[tokio::test]
async fn without_a_mapping_there_is_nothing_to_ask() {
    let server = Setup::new(&[("edge.yaml", RULES)]).start().await;
    let answer = ask(&server, "GET /v1/authz", &[]).await;
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("write mapping: in tollgate.yaml"), "{}", answer.body);
}

#[tokio::test]
async fn what_no_descriptor_is_made_of_passes() {
    let server = server(&mapping("[request_headers: { header_name: x-user, descriptor_key: user }]")).await;
    for _ in 0..3 {
        let free = ask(&server, "GET /v1/authz", &[]).await;
        assert_eq!((free.status, free.header("x-tollgate-verdict")), (200, Some("allow")));
        assert_eq!(free.header("x-ratelimit-limit"), None);
    }
    assert_eq!(ask(&server, "GET /v1/authz", &["X-User: 1"]).await.status, 200);
    assert_eq!(ask(&server, "GET /v1/authz", &["X-User: 1"]).await.status, 429);
}

#[tokio::test]
async fn a_request_that_is_to_wait_is_held() {
    let file = mapping("[generic_key: { descriptor_key: slow, descriptor_value: x }]");
    // One in two seconds, so that even on a busy machine the second comes before its place does.
    let rules = RULES.replace("requests_per_unit: 5, unit: second", "requests_per_unit: 30, unit: minute");
    let server = Setup::new(&[("edge.yaml", &rules)]).file(file).start().await;
    let start = now();
    assert_eq!(ask(&server, "GET /v1/authz", &[]).await.header("x-tollgate-verdict"), Some("allow"));
    let held = ask(&server, "GET /v1/authz", &[]).await;
    assert_eq!((held.status, held.header("x-tollgate-verdict")), (200, Some("delay")), "{held:?}");
    assert_eq!(held.header("x-ratelimit-wait-ms"), None);
    assert!(start.elapsed() >= Duration::from_millis(1_900), "both took {:?}", start.elapsed());
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_refused_and_takes_nothing() {
    let slow = mapping("[generic_key: { descriptor_key: slow, descriptor_value: x }]");
    let server = server(&(slow + "forward_auth: { max_hold: 100ms }\n")).await;
    assert_eq!(ask(&server, "GET /v1/authz", &[]).await.status, 200);
    // The next place is 200 ms away; were it kept, the third would be told 400 ms.
    let (mut refusals, mut delays) = (0, 0);
    for _ in 0..5 {
        let refused = ask(&server, "GET /v1/authz", &[]).await;
        if refused.status == 200 {
            // A busy machine took so long that it was not too long any more.
            delays += u32::from(refused.header("x-tollgate-verdict") == Some("delay"));
            continue;
        }
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{refused:?}");
        let ms = refused.body.split_once("\"retry_after_ms\":").unwrap().1;
        let ms: u64 = ms.split_once(',').unwrap().0.parse().unwrap();
        assert!(refused.body.contains("\"reason\":\"max_wait\""), "{refused:?}");
        assert!(ms <= 100, "it may come when its wait is no longer than 100 ms: {refused:?}");
        refusals += 1;
    }
    // It is counted as what the caller was told.
    let (_, page) = http::get(server.addresses.admin, "/metrics").await;
    let counted = |outcome: &str| {
        let start = format!("tollgate_requests_total{{outcome=\"{outcome}\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or("0").to_owned()
    };
    assert_eq!((counted("denied"), counted("delayed")), (refusals.to_string(), delays.to_string()), "{page}");
}

#[expect(clippy::disallowed_methods, reason = "how long an answer takes is real time")]
fn now() -> Instant {
    Instant::now()
}

#[tokio::test]
async fn hostile_questions_hurt_nobody() {
    let descriptors = "[remote_address: {}]
[request_headers: { header_name: x-odd, descriptor_key: odd }]
[cookie: { name: sid }]
[query: { name: key }]
[path: {}]";
    let server = server(&mapping(descriptors)).await;
    let to = server.addresses.http;
    let many = "10.0.0.1, ".repeat(3_000) + "203.0.113.77";
    let odd: [(&str, Vec<u8>, u16); 8] = [
        ("a header of 100 KB", format!("X-Odd: {}", "x".repeat(100_000)).into_bytes(), 431),
        ("a header of 20 KB", format!("X-Odd: {}", "x".repeat(20_000)).into_bytes(), 200),
        ("thousands of addresses", format!("X-Forwarded-For: {many}").into_bytes(), 200),
        ("bytes that are no text", b"X-Odd: \xff\xfe\x80".to_vec(), 200),
        ("an address that is no text", b"X-Forwarded-For: \xff\xfe".to_vec(), 200),
        ("weird cookies", b"Cookie: ;;==;sid=\"\xff; sid; =sid=".to_vec(), 200),
        ("a huge query", format!("X-Forwarded-Uri: /?{}key=1", "a&".repeat(10_000)).into_bytes(), 200),
        ("a method that is no text", b"X-Forwarded-Method: \xff".to_vec(), 400),
    ];
    for (index, (what, header, status)) in odd.into_iter().enumerate() {
        // Each from a client of its own, so that limits are not what is tested.
        let mut bytes = b"GET /v1/authz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n".to_vec();
        if !header.starts_with(b"X-Forwarded-For") {
            bytes.extend(format!("X-Forwarded-For: 203.0.113.{index}\r\n").bytes());
        }
        bytes.extend(header);
        bytes.extend(b"\r\n\r\n");
        assert_eq!(send([127, 0, 0, 1], to, &bytes).await.status, status, "{what}");
    }
    assert_eq!(ask(&server, "GET /v1/authz", &["X-Forwarded-For: 198.51.100.1"]).await.status, 200);
}
