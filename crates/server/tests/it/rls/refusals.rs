//! Requests that get an error and no answer.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tonic::Code;

use crate::support::wire::{ask_one, brief, descriptor, request, with_hits, with_limit};
use crate::support::{Server, Setup};

const RULES: &str = "
domain: d
descriptors:
  - key: a
    rate_limit: { unit: day, requests_per_unit: 10 }
";

#[tokio::test]
async fn nothing_to_decide_is_unknown_and_counted_as_the_reference_has_it() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    for asked in [request("", vec![descriptor(&[("a", "")])]), request("d", vec![])] {
        let status = client.should_rate_limit(asked).await.unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        assert!(status.message().contains("send"), "{}", status.message());
    }
    let errors = "ratelimit.service.call.should_rate_limit.service_error";
    assert_eq!(server.counter(errors).await, 2);
}

#[tokio::test]
async fn before_the_first_rules_every_call_is_an_error_and_the_ports_are_open() {
    let bad = "domain: d\ndescriptors: nonsense\n";
    let server = Setup::new(&[("bad.yaml", bad)]).without_waiting().start().await;
    server.until_verbose("\"failures\":1").await;
    let mut client = server.client().await;
    let asked = || request("d", vec![descriptor(&[("a", "")])]);
    let status = client.should_rate_limit(asked()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert!(status.message().contains("no rules are loaded"), "{}", status.message());

    crate::support::replace_file(&server.rules_folder().join("bad.yaml"), RULES);
    server.until_verbose("\"loaded\":true").await;
    client.should_rate_limit(asked()).await.expect("now there are rules");
}

#[tokio::test]
async fn an_override_without_a_unit_is_refused_by_name_and_harms_nobody() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    for unit in [0, 8, -5] {
        let descriptors = vec![descriptor(&[("a", "")]), with_limit(5, unit, descriptor(&[("a", "")]))];
        let status = client.should_rate_limit(request("d", descriptors)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let message = status.message();
        assert!(message.contains("descriptor 1") && message.contains(&format!("unit {unit},")), "{message}");
    }
    ask_one(&mut client, "d", &[("a", "")]).await;
}

#[tokio::test]
async fn a_path_that_is_not_served_is_unimplemented() {
    let server = Server::with(RULES).await;
    let mut grpc = tonic::client::Grpc::new(server.channel().await);
    grpc.ready().await.unwrap();
    let path = "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit".parse().unwrap();
    let asked = tonic::Request::new(request("d", vec![]));
    let codec = tonic_prost::ProstCodec::default();
    let answer: Result<tonic::Response<()>, _> = grpc.unary(asked, path, codec).await;
    assert_eq!(answer.unwrap_err().code(), Code::Unimplemented);
}

/// By a channel without generated code, as a client in any language has it from reflection.
#[tokio::test]
async fn a_peek_changes_nothing_so_a_refund_in_it_is_refused_by_name() {
    let server = Server::with(RULES).await;
    let (mut client, entry) = (server.client().await, [("a", "x")]);
    let call = async |path: &'static str, asked: RateLimitRequest| {
        let mut grpc = tonic::client::Grpc::new(server.channel().await);
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        grpc.unary(tonic::Request::new(asked), path.parse().unwrap(), codec).await
    };
    let peek = "/tollgate.v1.LimiterService/Peek";
    let refund = RateLimitDescriptor { is_negative_hits: true, ..descriptor(&entry) };
    let status = call(peek, request("d", vec![descriptor(&entry), refund])).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("descriptor 1 has is_negative_hits"), "{}", status.message());
    for _ in 0..2 {
        let told = call(peek, request("d", vec![descriptor(&entry)])).await.unwrap().into_inner();
        assert_eq!(brief(&told), "OK: OK 9 of 10/DAY");
    }
    let report = with_hits(30, descriptor(&entry));
    call("/tollgate.v1.LimiterService/Report", request("d", vec![report])).await.unwrap();
    assert_eq!(brief(&ask_one(&mut client, "d", &entry).await), "OVER: OVER 0 of 10/DAY");
}
