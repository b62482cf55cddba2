//! A request → the upstream's answer.
//!
//! | module | what it holds |
//! |---|---|
//! | `pool` | connections without a request, of each worker thread |
//!
//! Invariants: a request is sent again only if the connection had served others before, not a byte
//! of an answer has come, it has no body, and its method may be repeated; and only once.

mod pool;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::bounds::UPSTREAM_HEAD_MAX;
use crate::config::{GatewayConfig, GatewayTimeouts, UpstreamUrl};
use crate::error::GatewayError;
use crate::request_body::RequestBody;

pub(crate) use pool::Lease;

/// Tells pools of several gateways in one process apart.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// Where requests go.
#[derive(Debug)]
pub(crate) struct Upstream {
    id: u64,
    url: UpstreamUrl,
    host: HeaderValue,
    timeouts: GatewayTimeouts,
}

impl Upstream {
    pub(crate) fn new(config: &GatewayConfig) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let url = config.upstream.clone();
        let host = HeaderValue::from_str(url.authority().as_str());
        let host = host.unwrap_or_else(|_| HeaderValue::from_static("upstream"));
        Self { id, url, host, timeouts: config.timeouts }
    }

    /// What a request says whose client named no host.
    pub(crate) const fn host(&self) -> &HeaderValue {
        &self.host
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(
        &self,
        request: Request<RequestBody>,
        may_repeat: bool,
    ) -> Result<(Response<Incoming>, Lease), GatewayError> {
        let Some(sender) = pool::take(self.id) else { return self.send_anew(request).await };
        let again = may_repeat.then(|| without_body(&request));
        let answered = timeout(self.timeouts.first_byte, self.send_on(sender, request)).await;
        let mut error = match answered {
            Ok(Ok(answered)) => return Ok(answered),
            Ok(Err(error)) => error,
            Err(_) => return Err(GatewayError::FirstByteTimeout),
        };
        tracing::debug!(error = %error.error(), "a kept connection to the upstream was closed");
        // What hyper gives back has not been sent at all.
        let Some(request) = error.take_message().or(again) else { return Err(GatewayError::NoAnswer) };
        self.send_anew(request).await
    }

    /// Sends a request on a connection of its own.
    async fn send_anew(
        &self,
        request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, Lease), GatewayError> {
        let sender = self.connect().await?;
        match timeout(self.timeouts.first_byte, self.send_on(sender, request)).await {
            Ok(Ok(answered)) => Ok(answered),
            Ok(Err(error)) => {
                tracing::debug!(error = %error.error(), upstream = %self.url, "no answer");
                Err(GatewayError::NoAnswer)
            }
            Err(_) => Err(GatewayError::FirstByteTimeout),
        }
    }

    async fn send_on(
        &self,
        mut sender: SendRequest<RequestBody>,
        request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, Lease), TrySendError<Request<RequestBody>>> {
        let response = sender.try_send_request(request).await?;
        Ok((response, Lease::new(self.id, sender)))
    }

    async fn connect(&self) -> Result<SendRequest<RequestBody>, GatewayError> {
        let connected = timeout(self.timeouts.connect, self.open()).await;
        match connected {
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

/// The same head without a body.
fn without_body(request: &Request<RequestBody>) -> Request<RequestBody> {
    let mut again = Request::new(RequestBody::empty());
    again.method_mut().clone_from(request.method());
    again.uri_mut().clone_from(request.uri());
    again.headers_mut().clone_from(request.headers());
    again
}
