//! What is charged when the answer is known, seen from both sides of the gateway.

use http::HeaderName;
use tollgate_core::{Descriptor, Entry, Request};
use tollgate_http::{Action, ChargeTerms, Fact, Mapping, MappingDescriptor, ResponseCost, StatusSet};

use crate::support::{GatewaySetup, Raw, RawUpstream, TestGateway, in_time};

const RULES: &str = "domain: d\ndescriptors:\n  - key: k\n    rate_limit: { unit: hour, requests_per_unit: 100, algorithm: sliding_log }\n  - key: two\n    rate_limit: { unit: hour, requests_per_unit: 2, algorithm: sliding_log }\n";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn statuses(texts: &[&str]) -> StatusSet {
    StatusSet::parse(texts).unwrap()
}

fn tokens() -> ChargeTerms {
    ChargeTerms::OnResponse { status: None, cost: ResponseCost::json("usage.total_tokens", 3).unwrap() }
}

/// A gateway whose requests are all counted by one key, on these terms.
async fn gateway(key: &str, terms: ChargeTerms, upstream: &RawUpstream) -> TestGateway {
    let actions = vec![Action::new(key, Fact::Text("x".into()))];
    let mapping = Mapping::new("d", vec![MappingDescriptor::new(actions, terms)]).unwrap();
    GatewaySetup { rules: RULES, mapping, ..GatewaySetup::default() }.start(upstream.address).await
}

fn used(gateway: &TestGateway, key: &str) -> u64 {
    let entries = [Entry { key, value: "x" }];
    let descriptors = [Descriptor::new(&entries)];
    let reply = gateway.checker.limiter.peek(&Request::new("d", &descriptors).with_cost(0)).at_once();
    reply.decisions[0].used
}

/// Waits until that much is charged: a client's leaving is noticed a while later.
async fn until_used(gateway: &TestGateway, key: &str, expected: u64) {
    in_time(async {
        while used(gateway, key) != expected {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Answers one request with these bytes.
async fn answer(upstream: &RawUpstream, bytes: &str) -> Raw {
    let mut backend = upstream.accept().await;
    backend.head().await;
    backend.send(bytes).await;
    backend
}

#[tokio::test]
async fn failed_logins_are_denied_after_the_second() {
    let upstream = RawUpstream::new().await;
    let terms = ChargeTerms::OnResponse { status: Some(statuses(&["401", "403"])), cost: ResponseCost::One };
    let gateway = gateway("two", terms, &upstream).await;
    for (status, used_after) in [("200 OK", 0), ("200 OK", 0), ("401 No", 1), ("302 Found", 1), ("403 No", 2)]
    {
        let mut client = Raw::connect(gateway.address).await;
        client.send(GET).await;
        let sent = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        let _backend = answer(&upstream, &sent).await;
        assert!(client.head().await.starts_with(&format!("HTTP/1.1 {status}")));
        assert_eq!(used(&gateway, "two"), used_after, "{status}");
    }
    let mut client = Raw::connect(gateway.address).await;
    let (head, _) = client.ask(GET).await;
    assert!(head.starts_with("HTTP/1.1 429"), "{head}");
    upstream.was_left_alone().await;
}

#[tokio::test]
async fn an_upstream_that_is_down_costs_nothing() {
    let upstream = RawUpstream::new().await;
    let gateway = gateway("two", ChargeTerms::RefundOn(statuses(&["5xx"])), &upstream).await;
    drop(upstream);
    for _ in 0..5 {
        let (head, _) = Raw::connect(gateway.address).await.ask(GET).await;
        assert!(head.starts_with("HTTP/1.1 502"), "{head}");
        assert_eq!(used(&gateway, "two"), 0);
    }
}

#[tokio::test]
async fn tokens_of_a_stream_are_charged_at_its_end_and_every_event_comes_at_once() {
    let upstream = RawUpstream::new().await;
    let gateway = gateway("k", tokens(), &upstream).await;
    let mut client = Raw::connect(gateway.address).await;
    client.send(GET).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut backend = answer(&upstream, head).await;
    client.head().await;
    for event in
        ["data: {\"text\":\"hi\"}\n\n", "data: {\"usage\":{\"total_tokens\":21}}\n\n", "data: [DONE]\n\n"]
    {
        backend.send(format!("{:x}\r\n{event}\r\n", event.len())).await;
        let seen = in_time(client.until(b"\n\n\r\n")).await.unwrap();
        assert!(seen.ends_with(&format!("{event}\r\n")), "{seen}");
        assert_eq!(used(&gateway, "k"), 0, "it has not ended");
    }
    backend.send("0\r\n\r\n").await;
    assert_eq!(client.bytes(5).await, "0\r\n\r\n");
    assert_eq!(used(&gateway, "k"), 21);
}

#[tokio::test]
async fn whoever_leaves_pays_for_what_was_seen() {
    let upstream = RawUpstream::new().await;
    let gateway = gateway("k", tokens(), &upstream).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n";
    let event = "data: {\"usage\":{\"total_tokens\":20}}\n\n";
    // The client leaves in the middle.
    let mut client = Raw::connect(gateway.address).await;
    client.send(GET).await;
    let backend = answer(&upstream, &format!("{head}{event}")).await;
    client.head().await;
    client.bytes(event.len()).await;
    drop(client);
    until_used(&gateway, "k", 20).await;
    drop(backend);
    // The upstream does.
    let mut client = Raw::connect(gateway.address).await;
    client.send(GET).await;
    drop(answer(&upstream, &format!("{head}{event}")).await);
    client.rest().await;
    until_used(&gateway, "k", 40).await;
    // The client leaves before there is an answer.
    let mut client = Raw::connect(gateway.address).await;
    client.send(GET).await;
    let mut backend = upstream.accept().await;
    backend.head().await;
    drop(client);
    until_used(&gateway, "k", 43).await;
}

#[tokio::test]
async fn an_answer_without_a_number_costs_what_is_set() {
    let upstream = RawUpstream::new().await;
    let gateway = gateway("k", tokens(), &upstream).await;
    let body = r#"{"usage":{"total_tokens":20}}"#;
    let of_json = |more: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 29\r\n{more}Connection: close\r\n\r\n{body}"
        )
    };
    for (method, sent, cost) in [
        ("GET", of_json(""), 20),
        ("GET", of_json("Content-Encoding: gzip\r\n"), 3),
        ("HEAD", of_json("").replace(body, ""), 3),
        ("GET", "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n".into(), 3),
        ("GET", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".into(), 3),
        // Without a length, to the end of the connection.
        ("GET", format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}"), 20),
    ] {
        let before = used(&gateway, "k");
        let mut client = Raw::connect(gateway.address).await;
        client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
        drop(answer(&upstream, &sent).await);
        let seen = client.rest().await;
        if method == "GET" && sent.contains(body) {
            assert!(seen.contains(body), "not a byte is changed: {seen}");
        }
        until_used(&gateway, "k", before + cost).await;
    }
}

#[tokio::test]
async fn a_cost_may_be_in_the_trailers() {
    let upstream = RawUpstream::new().await;
    let cost = ResponseCost::Header { name: HeaderName::from_static("x-cost"), default: 3 };
    let gateway = gateway("k", ChargeTerms::OnResponse { status: None, cost }, &upstream).await;
    let mut client = Raw::connect(gateway.address).await;
    client.send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n").await;
    let head = "HTTP/1.1 200 OK\r\nTrailer: x-cost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let _backend = answer(&upstream, &format!("{head}2\r\nok\r\n0\r\nx-cost: 11\r\n\r\n")).await;
    client.head().await;
    let seen = in_time(client.until(b"x-cost: 11\r\n\r\n")).await;
    assert!(seen.is_some());
    assert_eq!(used(&gateway, "k"), 11);
}

/// As in JSON.
#[tokio::test]
async fn a_cost_in_a_header_may_have_a_fraction() {
    for (text, cost) in
        [("7", 7), ("2.5", 3), ("4.0", 4), ("0", 0), ("-1", 9), ("1e3", 9), ("many", 9), ("", 9)]
    {
        let upstream = RawUpstream::new().await;
        let header = ResponseCost::Header { name: HeaderName::from_static("x-cost"), default: 9 };
        let gateway = gateway("k", ChargeTerms::OnResponse { status: None, cost: header }, &upstream).await;
        let mut client = Raw::connect(gateway.address).await;
        client.send(GET).await;
        let _backend =
            answer(&upstream, &format!("HTTP/1.1 200 OK\r\nX-Cost: {text}\r\nContent-Length: 2\r\n\r\nok"))
                .await;
        client.head().await;
        assert_eq!(client.bytes(2).await, "ok");
        until_used(&gateway, "k", cost).await;
    }
}

/// A client that asks for what cannot be read here would choose what it pays.
#[tokio::test]
async fn an_upstream_is_asked_for_a_body_that_can_be_read() {
    let asked = async |terms: ChargeTerms| {
        let upstream = RawUpstream::new().await;
        let gateway = gateway("k", terms, &upstream).await;
        let mut client = Raw::connect(gateway.address).await;
        client
            .send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\naccept-encoding: br\r\n\r\n")
            .await;
        let head = upstream.accept().await.head().await.to_ascii_lowercase();
        let codings =
            head.lines().filter_map(|line| line.strip_prefix("accept-encoding: ").map(str::to_owned));
        codings.collect::<Vec<_>>()
    };
    assert_eq!(asked(tokens()).await, ["identity"]);
    let header = ResponseCost::Header { name: HeaderName::from_static("x-cost"), default: 1 };
    let by_header = ChargeTerms::OnResponse { status: None, cost: header };
    assert_eq!(asked(by_header).await, ["gzip", "br"], "the body does not matter");
}
