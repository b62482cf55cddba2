//! What is sent over gRPC, as Envoy's own messages read it, and what the client makes of Envoy's answers.

use envoy_types::pb::envoy::config::core::v3::HeaderValue;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
    DescriptorStatus, RateLimit, rate_limit,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::Duration as WireDuration;
use prost::Message as _;
use tollgate_client::{Client, Error};
use tollgate_core::{Descriptor, Entry, Limit, Micros, Override, Request, Shape, Unit, Verdict};

use crate::connections::{CannedServer, answer, grpc_answer};

/// What came in for one call, and what the client made of the answer.
async fn exchange(
    answer: RateLimitResponse,
    request: &Request<'_>,
    refund: bool,
) -> (RateLimitRequest, tollgate_client::ServerReply) {
    let server = CannedServer::start(move |_| grpc_answer(&answer.encode_to_vec())).await;
    let client = Client::grpc(&server.url()).unwrap();
    let asked = if refund { client.refund(request).await } else { client.check(request).await };
    let body = server.bodies().pop().unwrap();
    assert_eq!(body[0], 0);
    (RateLimitRequest::decode(&body[5..]).unwrap(), asked.unwrap())
}

fn ok() -> RateLimitResponse {
    RateLimitResponse { overall_code: 1, ..RateLimitResponse::default() }
}

#[tokio::test]
async fn a_request_is_read_by_envoys_messages() {
    let entries = [Entry::from(("user", "42")), Entry::from(("path", "/a"))];
    let limit = Limit::new(7, Unit::Week.length(), Shape::FixedWindow).unwrap();
    let brought = Override { limit, unit: Unit::Week };
    let descriptors = [
        Descriptor::new(&entries),
        Descriptor::new(&entries).with_cost(5_000_000_000),
        Descriptor::new(&entries).with_limit(&brought).as_refund(),
    ];
    let request = Request::new("shop", &descriptors).with_cost(3);
    let (sent, _) = exchange(ok(), &request, false).await;
    assert_eq!((sent.domain.as_str(), sent.hits_addend, sent.descriptors.len()), ("shop", 3, 3));
    let pairs: Vec<_> =
        sent.descriptors[0].entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str())).collect();
    assert_eq!(pairs, [("user", "42"), ("path", "/a")]);
    assert_eq!(sent.descriptors[0].hits_addend, None);
    assert_eq!(sent.descriptors[1].hits_addend.unwrap().value, 5_000_000_000);
    assert!(!sent.descriptors[1].is_negative_hits && sent.descriptors[2].is_negative_hits);
    let limit = sent.descriptors[2].limit.unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit), (7, 7));
}

#[tokio::test]
async fn costs_that_the_field_cannot_say_are_said_by_the_descriptors() {
    let entries = [Entry::from(("user", "42"))];
    for cost in [0, 1 << 40] {
        let descriptors = [Descriptor::new(&entries), Descriptor::new(&entries).with_cost(1)];
        let (sent, _) = exchange(ok(), &Request::new("shop", &descriptors).with_cost(cost), true).await;
        let hits: Vec<u64> = sent.descriptors.iter().map(|one| one.hits_addend.unwrap().value).collect();
        assert_eq!((sent.hits_addend, hits), (0, vec![cost, 1]));
        assert!(sent.descriptors.iter().all(|one| one.is_negative_hits));
    }
}

fn over(name: &str, reset_s: i64) -> DescriptorStatus {
    DescriptorStatus {
        code: 2,
        current_limit: Some(RateLimit {
            name: name.into(),
            requests_per_unit: 10,
            unit: i32::from(rate_limit::Unit::Minute),
        }),
        limit_remaining: 0,
        duration_until_reset: Some(WireDuration { seconds: reset_s, nanos: 0 }),
        quota: None,
    }
}

#[tokio::test]
async fn a_denial_is_told_as_exactly_as_the_server_tells_it() {
    let entries = [Entry::from(("user", "42"))];
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new("shop", &descriptors);
    let denial = RateLimitResponse {
        overall_code: 2,
        statuses: vec![
            DescriptorStatus { code: 1, ..DescriptorStatus::default() },
            over("a", 9),
            over("b", 30),
        ],
        ..RateLimitResponse::default()
    };
    let (_, reply) = exchange(denial.clone(), &request, false).await;
    assert_eq!(reply.verdict, Verdict::Deny { retry_after: Some(Micros::from_secs(30)) });
    assert_eq!(reply.binding().and_then(|binding| binding.rule.as_deref()), Some("b"));
    let places: Vec<usize> = reply.decisions.iter().map(|decision| decision.descriptor).collect();
    assert_eq!(places, [1, 2]);

    let header = HeaderValue { key: "Retry-After".into(), value: "4".into(), raw_value: Vec::new() };
    let with_header = RateLimitResponse { response_headers_to_add: vec![header], ..denial };
    let (_, reply) = exchange(with_header.clone(), &request, false).await;
    assert_eq!(reply.verdict, Verdict::Deny { retry_after: Some(Micros::from_secs(4)) });

    let body = br#"{"status":429,"retry_after_ms":3210}"#.to_vec();
    let (_, reply) = exchange(RateLimitResponse { raw_body: body, ..with_header }, &request, false).await;
    assert_eq!(reply.verdict, Verdict::Deny { retry_after: Some(Micros::from_millis(3_210)) });
}

/// Envoy's service alone has neither call: nothing is charged by mistake, and it is asked once.
#[tokio::test]
async fn a_service_without_peek_and_report_is_told_apart() {
    let server = CannedServer::start(|_| {
        let mut refused = answer(200, "");
        refused.headers_mut().insert("grpc-status", 12.into());
        refused.headers_mut().insert("grpc-message", "unknown service".parse().unwrap());
        refused
    })
    .await;
    let client = Client::grpc(&server.url()).unwrap();
    let entries = [Entry::from(("user", "42"))];
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new("shop", &descriptors);
    for asked in [client.peek(&request).await, client.report(&request).await] {
        let error = asked.unwrap_err();
        assert!(matches!(error, Error::Rejected { status: 12, .. }), "{error}");
    }
    assert_eq!(server.bodies().len(), 2);
}
