//! A connection to an upstream of HTTP/1.1 without TLS, as bytes: for the short way.
//!
//! It is kept in the pool beside those that hyper has, for as long, and like them it belongs to one
//! request at a time.

use std::io;
use std::time::Duration;

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
    /// When the request got it.
    pub(crate) leased_at: Instant,
}

impl StreamLease {
    /// Puts the connection back into the pool for as long as it may be idle; without this it is closed. `now` is what
    /// the caller's clock says, so that it is not read again.
    pub(crate) fn give_back(self, now: Instant, idle: Duration) {
        if !idle.is_zero() {
            pool::keep_stream(self.load.server().id(), self.stream, now + idle);
        }
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

    /// A connection to some upstream of the group: a kept one if there is one, else a new one. `now` is what the caller's
    /// clock says; without it the connection is new.
    pub(crate) async fn lease_stream(
        &self,
        mut now: Option<Instant>,
        timeouts: &GatewayTimeouts,
        record: &mut SendRecord,
    ) -> Result<StreamLease, GatewayError> {
        let mut tries = ConnectTries::default();
        while let Some(server) = self.next_try(&tries, record) {
            if let Some(leased_at) = now
                && let Some(stream) = pool::take_stream_of(server.id(), leased_at)
            {
                return Ok(StreamLease { load: server.begin(), stream, is_reused: true, leased_at });
            }
            let opened = open(&server, timeouts).await;
            let leased_at = Instant::now();
            match opened {
                Ok(stream) => {
                    return Ok(StreamLease { load: server.begin(), stream, is_reused: false, leased_at });
                }
                Err(error) => self.failed_try(&mut tries, server, error),
            }
            // What this one took is not the next one's time.
            now = now.map(|_| leased_at);
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
