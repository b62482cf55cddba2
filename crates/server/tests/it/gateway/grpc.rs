//! gRPC through the gateway: a client of tonic, and as the API the gRPC port of another server.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

use super::{FREE, RULES};
use crate::support::wire::{ask_one, brief, descriptor, request};
use crate::support::{Server, Setup};

const API_RULES: &str =
    "domain: api\ndescriptors:\n  - key: user\n    rate_limit: { unit: year, requests_per_unit: 1 }\n";

/// The API, the server in front of it with these rules, and a client of that.
async fn grpc_behind_gateway(rules: &str) -> (Server, Server, Channel) {
    let api = Server::with(API_RULES).await;
    let front = Setup::new(&[("gateway.yaml", rules)])
        .env("TOLLGATE_GATEWAY", "127.0.0.1:0")
        .env("TOLLGATE_UPSTREAM", format!("h2c://{}", api.grpc_address()))
        .start()
        .await;
    let url = format!("http://{}", front.addresses.gateway.unwrap());
    let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
    (api, front, channel)
}

#[tokio::test]
async fn grpc_goes_through_with_trailers_unary_and_streaming() {
    let (_api, _front, channel) = grpc_behind_gateway(FREE).await;
    // Unary.
    let mut limits = RateLimitServiceClient::new(channel.clone());
    let first = brief(&ask_one(&mut limits, "api", &[("user", "7")]).await);
    let second = brief(&ask_one(&mut limits, "api", &[("user", "7")]).await);
    assert_ne!(first, second, "the second is over the limit");
    // An error of the API's own, which is in its trailers.
    let wrong = request("", vec![descriptor(&[("user", "7")])]);
    let error = limits.should_rate_limit(wrong).await.unwrap_err();
    assert!(error.code() != tonic::Code::Ok && !error.message().is_empty(), "{error}");
    // A stream of answers, which begins before it ends.
    let mut health = HealthClient::new(channel.clone());
    let watched = health.watch(HealthCheckRequest { service: String::new() }).await.unwrap();
    let first = watched.into_inner().message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    // Streams both ways: each answer comes before the next question.
    let (questions, asked) = tokio::sync::mpsc::channel(1);
    let mut reflection = ServerReflectionClient::new(channel);
    let list = || ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    questions.send(list()).await.unwrap();
    let answers = reflection.server_reflection_info(ReceiverStream::new(asked)).await.unwrap();
    let mut answers = answers.into_inner();
    for _ in 0..3 {
        assert!(answers.message().await.unwrap().unwrap().message_response.is_some());
        questions.send(list()).await.unwrap();
    }
    drop(questions);
    while let Some(answer) = answers.message().await.unwrap() {
        assert!(answer.message_response.is_some());
    }
}

#[tokio::test]
async fn a_grpc_client_is_told_of_denials_and_outages_in_its_own_words() {
    let rules = RULES.replace("requests_per_unit: 1", "requests_per_unit: 2");
    let (api, _front, channel) = grpc_behind_gateway(&rules).await;
    let mut limits = RateLimitServiceClient::new(channel);
    ask_one(&mut limits, "api", &[("user", "7")]).await;
    api.stop().unwrap();
    let asked = || request("api", vec![descriptor(&[("user", "7")])]);
    let down = limits.should_rate_limit(asked()).await.unwrap_err();
    assert_eq!(down.code(), tonic::Code::Unavailable, "{down}");
    let denied = limits.should_rate_limit(asked()).await.unwrap_err();
    assert_eq!(denied.code(), tonic::Code::ResourceExhausted, "{denied}");
    assert!(denied.metadata().contains_key("retry-after"), "{denied:?}");
}
