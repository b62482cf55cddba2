//! gRPC: Envoy's rate limit service, peek and report in its messages, health and reflection.
//!
//! A connection answers what takes Envoy's messages by `should_rate_limit`, and hands all other calls to
//! [`Grpc`], which finds the service of tonic's by the path.
//!
//! | module | what it holds |
//! |---|---|
//! | `from_wire` | Envoy's request → request |
//! | `to_wire` | answer → Envoy's response; errors → gRPC's |
//! | `serve`, `connection` | connections of HTTP/2, and one of them |
//! | `should_rate_limit` | one call, from its message to its answer |
//! | `side_call`, `request_body` | one call that tonic answers |
//! | `message_wire` | the framing of a message |
//! | `response_wire` | the header fields of responses |
//! | `error` | why a call gets no decision |
//! | `health_wire` | `grpc.health.v1` |
//! | `reflection` | what this server serves, for grpcurl and the like |
//!
//! Deliberately not here: HTTP/2 itself (`tollgate_http2`), TLS, and who gets in for how long (`listen`).

mod connection;
mod error;
mod from_wire;
mod health_wire;
mod message_wire;
mod reflection;
mod request_body;
mod response_wire;
mod serve;
mod should_rate_limit;
mod side_call;
mod to_wire;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Body as _;
use hyper::{Request, Response};
use tokio::time::timeout;
use tollgate_core::Operation;
use tonic::Status;
use tower::Service as _;

use crate::bounds::BODY_WAIT_MAX;
use crate::service::Service;
use reflection::Reflection;

pub use error::BadRequest;
pub use to_wire::WAIT_HEADER;

pub(crate) use from_wire::RlsRequest;
pub(crate) use serve::ServeGrpc;
pub(crate) use should_rate_limit::respond;

/// The path of Envoy's call, whose refund is a check of negative hits.
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// A service of our own has what Envoy's cannot say, so that one which does not know it refuses instead of charging.
const PEEK: &str = "/tollgate.v1.LimiterService/Peek";
const REPORT: &str = "/tollgate.v1.LimiterService/Report";

/// The paths that take Envoy's messages, and what they ask for.
const KNOWN_PATHS: &[&str] = &[SHOULD_RATE_LIMIT, PEEK, REPORT];
const OPERATIONS: [Operation; 3] = [Operation::Check, Operation::Peek, Operation::Report];

/// All gRPC services of this server.
#[derive(Clone)]
pub struct Grpc {
    service: Arc<Service>,
    health: health_wire::GrpcHealth,
    reflection: Reflection,
}

impl std::fmt::Debug for Grpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grpc").finish_non_exhaustive()
    }
}

impl Grpc {
    /// The services around `service`.
    pub fn new(service: Arc<Service>) -> Self {
        let health = health_wire::server(Arc::clone(&service));
        Self { service, health, reflection: Reflection::new() }
    }

    /// Hands a call to one of tonic's services.
    fn call_tonic(&self, request: Request<tonic::body::Body>) -> TonicFuture {
        let path = request.uri().path().to_owned();
        let service =
            path.strip_prefix('/').and_then(|path| path.split_once('/')).map(|(service, _)| service);
        match service {
            Some("grpc.health.v1.Health") => Box::pin(self.health.clone().call(request)),
            Some("grpc.reflection.v1.ServerReflection") => Box::pin(self.reflection.v1.clone().call(request)),
            Some("grpc.reflection.v1alpha.ServerReflection") => {
                Box::pin(self.reflection.v1alpha.clone().call(request))
            }
            _ => Box::pin(async move {
                let status = Status::unimplemented(format!(
                    "there is no {path}; use reflection to list what there is"
                ));
                // An answer before the end of the request would be followed by a reset.
                drop(timeout(BODY_WAIT_MAX, drain(request.into_body())).await);
                Ok(status.into_http())
            }),
        }
    }
}

/// Takes in a body that nobody wants.
async fn drain(mut body: tonic::body::Body) {
    while let Some(Ok(_)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {}
}

type TonicFuture = Pin<Box<dyn Future<Output = Result<Response<tonic::body::Body>, Infallible>> + Send>>;
