//! A small xDS server: it sends what it is told to, and tells what it is sent.

use std::pin::Pin;
use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::google::protobuf::Any;
use envoy_types::pb::ratelimit::config::ratelimit::v3::RateLimitConfig;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt as _};
use tonic::metadata::MetadataMap;
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use super::DEADLINE;

pub(super) const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// All that the server has at some version.
#[derive(Clone, Default)]
pub(super) struct Snapshot {
    version: String,
    resources: Vec<Any>,
}

impl Snapshot {
    pub(super) fn new(version: &str, configs: &[RateLimitConfig]) -> Self {
        let resources = configs
            .iter()
            .map(|config| Any { type_url: TYPE_URL.to_owned(), value: config.encode_to_vec() })
            .collect();
        Self { version: version.to_owned(), resources }
    }

    pub(super) fn broken(version: &str) -> Self {
        let resources = vec![Any { type_url: TYPE_URL.to_owned(), value: vec![0xff; 8] }];
        Self { version: version.to_owned(), resources }
    }
}

/// What a client sent.
pub(super) struct Sent {
    pub(super) request: DiscoveryRequest,
    pub(super) headers: MetadataMap,
}

/// The server, as a test holds it.
pub(super) struct XdsServer {
    pub(super) port: u16,
    snapshot: watch::Sender<Snapshot>,
    sent: mpsc::UnboundedReceiver<Sent>,
    up: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl XdsServer {
    pub(super) async fn start(port: u16, snapshot: Snapshot, tls: Option<ServerTlsConfig>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (snapshot, _) = watch::channel(snapshot);
        let (told, sent) = mpsc::unbounded_channel();
        let (up, mut is_up) = watch::channel(true);
        let service = Service { snapshot: snapshot.clone(), told, up: up.clone() };
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        let serving = server
            .add_service(AggregatedDiscoveryServiceServer::from_arc(Arc::new(service)))
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async move {
                drop(is_up.wait_for(|up| !up).await);
            });
        let task = tokio::spawn(async move { serving.await.unwrap() });
        Self { port, snapshot, sent, up, task }
    }

    pub(super) fn set(&self, snapshot: Snapshot) {
        self.snapshot.send_replace(snapshot);
    }

    /// The next thing that a client sent.
    pub(super) async fn next(&mut self) -> Sent {
        timeout(DEADLINE, self.sent.recv()).await.expect("the client sends nothing").unwrap()
    }

    /// Ends all streams and the server.
    pub(super) async fn stop(self) {
        self.up.send_replace(false);
        timeout(DEADLINE, self.task).await.expect("the server does not stop").unwrap();
    }
}

struct Service {
    snapshot: watch::Sender<Snapshot>,
    told: mpsc::UnboundedSender<Sent>,
    up: watch::Sender<bool>,
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl AggregatedDiscoveryService for Service {
    type StreamAggregatedResourcesStream = Responses<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Responses<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let headers = request.metadata().clone();
        let mut incoming = request.into_inner();
        let (mut snapshots, mut up) = (self.snapshot.subscribe(), self.up.subscribe());
        let told = self.told.clone();
        let (out, responses) = mpsc::channel(16);
        snapshots.mark_changed();
        tokio::spawn(async move {
            let mut nonce = 0;
            let mut is_asked = false;
            loop {
                tokio::select! {
                    request = incoming.next() => {
                        let Some(Ok(request)) = request else { return };
                        is_asked = true;
                        drop(told.send(Sent { request, headers: headers.clone() }));
                    }
                    changed = snapshots.changed(), if is_asked => {
                        let Snapshot { version, resources } = snapshots.borrow_and_update().clone();
                        if changed.is_err() {
                            return;
                        }
                        nonce += 1;
                        let response = DiscoveryResponse {
                            version_info: version,
                            resources,
                            type_url: TYPE_URL.to_owned(),
                            nonce: nonce.to_string(),
                            ..DiscoveryResponse::default()
                        };
                        drop(out.send(Ok(response)).await);
                    }
                    _ = up.changed() => return,
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(responses))))
    }

    async fn delta_aggregated_resources(
        &self,
        _request: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        Err(Status::unimplemented("state of the world only"))
    }
}
