//! Whole messages that are too much, or not what they should be.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use tonic::Code;

use super::{Bystander, RULES};
use crate::support::Server;
use crate::support::http::{post, request as http_request};
use crate::support::wire::{OK, descriptor, request};

#[tokio::test]
async fn ten_thousand_descriptors_are_refused() {
    let server = Server::with(RULES).await;
    let bystander = Bystander::at(&server).await;
    let many = vec![descriptor(&[("a", "1")]); 10_000];
    let status = server.client().await.should_rate_limit(request("d", many)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("10000 descriptors"), "{}", status.message());
    bystander.noticed_nothing().await;
}

#[tokio::test]
async fn values_that_are_too_long_are_refused_and_the_connection_goes_on() {
    let server = Server::with(RULES).await;
    let bystander = Bystander::at(&server).await;
    let mut client = server.client().await;
    for (length, code) in [(100_000, Code::InvalidArgument), (3_000_000, Code::ResourceExhausted)] {
        let long = "x".repeat(length);
        let asked = request("d", vec![descriptor(&[("a", &long)])]);
        let status = client.should_rate_limit(asked).await.unwrap_err();
        assert_eq!(status.code(), code, "{}", status.message());
    }
    let asked = request("d", vec![descriptor(&[("a", "short")])]);
    client.should_rate_limit(asked).await.expect("the connection is as good as before");
    bystander.noticed_nothing().await;
}

#[tokio::test]
async fn hits_beyond_all_measure_are_only_over_the_limit() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await;
    for _ in 0..3 {
        let asked =
            request("d", vec![crate::support::wire::with_hits(u64::MAX, descriptor(&[("a", "huge")]))]);
        let response = client.should_rate_limit(asked).await.unwrap().into_inner();
        assert_eq!(crate::support::wire::brief(&response), "OVER: OVER 0 of 1000000/YEAR");
    }
}

/// A request with a field that nobody knows.
#[derive(Clone, PartialEq, prost::Message)]
struct Odd {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<RateLimitDescriptor>,
    #[prost(string, tag = "99")]
    odd: String,
}

#[tokio::test]
async fn fields_of_a_later_version_are_passed_over() {
    let server = Server::with(RULES).await;
    let mut grpc = tonic::client::Grpc::new(server.channel().await);
    grpc.ready().await.unwrap();
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit".parse().unwrap();
    let odd = Odd { domain: "d".into(), descriptors: vec![descriptor(&[("a", "1")])], odd: "?".into() };
    let codec = tonic_prost::ProstCodec::<Odd, RateLimitResponse>::default();
    let answer = grpc.unary(tonic::Request::new(odd), path, codec).await.unwrap();
    assert_eq!(answer.into_inner().overall_code, OK);
}

#[tokio::test]
async fn a_compressed_message_is_refused_by_name() {
    let server = Server::with(RULES).await;
    let mut client = server.client().await.send_compressed(tonic::codec::CompressionEncoding::Gzip);
    let asked = request("d", vec![descriptor(&[("a", "1")])]);
    assert_eq!(client.should_rate_limit(asked).await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn bodies_and_heads_that_are_too_large_get_their_status() {
    let server = Server::with(RULES).await;
    let bystander = Bystander::at(&server).await;
    let (status, text) = post(server.addresses.http, "/json", &"x".repeat(2_000_000)).await;
    assert_eq!(status, 413, "{text}");
    let head = format!("GET /healthcheck HTTP/1.1\r\nhost: t\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    assert_eq!(http_request(server.addresses.http, &head).await.0, 431);
    let lines = "x: y\r\n".repeat(500);
    let head = format!("GET /healthcheck HTTP/1.1\r\nhost: t\r\n{lines}\r\n");
    assert_eq!(http_request(server.addresses.http, &head).await.0, 431);
    bystander.noticed_nothing().await;
}

#[tokio::test]
async fn json_that_nests_without_end_is_refused() {
    let server = Server::with(RULES).await;
    let deep = format!("{{\"descriptors\":{}", "[".repeat(100_000));
    assert_eq!(post(server.addresses.http, "/json", &deep).await.0, 400);
}
