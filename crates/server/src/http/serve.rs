//! Serves connections of HTTP/1.1.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tower::ServiceExt as _;

use super::authz::Peer;
use super::direct::DirectConnection;
use crate::bounds::{HTTP_HEAD_MAX, HTTP_IDLE_MAX};
use crate::listen::accept::{Serve, ServerConnection};
use crate::listen::lifetime::LifetimePolicy;
use crate::listen::prefixed::Prefixed;
use crate::listen::stream::FilteredStream;
use crate::service::Service;
use crate::tls::Tls;

/// A request line with a method, a path and a version is not shorter.
const OPENING_BYTES: u64 = 14;

/// Serves connections of HTTP/1.1 by a router.
#[derive(Debug, Clone)]
pub(crate) struct ServeHttp {
    router: Router,
    tls: Option<Arc<Tls>>,
    /// Answers requests on the short way, if there is one.
    direct: Option<Arc<Service>>,
}

impl ServeHttp {
    pub(crate) const fn new(router: Router, tls: Option<Arc<Tls>>) -> Self {
        Self { router, tls, direct: None }
    }

    /// The same, with the short way for `/v1/check` and its like.
    pub(crate) fn with_short_way(self, service: Arc<Service>) -> Self {
        Self { direct: Some(service), ..self }
    }
}

impl Serve for ServeHttp {
    fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }

    fn policy(&self) -> LifetimePolicy {
        LifetimePolicy {
            opening_bytes: OPENING_BYTES,
            idle: Some(HTTP_IDLE_MAX),
            ..LifetimePolicy::default()
        }
    }

    async fn serve(&self, connection: ServerConnection) {
        let ServerConnection { io, peer, mut lifetime } = connection;
        let (io, read) = match &self.direct {
            None => (io, Vec::new()),
            Some(service) => match DirectConnection::new(io, service).serve(&mut lifetime).await {
                Some(rest) => rest,
                None => return,
            },
        };
        let io = FilteredStream::new(io, Prefixed::new(read), lifetime.byte_count());
        let router = self.router.clone().map_request(move |mut request: Request<Incoming>| {
            peer.and_then(|peer| request.extensions_mut().insert(Peer(peer)));
            request.map(Body::new)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HTTP_IDLE_MAX)
            .max_buf_size(HTTP_HEAD_MAX)
            // A caller that is done sending still wants its answer.
            .half_close(true)
            .serve_connection(TokioIo::new(io), TowerToHyperService::new(router));
        lifetime.supervise(connection).await;
    }
}
