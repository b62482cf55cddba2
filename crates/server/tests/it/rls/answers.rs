//! What an answer holds: hits, overrides, statuses, headers, metadata.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::Struct;
use envoy_types::pb::google::protobuf::value::Kind;

use crate::support::wire::{ask, ask_one, brief, descriptor, request, reset_s, with_hits, with_limit};
use crate::support::{Server, Setup};

const RULES: &str = "
domain: d
descriptors:
  - key: ten
    rate_limit: { name: ten_a_day, unit: day, requests_per_unit: 10 }
  - key: five
    rate_limit: { unit: day, requests_per_unit: 5 }
  - key: free
    rate_limit: { unlimited: true }
  - key: none
  - key: week
    rate_limit: { unit: week, requests_per_unit: 3 }
  - key: both
    rate_limits:
      - { name: short, requests_per_unit: 3, unit: hour, algorithm: sliding_log }
      - { name: long, requests_per_unit: 4, unit: day, algorithm: sliding_log }
  - key: half_minute
    rate_limit: { requests_per_unit: 7, unit: second, unit_multiplier: 30 }
  - key: queue
    rate_limit: { algorithm: leaky_bucket, requests_per_unit: 1, unit: hour, burst: 3 }
";

fn headers(response: &RateLimitResponse) -> Vec<(String, String)> {
    response.response_headers_to_add.iter().map(|header| (header.key.clone(), header.value.clone())).collect()
}

#[tokio::test]
async fn hits_of_the_request_and_of_a_descriptor_and_none_at_all() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    let ten = || descriptor(&[("ten", "x")]);
    let with = |hits_addend, descriptors| RateLimitRequest { hits_addend, ..request("d", descriptors) };
    let steps = [
        (with(0, vec![ten()]), "OK: OK 9 of 10/DAY \"ten_a_day\""),
        (with(3, vec![ten()]), "OK: OK 6 of 10/DAY \"ten_a_day\""),
        (with(3, vec![with_hits(1, ten())]), "OK: OK 5 of 10/DAY \"ten_a_day\""),
        (with(3, vec![with_hits(0, ten())]), "OK: OK 5 of 10/DAY \"ten_a_day\""),
        (with(0, vec![ten(), ten()]), "OK: OK 4 of 10/DAY \"ten_a_day\", OK 3 of 10/DAY \"ten_a_day\""),
        (
            with(9, vec![RateLimitDescriptor { is_negative_hits: true, ..with_hits(2, ten()) }]),
            "OK: OK 5 of 10/DAY \"ten_a_day\"",
        ),
        (
            with(100, vec![RateLimitDescriptor { is_negative_hits: true, ..ten() }]),
            "OK: OK 10 of 10/DAY \"ten_a_day\"",
        ),
    ];
    for (asked, expected) in steps {
        assert_eq!(brief(&ask(&mut client, asked).await), expected);
    }
}

#[tokio::test]
async fn a_peek_at_the_limit_passes_and_beyond_it_does_not() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    let hit = |hits| request("d", vec![with_hits(hits, descriptor(&[("five", "x")]))]);
    for (hits, expected) in [(5, "OK: OK 0"), (0, "OK: OK 0"), (1, "OVER: OVER 0"), (0, "OVER: OVER 0")] {
        assert_eq!(brief(&ask(&mut client, hit(hits)).await), format!("{expected} of 5/DAY"));
    }
}

#[tokio::test]
async fn statuses_match_descriptors_in_number_and_order() {
    let server = Server::with(RULES).await;
    let asked = ["five", "free", "none", "missing", "ten"].map(|key| descriptor(&[(key, "x")]));
    let response = ask(&mut server.client().await, request("d", asked.to_vec())).await;
    let expected = "OK: OK 4 of 5/DAY, OK 4294967295, OK 0, OK 0, OK 9 of 10/DAY \"ten_a_day\"";
    assert_eq!(brief(&response), expected);
    assert!(response.statuses[1].duration_until_reset.is_none());
    assert!((1..=86_400).contains(&reset_s(&response.statuses[0])));
    assert!(headers(&response).is_empty() && response.dynamic_metadata.is_none());
    assert!(response.raw_body.is_empty(), "only if asked for");
}

#[tokio::test]
async fn an_override_takes_the_place_of_a_rule_for_known_domains() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    let with = |domain, key| request(domain, vec![with_limit(2, 4, descriptor(&[(key, "x")]))]);
    for expected in ["OK: OK 1 of 2/DAY", "OK: OK 0 of 2/DAY", "OVER: OVER 0 of 2/DAY"] {
        assert_eq!(brief(&ask(&mut client, with("d", "no_such_rule")).await), expected);
    }
    assert_eq!(brief(&ask(&mut client, with("unknown", "x")).await), "OK: OK 0");
    // It shares the counter of the rule with the same entries and window.
    ask_one(&mut client, "d", &[("five", "shared")]).await;
    let shared = request("d", vec![with_limit(9, 4, descriptor(&[("five", "shared")]))]);
    assert_eq!(brief(&ask(&mut client, shared).await), "OK: OK 7 of 9/DAY");
}

#[tokio::test]
async fn every_unit_can_be_brought_along_the_week_included() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    let units =
        [(1, "SECOND"), (2, "MINUTE"), (3, "HOUR"), (4, "DAY"), (5, "MONTH"), (6, "YEAR"), (7, "WEEK")];
    for (number, name) in units {
        let asked = request("d", vec![with_limit(8, number, descriptor(&[("unit", name)]))]);
        assert_eq!(brief(&ask(&mut client, asked).await), format!("OK: OK 7 of 8/{name}"));
    }
    assert_eq!(brief(&ask_one(&mut client, "d", &[("week", "x")]).await), "OK: OK 2 of 3/WEEK");
}

#[tokio::test]
async fn of_several_limits_the_tightest_is_told_and_the_one_that_denies() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    for left in [2, 1, 0] {
        let response = ask_one(&mut client, "d", &[("both", "x")]).await;
        assert_eq!(brief(&response), format!("OK: OK {left} of 3/HOUR \"short\""));
    }
    let denied = ask_one(&mut client, "d", &[("both", "x")]).await;
    assert_eq!(brief(&denied), "OVER: OVER 0 of 3/HOUR \"short\"");
}

#[tokio::test]
async fn a_window_of_several_units_is_told_by_its_unit() {
    let server = Server::with(RULES).await;
    let response = ask_one(&mut server.client().await, "d", &[("half_minute", "x")]).await;
    assert_eq!(brief(&response), "OK: OK 6 of 7/SECOND");
    assert!((1..=30).contains(&reset_s(&response.statuses[0])));
}

#[tokio::test]
async fn a_request_that_is_to_wait_is_told_so_in_a_header_and_in_the_metadata() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    let first = ask_one(&mut client, "d", &[("queue", "x")]).await;
    assert_eq!((first.overall_code, headers(&first).len()), (1, 0));
    let second = ask_one(&mut client, "d", &[("queue", "x")]).await;
    assert_eq!(second.overall_code, 1);
    let told = headers(&second);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, "X-Ratelimit-Wait-Ms");
    let wait: u64 = told[0].1.parse().unwrap();
    assert!((3_590_000..=3_600_000).contains(&wait), "{wait}");
    let fields = second.dynamic_metadata.unwrap().fields;
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["wait_ms"]);
    assert_eq!(fields["wait_ms"].kind, Some(Kind::NumberValue(f64::from(u32::try_from(wait).unwrap()))));
}

#[tokio::test]
async fn headers_describe_the_status_with_the_least_left() {
    let server =
        Setup::new(&[("rules.yaml", RULES)]).env("LIMIT_RESPONSE_HEADERS_ENABLED", "true").start().await;
    let mut client = server.client().await;
    let both = || request("d", vec![descriptor(&[("ten", "h")]), descriptor(&[("five", "h")])]);
    let response = ask(&mut client, both()).await;
    let reset = reset_s(&response.statuses[1]).to_string();
    let expected = [("RateLimit-Limit", "5"), ("RateLimit-Remaining", "4"), ("RateLimit-Reset", &reset)];
    let own = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(headers(&response), own);

    // Equal remainders: the first of them. No limit at all: no headers.
    let tie = vec![with_hits(1, descriptor(&[("five", "t")])), with_hits(6, descriptor(&[("ten", "t")]))];
    let response = ask(&mut client, request("d", tie)).await;
    assert_eq!(headers(&response)[0].1, "5");
    assert!(headers(&ask_one(&mut client, "d", &[("free", "x")]).await).is_empty());

    // The last that is over takes it, whatever the others say.
    let over = vec![with_hits(6, descriptor(&[("five", "o")])), with_hits(11, descriptor(&[("ten", "o")]))];
    let response = ask(&mut client, request("d", over)).await;
    assert_eq!((headers(&response)[0].1.as_str(), headers(&response)[1].1.as_str()), ("10", "0"));
}

#[tokio::test]
async fn headers_have_the_names_that_were_asked_for() {
    let server = Setup::new(&[("rules.yaml", RULES)])
        .env("LIMIT_RESPONSE_HEADERS_ENABLED", "true")
        .env("LIMIT_LIMIT_HEADER", "X-Limit")
        .env("LIMIT_REMAINING_HEADER", "X-Left")
        .env("LIMIT_RESET_HEADER", "X-Reset")
        .start()
        .await;
    let response = ask_one(&mut server.client().await, "d", &[("ten", "h")]).await;
    let names: Vec<String> = headers(&response).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["X-Limit", "X-Left", "X-Reset"]);
}

const ATTACHED: &str = "
domain: d
descriptors:
  - key: a
    metadata: { owner: team-a, nested: { x: 1, list: [true, null] } }
    rate_limit: { unit: day, requests_per_unit: 2 }
  - key: b
    metadata: { owner: team-b, nested: { x: 2, y: text } }
    rate_limit: { unit: day, requests_per_unit: 100 }
";

fn json(fields: &Struct) -> serde_json::Value {
    serde_json::Value::Object(fields.fields.iter().map(|(name, value)| (name.clone(), of(value))).collect())
}

fn of(value: &envoy_types::pb::google::protobuf::Value) -> serde_json::Value {
    match value.kind.as_ref().unwrap() {
        Kind::NullValue(_) => serde_json::Value::Null,
        Kind::NumberValue(number) => serde_json::json!(number),
        Kind::StringValue(text) => serde_json::json!(text),
        Kind::BoolValue(is) => serde_json::json!(is),
        Kind::StructValue(fields) => json(fields),
        Kind::ListValue(list) => list.values.iter().map(of).collect(),
    }
}

#[tokio::test]
async fn metadata_tells_the_request_and_merges_what_rules_attach() {
    let server =
        Setup::new(&[("rules.yaml", ATTACHED)]).env("RESPONSE_DYNAMIC_METADATA", "true").start().await;
    let mut client = server.client().await;
    let asked = || RateLimitRequest {
        hits_addend: 1,
        ..request(
            "d",
            vec![
                descriptor(&[("a", "1")]),
                with_hits(2, descriptor(&[("b", "2"), ("c", "3")])),
                descriptor(&[("b", "2")]),
                with_limit(7, 3, descriptor(&[("e", "")])),
            ],
        )
    };
    let mut expected = serde_json::json!({
        "domain": "d",
        "descriptors": [
            { "entries": ["a=1"] },
            { "entries": ["b=2", "c=3"], "hitsAddend": 2.0 },
            { "entries": ["b=2"] },
            { "entries": ["e="], "limit": "requests_per_unit:7 unit:HOUR" },
        ],
        "hitsAddend": 1.0,
        "metadata": { "owner": "team-a", "nested": { "x": 1.0, "list": [true, null], "y": "text" } },
    });
    // Twice, since the reference's merging spoils its own rules.
    for _ in 0..2 {
        assert_eq!(json(&ask(&mut client, asked()).await.dynamic_metadata.unwrap()), expected);
    }
    // The first rule is over its limit now, and attaches nothing.
    expected["metadata"] = serde_json::json!({ "owner": "team-b", "nested": { "x": 2.0, "y": "text" } });
    assert_eq!(json(&ask(&mut client, asked()).await.dynamic_metadata.unwrap()), expected);
    // Nothing attached: nothing said about it, and no hits that were not sent.
    let plain = ask_one(&mut client, "d", &[("none", "1")]).await;
    let expected = serde_json::json!({ "domain": "d", "descriptors": [{ "entries": ["none=1"] }] });
    assert_eq!(json(&plain.dynamic_metadata.unwrap()), expected);
}
