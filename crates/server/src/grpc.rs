//! gRPC: Envoy's rate limit service, peek and report in its messages, health and reflection.
//!
//! A connection hands every call to [`Grpc`], which finds the service by the
//! path. What takes Envoy's messages is answered by `should_rate_limit`, all others by tonic.
//!
//! | module | what it holds |
//! |---|---|
//! | `from_wire` | Envoy's request → request |
//! | `to_wire` | answer → Envoy's response; errors → gRPC's |
//! | `should_rate_limit` | one call, from its bytes to its bytes |
//! | `message_wire` | the framing of a message |
//! | `body` | the body of a response |
//! | `error` | why a call gets no decision |
//! | `health_wire` | `grpc.health.v1` |
//! | `reflection` | what this server serves, for grpcurl and the like |
//! | `lenient_authority` | lets in callers whose `:authority` is not the name of a host |
//! | `serve` | connections of HTTP/2 |
//!
//! Deliberately not here: connections, TLS and their bounds (`listen`).

mod body;
mod error;
mod from_wire;
mod health_wire;
mod lenient_authority;
mod message_wire;
mod reflection;
mod serve;
mod should_rate_limit;
mod to_wire;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use tollgate_core::Operation;
use tonic::Status;
use tower::Service as _;

use crate::bounds::SIDE_CALLS_MAX;
use crate::listen::stream::ByteCount;
use crate::service::Service;
use body::{GrpcBody, TonicBody};
use error::GrpcError;
use reflection::Reflection;
use should_rate_limit::GrpcCall;

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

type GrpcFuture = Pin<Box<dyn Future<Output = Result<Response<GrpcBody>, Infallible>> + Send>>;

/// What a path asks for, of those that take Envoy's messages.
fn operation(path: &str) -> Option<Operation> {
    match path {
        SHOULD_RATE_LIMIT => Some(Operation::Check),
        PEEK => Some(Operation::Peek),
        REPORT => Some(Operation::Report),
        _ => None,
    }
}

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

    /// The services for the calls of a connection whose bytes are counted in `bytes`.
    fn for_connection(&self, bytes: Arc<ByteCount>) -> GrpcConnection {
        GrpcConnection { grpc: self.clone(), bytes, side_calls: Arc::default() }
    }

    /// Hands a call to one of tonic's services.
    fn call_tonic(&self, request: Request<Incoming>) -> TonicFuture {
        let (path, request) = (request.uri().path().to_owned(), request.map(tonic::body::Body::new));
        let service =
            path.strip_prefix('/').and_then(|path| path.split_once('/')).map(|(service, _)| service);
        match service {
            Some("grpc.health.v1.Health") => Box::pin(self.health.clone().call(request)),
            Some("grpc.reflection.v1.ServerReflection") => Box::pin(self.reflection.v1.clone().call(request)),
            Some("grpc.reflection.v1alpha.ServerReflection") => {
                Box::pin(self.reflection.v1alpha.clone().call(request))
            }
            _ => Box::pin(std::future::ready(Ok(Status::unimplemented(format!(
                "there is no {path}; use reflection to list what there is"
            ))
            .into_http()))),
        }
    }
}

type TonicFuture = Pin<Box<dyn Future<Output = Result<Response<tonic::body::Body>, Infallible>> + Send>>;

/// The services, for the calls of one connection.
pub(crate) struct GrpcConnection {
    grpc: Grpc,
    bytes: Arc<ByteCount>,
    /// Every call that tonic answers holds a clone.
    side_calls: Arc<()>,
}

impl GrpcConnection {
    fn call_tonic(&self, request: Request<Incoming>) -> GrpcFuture {
        let side_call = Arc::clone(&self.side_calls);
        if Arc::strong_count(&self.side_calls) > SIDE_CALLS_MAX + 1 {
            return Box::pin(std::future::ready(Ok(to_wire::status(&GrpcError::SideCalls).into_http())));
        }
        let (call, connection) = (self.grpc.call_tonic(request), Arc::clone(&self.bytes));
        Box::pin(async move {
            Ok(call.await?.map(|body| GrpcBody::Tonic(TonicBody::new(body, connection, side_call))))
        })
    }
}

impl hyper::service::Service<Request<Incoming>> for GrpcConnection {
    type Response = Response<GrpcBody>;
    type Error = Infallible;
    type Future = GrpcFuture;

    fn call(&self, request: Request<Incoming>) -> GrpcFuture {
        let Some(operation) = operation(request.uri().path()).filter(|_| request.method() == Method::POST)
        else {
            return self.call_tonic(request);
        };
        let (service, connection) = (Arc::clone(&self.grpc.service), Arc::clone(&self.bytes));
        should_rate_limit::answer(GrpcCall { service, connection, operation }, request)
    }
}
