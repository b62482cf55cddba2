//! Rate limits around a tonic server: calls by address, and fewer of those that fail.
//!
//! `cargo run -p tollgate-tower --example tonic`, then
//! `grpcurl -plaintext -d '{"service":"nobody"}' 127.0.0.1:3000 grpc.health.v1.Health/Check`
//! until it is `RESOURCE_EXHAUSTED`.

use std::net::IpAddr;
use std::sync::Arc;

use http::Extensions;
use tokio::net::TcpListener;
use tollgate_http::{
    Action, AddressPrefixes, ChargeTerms, Fact, Mapping, MappingDescriptor, ResponseCost, StatusSet,
};
use tollgate_limiter::Limiter;
use tollgate_rules::SourceFile;
use tollgate_tower::TollgateLayer;
use tonic::transport::Server;
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};

const RULES: &str = "
domain: health
descriptors:
  - key: remote_address
    rate_limit: { name: by address, requests_per_unit: 100, unit: minute, algorithm: token_bucket }
  - key: guesses
    descriptors:
      - key: remote_address
        rate_limit: { name: guesses, requests_per_unit: 2, unit: minute, algorithm: sliding_log }
";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Where tonic keeps the address of the peer.
fn peer(known: &Extensions) -> Option<IpAddr> {
    known.get::<TcpConnectInfo>()?.remote_addr().map(|address| address.ip())
}

fn layer() -> Result<TollgateLayer, BoxError> {
    let source = SourceFile { name: "health.yaml".into(), text: RULES.into() };
    let loaded = tollgate_rules::load(vec![source], &tollgate_rules::Options::default())?;
    let address = || Action::new("remote_address", Fact::RemoteAddress(AddressPrefixes::default()));
    // NOT_FOUND of gRPC is a 404.
    let not_found =
        ChargeTerms::OnResponse { status: Some(StatusSet::parse(&["404"])?), cost: ResponseCost::One };
    let guesses = vec![Action::new("guesses", Fact::Text("all".into())), address()];
    let descriptors = vec![vec![address()].into(), MappingDescriptor::new(guesses, not_found)];
    let mapping = Mapping::new("health", descriptors)?;
    Ok(TollgateLayer::new(Arc::new(Limiter::new(loaded.rules)), mapping).with_peer(peer))
}

async fn serve(listener: TcpListener) -> Result<(), BoxError> {
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer()?).add_service(health);
    Ok(server.serve_with_incoming(TcpIncoming::from(listener)).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    serve(TcpListener::bind("127.0.0.1:3000").await?).await
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic::transport::Endpoint;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    use super::*;

    #[tokio::test]
    async fn whoever_guesses_is_denied_after_two_wrong_names() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(serve(listener));
        let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        let mut client = HealthClient::new(channel);
        for (service, code) in [
            ("", Code::Ok),
            ("", Code::Ok),
            ("a", Code::NotFound),
            ("", Code::Ok),
            ("b", Code::NotFound),
            ("", Code::ResourceExhausted),
        ] {
            let answered = client.check(HealthCheckRequest { service: service.into() }).await;
            let (seen, text) = answered
                .map_or_else(|error| (error.code(), error.to_string()), |_| (Code::Ok, String::new()));
            assert_eq!(seen, code, "{service}: {text}");
            assert!(code != Code::ResourceExhausted || text.contains("'guesses'"), "{text}");
        }
    }
}
