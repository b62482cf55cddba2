//! Serves connections of HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use tollgate_http2::Http2Config;

use super::connection::GrpcConnection;
use super::{Grpc, KNOWN_PATHS};
use crate::bounds::{CONNECTION_WINDOW, HEADERS_MAX, RESETS_MAX, STREAM_WINDOW, STREAMS_MAX};
use crate::listen::accept::{Serve, ServerConnection};
use crate::listen::lifetime::LifetimePolicy;
use crate::tls::Tls;
use tollgate_settings::LimitedListener;

/// The preface of HTTP/2, and the head of the frame that must follow it.
const OPENING_BYTES: u64 = 24 + 9;

/// Serves connections of HTTP/2.
#[derive(Debug, Clone)]
pub(crate) struct ServeGrpc {
    grpc: Arc<Grpc>,
    tls: Option<Arc<Tls>>,
    policy: LifetimePolicy,
    config: Http2Config,
}

impl ServeGrpc {
    /// Serves `grpc`; connections are asked to close at `age`, and cut off `grace` later.
    pub(crate) fn new(
        grpc: Grpc,
        tls: Option<Arc<Tls>>,
        age: Option<Duration>,
        grace: Option<Duration>,
    ) -> Self {
        let config = Http2Config {
            streams_max: STREAMS_MAX,
            stream_window: STREAM_WINDOW,
            connection_window: CONNECTION_WINDOW,
            headers_max: HEADERS_MAX,
            resets_max: RESETS_MAX,
            known_paths: KNOWN_PATHS,
            // The parent of a span is in them.
            keeps_fields: grpc.service.tracer().is_on(),
        };
        let policy = LifetimePolicy { opening_bytes: OPENING_BYTES, age, grace, ..LifetimePolicy::default() };
        Self { grpc: Arc::new(grpc), tls, policy, config }
    }
}

impl Serve for ServeGrpc {
    fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }

    fn listener(&self) -> LimitedListener {
        LimitedListener::Grpc
    }

    fn policy(&self) -> LifetimePolicy {
        self.policy
    }

    async fn serve(&self, connection: ServerConnection) {
        let ServerConnection { io, lifetime, peer: _ } = connection;
        let connection = GrpcConnection::new(io, Arc::clone(&self.grpc), self.config, lifetime.byte_count());
        lifetime.supervise_with(connection, |connection| connection.get_mut().close()).await;
    }
}

#[cfg(test)]
mod tests;
