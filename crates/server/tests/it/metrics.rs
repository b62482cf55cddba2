//! What operators see of a running server: the page, `StatsD`, traces.
//!
//! Scenario C of the reference: extra tags are on the counters of rules and on
//! those of loads.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::support::http::get_with;
use crate::support::wire::{ask, ask_one, descriptor, request, with_hits};
use crate::support::{DEADLINE, Server, Setup, http};

const RULES: &str = "
domain: basic
descriptors:
  - key: key1
    rate_limit: { requests_per_unit: 2, unit: year }
";

async fn three_calls(server: &Server) {
    let mut client = server.client().await;
    for _ in 0..3 {
        ask_one(&mut client, "basic", &[("key1", "foo")]).await;
    }
}

#[tokio::test]
async fn the_page_tells_what_callers_did() {
    let server = Server::with(RULES).await;
    three_calls(&server).await;
    let (status, page) = http::get(server.addresses.admin, "/metrics").await;
    assert_eq!(status, 200);
    let expected = [
        r#"ratelimit_service_rate_limit_total_hits{domain="basic",key1="key1"} 3"#,
        r#"ratelimit_service_rate_limit_over_limit{domain="basic",key1="key1"} 1"#,
        r#"ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 3"#,
        r#"tollgate_requests_total{outcome="denied"} 1"#,
        r#"tollgate_decisions_total{domain="basic",rule="basic.key1",algorithm="fixed_window",outcome="allowed"} 2"#,
        r#"tollgate_request_duration_seconds_count{interface="grpc"} 3"#,
        "tollgate_store_keys 1",
        "tollgate_rules_load_failed 0",
    ];
    for line in expected {
        assert!(page.lines().any(|of_page| of_page == line), "{line} is not on the page:\n{page}");
    }
}

const TOKENS: &str = "
domain: basic
descriptors:
  - key: tokens
    rate_limit: { requests_per_unit: 10, unit: year }
";

#[tokio::test]
async fn a_peek_counts_nothing_a_refund_apart_and_a_report_what_is_over() {
    let server = Server::with(TOKENS).await;
    let mut client = server.client().await;
    let tokens = |hits| with_hits(hits, descriptor(&[("tokens", "foo")]));
    let refund = |hits| RateLimitDescriptor { is_negative_hits: true, ..tokens(hits) };
    // 6 are taken and 2 given back, in one request with a peek and then alone: 4, then 2.
    ask(&mut client, request("basic", vec![tokens(0), tokens(6), refund(2)])).await;
    ask(&mut client, request("basic", vec![refund(2)])).await;
    ask(&mut client, request("basic", vec![tokens(0)])).await;
    let asked = |cost| format!(r#"{{"domain":"basic","descriptors":[{{"tokens":"foo"}}],"cost":{cost}}}"#);
    // Back at 0; then 9 that fit and are near, and 5 that have happened and do not fit.
    for (verb, cost, status) in [("refund", 2, 200), ("peek", 3, 200), ("report", 9, 200), ("report", 5, 200)]
    {
        let (got, body) = http::post(server.addresses.http, &format!("/v1/{verb}"), &asked(cost)).await;
        assert_eq!(got, status, "{verb} {cost}: {body}");
    }
    let (_, page) = http::get(server.addresses.admin, "/metrics").await;
    let rule = r#"{domain="basic",key1="tokens"}"#;
    let decisions = r#"tollgate_decisions_total{domain="basic",rule="basic.tokens",algorithm="fixed_window""#;
    let expected = [
        format!("ratelimit_service_rate_limit_total_hits{rule} 20"),
        format!("ratelimit_service_rate_limit_within_limit{rule} 15"),
        format!("ratelimit_service_rate_limit_near_limit{rule} 2"),
        format!("ratelimit_service_rate_limit_over_limit{rule} 4"),
        format!("ratelimit_service_rate_limit_total_negative_hits{rule} 6"),
        format!(r#"{decisions},outcome="allowed"}} 3"#),
        format!(r#"{decisions},outcome="denied"}} 0"#),
        r#"tollgate_requests_total{outcome="allowed"} 3"#.to_owned(),
        r#"tollgate_requests_total{outcome="denied"} 0"#.to_owned(),
        r#"ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 3"#.to_owned(),
    ];
    for line in expected {
        assert!(page.lines().any(|of_page| of_page == line), "{line} is not on the page:\n{page}");
    }
}

/// Adds up the counters that a daemon is sent, until `enough`.
async fn sums(daemon: TcpStream, enough: impl Fn(&BTreeMap<String, u64>) -> bool) -> BTreeMap<String, u64> {
    let mut lines = BufReader::new(daemon).lines();
    let mut sums = BTreeMap::new();
    while !enough(&sums) {
        let line = lines.next_line().await.unwrap().expect("the server goes on sending");
        let (name, rest) = line.split_once(':').unwrap();
        let (value, kind) = rest.split_once('|').unwrap();
        if kind == "c" {
            *sums.entry(name.to_owned()).or_default() += value.parse::<u64>().unwrap();
        }
    }
    sums
}

#[tokio::test]
async fn extra_tags_are_on_what_statsd_gets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Setup::new(&[("basic.yaml", RULES)])
        .env("USE_STATSD", "true")
        .env("STATSD_HOST", "127.0.0.1")
        .env("STATSD_PORT", port.to_string())
        .env("STATS_FLUSH_INTERVAL", "100ms")
        .env("EXTRA_TAGS", "foo:bar,a:b")
        .start()
        .await;
    three_calls(&server).await;
    let hits = "ratelimit.service.rate_limit.basic.key1.total_hits.__a=b.__foo=bar";
    let loads = "ratelimit.service.config_load_success.__a=b.__foo=bar";
    let received = async {
        let (daemon, _) = listener.accept().await.unwrap();
        sums(daemon, |sums| sums.get(hits) == Some(&3) && sums.contains_key(loads)).await
    };
    let sums = tokio::time::timeout(DEADLINE, received).await.expect("the counters arrive");
    assert_eq!(sums[loads], 1);
}

/// One request of a trace exporter, answered.
async fn exported(listener: &TcpListener) -> ExportTraceServiceRequest {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    let (head, body_length) = loop {
        let mut buffer = [0; 4_096];
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "a whole head comes");
        bytes.extend_from_slice(&buffer[..read]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            break (end + 4, length.parse::<usize>().unwrap());
        }
    };
    while bytes.len() < head + body_length {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "a whole body comes");
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    ExportTraceServiceRequest::decode(&bytes[head..]).unwrap()
}

/// Spans of every way in.
#[tokio::test]
async fn every_way_in_has_spans() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mapping = "mapping: { domain: basic, trusted_proxies: [127.0.0.1], descriptors: [[generic_key: { descriptor_key: key1, descriptor_value: a }]] }\n";
    let server = Setup::new(&[("basic.yaml", RULES)])
        .file(mapping)
        .env("TRACING_ENABLED", "true")
        .env("TOLLGATE_RESP", "127.0.0.1:0")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", listener.local_addr().unwrap()))
        .start()
        .await;
    let parent = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let http = server.addresses.http;
    let one = r#"{"domain":"basic","descriptors":[{"key1":"foo"}]}"#;
    for (path, body) in [("/v1/check", one.to_owned()), ("/v1/peek", format!("[{one},{one}]"))] {
        let length = body.len();
        let call = format!(
            "POST {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n{parent}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        assert_eq!(http::request(http, &call).await.0, 200);
    }
    assert_eq!(get_with(http, "/v1/authz", parent).await.0, 200);
    let resp = redis::Client::open(format!("redis://{}", server.addresses.resp.unwrap())).unwrap();
    let mut resp = resp.get_multiplexed_async_connection().await.unwrap();
    let () =
        redis::cmd("TOLLGATE.CHECK").arg(&["basic", "key1", "foo"]).query_async(&mut resp).await.unwrap();
    let () = redis::cmd("CL.THROTTLE").arg(&["k", "9", "9", "9"]).query_async(&mut resp).await.unwrap();
    let received = exported(&listener);
    server.control().stop();
    let sent = tokio::time::timeout(DEADLINE, received).await.expect("the spans arrive");
    let spans = &sent.resource_spans[0].scope_spans[0].spans;
    let told = spans.iter().map(|span| {
        let names: Vec<&str> = span.attributes.iter().map(|one| &*one.key).collect();
        (&*span.name, !span.parent_span_id.is_empty(), names.join(" "))
    });
    let decided = "tollgate.domain tollgate.outcome".to_owned();
    let expected = [
        ("/v1/check", true, decided.clone()),
        ("/v1/peek", true, String::new()),
        ("/v1/authz", true, decided.clone()),
        ("TOLLGATE.CHECK", false, decided),
        ("CL.THROTTLE", false, "tollgate.outcome".to_owned()),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    server.stop().unwrap();
}

#[tokio::test]
async fn a_call_is_a_child_of_its_callers_span() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Setup::new(&[("basic.yaml", RULES)])
        .env("TRACING_ENABLED", "true")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", listener.local_addr().unwrap()))
        .start()
        .await;
    let mut call = tonic::Request::new(request("basic", vec![descriptor(&[("key1", "foo")])]));
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    call.metadata_mut().insert("traceparent", parent.parse().unwrap());
    server.client().await.should_rate_limit(call).await.unwrap();
    let received = exported(&listener);
    // Stopping sends what is left, so nobody waits for the next batch.
    server.control().stop();
    let sent = tokio::time::timeout(DEADLINE, received).await.expect("the span arrives");
    let span = &sent.resource_spans[0].scope_spans[0].spans[0];
    assert_eq!(span.name, "ShouldRateLimit Execution");
    assert_eq!(span.parent_span_id, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
    server.stop().unwrap();
}
