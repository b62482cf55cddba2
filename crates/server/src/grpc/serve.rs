//! Serves connections of HTTP/2, with TLS or without.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::Grpc;
use super::authority::Lenient;
use crate::bounds::{
    CONNECTION_WINDOW, HEADERS_MAX, PING_EVERY, PING_WAIT_MAX, RESETS_MAX, STREAM_WINDOW, STREAMS_MAX,
};
use crate::listen::accept::{Arrival, Serve, Stream};
use crate::listen::life::{Life, Stay, supervise};
use crate::listen::seen::{Counted, Seen};
use crate::tls::Tls;

/// The preface of HTTP/2, and the head of the frame that must follow it.
const OPENING_BYTES: u64 = 24 + 9;

/// Serves connections of HTTP/2.
#[derive(Debug, Clone)]
pub(crate) struct ServeGrpc {
    grpc: Grpc,
    tls: Option<Arc<Tls>>,
    stay: Stay,
    builder: http2::Builder<TokioExecutor>,
}

impl ServeGrpc {
    /// Serves `grpc`; connections are asked to go at an age and cut off after a grace.
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
            // gRPC has no use for the date, and each answer would carry it.
            .auto_date_header(false);
        Self { grpc, tls, stay: Stay { opening_bytes: OPENING_BYTES, age, grace }, builder }
    }

    async fn serve_io<I>(&self, io: I, life: Life)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(Counted::new(Lenient::new(io), Arc::clone(&life.seen)));
        supervise(self.builder.serve_connection(io, self.grpc.clone()), life).await;
    }

    async fn serve_tls(&self, tls: &Tls, stream: TcpStream, life: Life) {
        if let Some(stream) = tls.greet(stream).await {
            self.serve_io(stream, life).await;
        }
    }
}

impl Serve for ServeGrpc {
    async fn serve(&self, arrival: Arrival) {
        let Arrival { stream, pass, seat, stop } = arrival;
        let life = Life { stay: self.stay, seen: Arc::new(Seen::default()), stop, pass, _seat: seat };
        match (stream, &self.tls) {
            (Stream::Tcp(stream), Some(tls)) => self.serve_tls(tls, stream, life).await,
            (Stream::Tcp(stream), None) => self.serve_io(stream, life).await,
            // The file system says who may use a Unix socket.
            (Stream::Unix(stream), _) => self.serve_io(stream, life).await,
        }
    }
}
