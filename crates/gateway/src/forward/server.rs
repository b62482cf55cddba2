//! One upstream: how to connect to it, and how busy it is.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderValue;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::bounds::UPSTREAM_HEAD_MAX;
use crate::config::UpstreamUrl;
use crate::error::GatewayError;
use crate::request_body::RequestBody;

/// Tells the pools of all upstreams in a process apart.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// One upstream.
#[derive(Debug)]
pub(crate) struct UpstreamServer {
    id: u64,
    url: UpstreamUrl,
    host: HeaderValue,
    in_flight: AtomicUsize,
}

impl UpstreamServer {
    pub(super) fn new(url: UpstreamUrl) -> Self {
        let host = HeaderValue::from_str(url.authority().as_str());
        let host = host.unwrap_or_else(|_| HeaderValue::from_static("upstream"));
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self { id, url, host, in_flight: AtomicUsize::new(0) }
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// What a request says whose client named no host.
    pub(super) const fn host(&self) -> &HeaderValue {
        &self.host
    }

    /// Where it is.
    pub(crate) const fn url(&self) -> &UpstreamUrl {
        &self.url
    }

    /// How many requests it has, of all threads.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts a request until the guard is dropped.
    pub(super) fn begin(self: Arc<Self>) -> LoadGuard {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        LoadGuard(self)
    }

    /// A new connection.
    pub(super) async fn connect(&self, within: Duration) -> Result<SendRequest<RequestBody>, GatewayError> {
        match timeout(within, self.open()).await {
            Ok(Ok(sender)) => Ok(sender),
            Ok(Err(error)) => {
                tracing::debug!(%error, upstream = %self.url, "cannot connect");
                Err(GatewayError::Unreachable)
            }
            Err(_) => Err(GatewayError::ConnectTimeout),
        }
    }

    async fn open(&self) -> io::Result<SendRequest<RequestBody>> {
        let stream = TcpStream::connect((self.url.host(), self.url.port())).await?;
        stream.set_nodelay(true)?;
        let handshake = http1::Builder::new().max_buf_size(UPSTREAM_HEAD_MAX).handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(io::Error::other)?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to the upstream ended with an error");
            }
        });
        Ok(sender)
    }
}

/// A request that an upstream has; counted until this is dropped.
#[derive(Debug)]
pub(crate) struct LoadGuard(Arc<UpstreamServer>);

impl LoadGuard {
    pub(super) fn server(&self) -> &UpstreamServer {
        &self.0
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
