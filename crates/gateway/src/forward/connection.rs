//! A connection for a request, kept or new, and what becomes of the request on it.

use std::error::Error as _;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::time::timeout;
use tokio_rustls::rustls::AlertDescription;

use super::pool::{self, Lease};
use super::sender::{UpstreamSender, in_own_form};
use super::server::UpstreamServer;
use super::{connect, keep_alive};
use crate::config::UpstreamProtocol;
use crate::error::GatewayError;
use crate::request_body::{BodyFate, RequestBody};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Which connection will do.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionNeed {
    /// None that the upstream may be about to close.
    pub(super) is_new: bool,
    /// One that can become a tunnel.
    pub(super) is_http1: bool,
}

/// A connection for one request.
#[derive(Debug)]
pub(super) struct Connection {
    sender: UpstreamSender,
    server: Arc<UpstreamServer>,
    /// Whether it has served others before.
    pub(super) is_reused: bool,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum SendError {
    Timeout,
    /// The connection was closed before anything was sent.
    NotSent(Box<Request<RequestBody>>),
    /// The upstream says that it has not looked at the request.
    Refused,
    /// It was closed without a word; the upstream may have done what it was asked for.
    Broken,
    /// TLS was broken off on a new connection: the upstream wants another certificate of ours, or one at all.
    TlsRefused(AlertDescription),
    /// Something has come that is no answer, or only a part of one; the upstream has done what it was asked
    /// for.
    BrokenAnswer,
}

impl Connection {
    /// A connection to this upstream.
    pub(super) async fn get(
        server: &Arc<UpstreamServer>,
        need: ConnectionNeed,
        within: Duration,
    ) -> Result<Self, GatewayError> {
        // Without HTTP/1.1 there are no tunnels; the request is answered without one.
        let has_http1 = server.url().protocol() != Some(UpstreamProtocol::Http2);
        let need = ConnectionNeed { is_http1: need.is_http1 && has_http1, ..need };
        if !need.is_new {
            let stream = if need.is_http1 { None } else { pool::take_stream(server.id()) };
            let kept = stream.map(UpstreamSender::Http2).or_else(|| pool::take(server.id()));
            if let Some(sender) = kept {
                return Ok(Self { sender, server: Arc::clone(server), is_reused: true });
            }
        }
        let opened = timeout(within, Self::open(server, need)).await;
        let (opened, error) = match opened {
            Ok(opened) => (opened, GatewayError::Unreachable),
            Err(_) => (Err(io::ErrorKind::TimedOut.into()), GatewayError::ConnectTimeout),
        };
        server.health().connected(opened.as_ref().err());
        opened.map_err(|_| error)
    }

    async fn open(server: &Arc<UpstreamServer>, need: ConnectionNeed) -> io::Result<Self> {
        let own = |sender, is_reused| Self { sender, server: Arc::clone(server), is_reused };
        if need.is_http1 || server.protocol() == Some(UpstreamProtocol::Http1) {
            return Ok(own(connect::open(server.endpoint(), need.is_http1).await?, false));
        }
        // Requests that come together share a connection: one opens it, and the others wait for it.
        let opening = pool::opening(server.id());
        let turn = opening.lock().await;
        if let Some(stream) = pool::take_stream(server.id()) {
            return Ok(own(UpstreamSender::Http2(stream), true));
        }
        if server.protocol() == Some(UpstreamProtocol::Http1) {
            // Whoever was first has found out that nothing can be shared.
            drop(turn);
            return Ok(own(connect::open(server.endpoint(), false).await?, false));
        }
        let opened = connect::open(server.endpoint(), false).await?;
        match &opened {
            UpstreamSender::Http1(_) => server.negotiated(UpstreamProtocol::Http1),
            UpstreamSender::Http2(stream) => {
                server.negotiated(UpstreamProtocol::Http2);
                pool::share(server.id(), stream.connection().clone());
            }
        }
        Ok(own(opened, false))
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(
        self,
        mut request: Request<RequestBody>,
        first_byte: Duration,
        fate: &BodyFate,
    ) -> Result<(Response<Incoming>, Lease), SendError> {
        let Self { sender, server, is_reused } = self;
        server.set_host(&mut request);
        let is_tls = server.url().is_tls();
        let load = server.begin();
        let received = sender.received();
        let received_before = received.count();
        let mut sending = pin!(sender.send(request, is_tls));
        let sent = loop {
            // An upstream has its time from the last piece of the request on.
            let pieces = fate.pieces();
            match timeout(first_byte, sending.as_mut()).await {
                Ok(sent) => break sent,
                // While the client is waited for, `idle` is what it has.
                Err(_) if fate.pieces() == pieces && !fate.is_waiting() => return Err(SendError::Timeout),
                Err(_) => {}
            }
        };
        let mut error = match sent {
            Ok((response, sender)) => {
                let said = response.headers().get_all(KEEP_ALIVE).iter().map(HeaderValue::as_bytes);
                let lease = Lease::new(load, sender, keep_alive::idle_time(said));
                return Ok((response, lease));
            }
            Err(error) => error,
        };
        let upstream = load.server().url();
        tracing::debug!(error = %error.error(), %upstream, is_reused, "no answer from the upstream");
        if let Some(alert) = received.alert().filter(|_| !is_reused) {
            load.server().health().refused_tls(alert);
            return Err(SendError::TlsRefused(alert));
        }
        Err(match error.take_message() {
            Some(request) => SendError::NotSent(Box::new(in_own_form(request))),
            None if is_refused(error.error()) => SendError::Refused,
            None if received.count() == received_before => SendError::Broken,
            None => SendError::BrokenAnswer,
        })
    }
}

/// Whether the upstream says that it has not looked at the request (RFC 9113, 8.7): the stream is
/// refused, or later than the last one that it will serve before it goes away.
fn is_refused(error: &hyper::Error) -> bool {
    let http2 = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    http2.is_some_and(|error| {
        let is_leaving = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
        error.is_remote() && (is_leaving || error.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}
