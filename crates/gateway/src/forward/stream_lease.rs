//! A connection to an upstream of HTTP/1.1 without TLS, as bytes: for the short way.
//!
//! It is kept in the pool beside those that hyper has, for as long, and like them it belongs to one
//! request at a time.

use std::io;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::connect;
use super::pool;
use super::server::{LoadGuard, UpstreamServer};
use super::{ConnectTries, SendRecord, UpstreamGroup};
use crate::config::{GatewayTimeouts, UpstreamProtocol};
use crate::error::GatewayError;

/// A connection that a request has for itself.
#[derive(Debug)]
pub(crate) struct StreamLease {
    load: LoadGuard,
    pub(crate) stream: TcpStream,
    /// Whether it has served others before.
    pub(crate) is_reused: bool,
}

impl StreamLease {
    /// Lets another request have the connection, since then; without this it is closed.
    pub(crate) fn give_back(self, since: Instant) {
        pool::keep_stream(self.load.server().id(), self.stream, since);
    }

    /// Who is asked.
    pub(crate) fn server(&self) -> &UpstreamServer {
        self.load.server()
    }
}

impl UpstreamGroup {
    /// Whether all of its upstreams speak HTTP/1.1 without TLS.
    pub(crate) fn is_plain(&self) -> bool {
        self.servers.iter().all(|server| server.url().protocol() == Some(UpstreamProtocol::Http1))
    }

    /// A connection to some upstream of the group, new or, if there is one at this time, kept.
    pub(crate) async fn lease_stream(
        &self,
        kept_at: Option<Instant>,
        timeouts: &GatewayTimeouts,
        record: &mut SendRecord,
    ) -> Result<StreamLease, GatewayError> {
        let mut tries = ConnectTries::default();
        while let Some(server) = self.next_try(&tries, record) {
            let kept = kept_at.and_then(|now| pool::take_stream_of(server.id(), now));
            if let Some(stream) = kept {
                return Ok(StreamLease { load: server.begin(), stream, is_reused: true });
            }
            match open(&server, timeouts).await {
                Ok(stream) => return Ok(StreamLease { load: server.begin(), stream, is_reused: false }),
                Err(error) => self.failed_try(&mut tries, server, error),
            }
        }
        Err(tries.failure)
    }
}

async fn open(server: &UpstreamServer, timeouts: &GatewayTimeouts) -> Result<TcpStream, GatewayError> {
    let (opened, error) = match timeout(timeouts.connect, connect::open_tcp(server.url())).await {
        Ok(opened) => (opened, GatewayError::Unreachable),
        Err(_) => (Err(io::ErrorKind::TimedOut.into()), GatewayError::ConnectTimeout),
    };
    server.health().connected(opened.as_ref().err());
    opened.map_err(|_| error)
}
