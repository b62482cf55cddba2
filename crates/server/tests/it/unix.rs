//! gRPC over a Unix socket.
#![expect(clippy::unwrap_used, reason = "clippy knows the tests here, but not the functions that they share")]

use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::support::wire::{ask_one, brief};
use crate::support::{Setup, eventually};

const RULES: &str = "
domain: d
descriptors:
  - key: a
    rate_limit: { unit: day, requests_per_unit: 10 }
";

async fn connect(path: PathBuf) -> Channel {
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://socket").connect_with_connector(connector).await.unwrap()
}

#[tokio::test]
async fn calls_are_answered_over_a_socket_whose_stale_file_was_there() {
    let setup = Setup::new(&[("rules.yaml", RULES)]);
    let path = setup.path("rls.sock");
    drop(UnixListener::bind(&path).unwrap());
    let server = setup.env("GRPC_UDS", path.to_str().unwrap()).start().await;
    let mut client = RateLimitServiceClient::new(connect(path.clone()).await);
    assert_eq!(brief(&ask_one(&mut client, "d", &[("a", "1")]).await), "OK: OK 9 of 10/DAY");
    drop(client);
    server.control().stop();
    eventually("the file is gone with the server", || async { !path.exists() }).await;
}
