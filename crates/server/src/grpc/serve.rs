//! Serves connections of HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::Grpc;
use super::lenient_authority::LenientAuthority;
use crate::bounds::{
    CONNECTION_WINDOW, HEADERS_MAX, PING_EVERY, PING_WAIT_MAX, RESETS_MAX, STREAM_WINDOW, STREAMS_MAX,
};
use crate::listen::accept::{Serve, ServerConnection};
use crate::listen::lifetime::LifetimePolicy;
use crate::listen::stream::FilteredStream;
use crate::tls::Tls;
use tollgate_settings::LimitedListener;

/// The preface of HTTP/2, and the head of the frame that must follow it.
const OPENING_BYTES: u64 = 24 + 9;

/// Serves connections of HTTP/2.
#[derive(Debug, Clone)]
pub(crate) struct ServeGrpc {
    grpc: Grpc,
    tls: Option<Arc<Tls>>,
    policy: LifetimePolicy,
    builder: http2::Builder<TokioExecutor>,
}

impl ServeGrpc {
    /// Serves `grpc`; connections are asked to close at `age`, and cut off `grace` later.
    pub(crate) fn new(
        grpc: Grpc,
        tls: Option<Arc<Tls>>,
        age: Option<Duration>,
        grace: Option<Duration>,
    ) -> Self {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_stream_window_size(STREAM_WINDOW)
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEADERS_MAX)
            .max_pending_accept_reset_streams(RESETS_MAX)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_WAIT_MAX)
            // gRPC has no use for the date, and each response would carry it.
            .auto_date_header(false);
        let policy = LifetimePolicy { opening_bytes: OPENING_BYTES, age, grace, ..LifetimePolicy::default() };
        Self { grpc, tls, policy, builder }
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
        let io = FilteredStream::new(io, LenientAuthority::default(), lifetime.byte_count());
        let calls = self.grpc.for_connection(lifetime.byte_count());
        lifetime.supervise(self.builder.serve_connection(TokioIo::new(io), calls)).await;
    }
}

#[cfg(test)]
mod tests;
