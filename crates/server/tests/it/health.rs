//! `grpc.health.v1` and reflection, by their own clients.

use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::support::{Server, Setup};

const RULES: &str = "domain: d\n";

fn named(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn the_name_of_the_reference_and_no_name_are_known() {
    let server = Server::with(RULES).await;
    let mut health = HealthClient::new(server.channel().await);
    for name in ["ratelimit", ""] {
        let told = health.check(named(name)).await.unwrap().into_inner();
        assert_eq!(told.status(), ServingStatus::Serving);
    }
    assert_eq!(health.check(named("other")).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(server.counter("ratelimit_server.Check.total_requests").await, 3);
}

#[tokio::test]
async fn a_watcher_is_told_of_rules_and_of_the_end() {
    let server = Setup::new(&[])
        .env("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true")
        .without_waiting()
        .start()
        .await;
    let mut health = HealthClient::new(server.channel().await);
    let mut watched = health.watch(named("ratelimit")).await.unwrap().into_inner();
    let mut always = health.watch(named("")).await.unwrap().into_inner();
    let mut next = async || watched.next().await.map(|told| told.unwrap().status());
    assert_eq!(next().await, Some(ServingStatus::NotServing));
    assert_eq!(always.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    std::fs::write(server.rules_folder().join("rules.yaml"), RULES).unwrap();
    assert_eq!(next().await, Some(ServingStatus::Serving));
    server.control().stop();
    assert_eq!(next().await, Some(ServingStatus::NotServing));
    assert_eq!(next().await, None, "the watch ends, so that the server can");
    assert!(always.next().await.is_none());
}

mod reflection {
    //! Listing and describing, as grpcurl does.

    use prost::Message as _;
    use prost_types::FileDescriptorProto;
    use tokio_stream::StreamExt as _;
    use tonic_reflection::pb::{v1, v1alpha};

    use super::RULES;
    use crate::support::Server;

    const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

    #[tokio::test]
    async fn services_are_listed_and_described_in_version_1() {
        use v1::server_reflection_request::MessageRequest;
        use v1::server_reflection_response::MessageResponse;
        let server = Server::with(RULES).await;
        let mut client = v1::server_reflection_client::ServerReflectionClient::new(server.channel().await);
        let asked = [
            MessageRequest::ListServices(String::new()),
            MessageRequest::FileContainingSymbol(SERVICE.to_owned()),
            MessageRequest::FileByFilename("google/protobuf/struct.proto".to_owned()),
        ];
        let asked =
            asked.map(|one| v1::ServerReflectionRequest { host: String::new(), message_request: Some(one) });
        let mut answers =
            client.server_reflection_info(tokio_stream::iter(asked)).await.unwrap().into_inner();
        let mut next = async || answers.next().await.unwrap().unwrap().message_response.unwrap();

        let MessageResponse::ListServicesResponse(list) = next().await else { panic!("not a list") };
        let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
        for name in [
            SERVICE,
            "tollgate.v1.LimiterService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
        ] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        for expected in ["envoy/service/ratelimit/v3/rls.proto", "google/protobuf/struct.proto"] {
            let MessageResponse::FileDescriptorResponse(files) = next().await else { panic!("not a file") };
            let file = FileDescriptorProto::decode(files.file_descriptor_proto[0].as_slice()).unwrap();
            assert_eq!(file.name(), expected);
        }
    }

    #[tokio::test]
    async fn older_clients_are_answered_too() {
        use v1alpha::server_reflection_request::MessageRequest;
        use v1alpha::server_reflection_response::MessageResponse;
        let server = Server::with(RULES).await;
        let mut client =
            v1alpha::server_reflection_client::ServerReflectionClient::new(server.channel().await);
        let asked = v1alpha::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let mut answers =
            client.server_reflection_info(tokio_stream::once(asked)).await.unwrap().into_inner();
        let answer = answers.next().await.unwrap().unwrap().message_response.unwrap();
        let MessageResponse::ListServicesResponse(list) = answer else { panic!("not a list") };
        assert!(list.service.iter().any(|service| service.name == SERVICE));
    }
}
