//! A request → an upstream's answer.
//!
//! | module | what it holds |
//! |---|---|
//! | `server` | one upstream: how to connect to it, and how busy it is |
//! | `pool` | connections without a request, of each worker thread |
//!
//! Invariants: a request is sent again only if the connection had served others before, not a byte
//! of an answer has come, it has no body, and its method may be repeated; and only once. An
//! upstream that accepts no connection has been sent nothing, so that others of its group are tried.

mod pool;
mod server;

use std::sync::Arc;
use std::time::Duration;

use http::header::HOST;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use tokio::time::{Instant, timeout};

use crate::bounds::CONNECT_TRIES_MAX;
use crate::config::{GatewayTimeouts, GroupConfig};
use crate::error::GatewayError;
use crate::request_body::RequestBody;
use server::UpstreamServer;

pub(crate) use pool::Lease;

/// Upstreams that serve the same.
#[derive(Debug)]
pub(crate) struct UpstreamGroup {
    servers: Vec<Arc<UpstreamServer>>,
}

/// What is known about the sending of one request, for whoever logs it.
#[derive(Debug, Default)]
pub(crate) struct SendRecord {
    /// Who was asked last.
    pub(crate) upstream: Option<Arc<UpstreamServer>>,
    /// From the first try to the head of the answer, or until it was given up.
    pub(crate) took: Option<Duration>,
}

/// A connection for one request.
struct Connection {
    sender: SendRequest<RequestBody>,
    server: Arc<UpstreamServer>,
    /// Whether it has served others before.
    is_reused: bool,
}

impl UpstreamGroup {
    pub(crate) fn new(config: &GroupConfig) -> Self {
        Self { servers: config.servers.iter().cloned().map(UpstreamServer::new).map(Arc::new).collect() }
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(
        &self,
        request: Request<RequestBody>,
        may_repeat: bool,
        timeouts: &GatewayTimeouts,
        record: &mut SendRecord,
    ) -> Result<(Response<Incoming>, Lease), GatewayError> {
        let start = Instant::now();
        let answered = self.send_within(request, may_repeat, timeouts, record).await;
        record.took = Some(start.elapsed());
        answered
    }

    async fn send_within(
        &self,
        request: Request<RequestBody>,
        may_repeat: bool,
        timeouts: &GatewayTimeouts,
        record: &mut SendRecord,
    ) -> Result<(Response<Incoming>, Lease), GatewayError> {
        let connection = self.connect(timeouts, true).await?;
        record.upstream = Some(Arc::clone(&connection.server));
        let again = (connection.is_reused && may_repeat).then(|| without_body(&request));
        let is_reused = connection.is_reused;
        let mut error = match timeout(timeouts.first_byte, connection.send(request)).await {
            Ok(Ok(answered)) => return Ok(answered),
            Ok(Err(error)) => error,
            Err(_) => return Err(GatewayError::FirstByteTimeout),
        };
        tracing::debug!(error = %error.error(), is_reused, "an upstream closed the connection");
        // What hyper gives back has not been sent at all.
        let Some(request) = error.take_message().filter(|_| is_reused).or(again) else {
            return Err(GatewayError::NoAnswer);
        };
        let connection = self.connect(timeouts, false).await?;
        record.upstream = Some(Arc::clone(&connection.server));
        match timeout(timeouts.first_byte, connection.send(request)).await {
            Ok(answered) => answered.map_err(|_| GatewayError::NoAnswer),
            Err(_) => Err(GatewayError::FirstByteTimeout),
        }
    }

    /// A connection to some upstream of the group.
    async fn connect(&self, timeouts: &GatewayTimeouts, may_reuse: bool) -> Result<Connection, GatewayError> {
        let mut tried: Vec<Arc<UpstreamServer>> = Vec::new();
        let mut failure = GatewayError::Unreachable;
        while tried.len() < CONNECT_TRIES_MAX
            && let Some(server) = self.choose(&tried)
        {
            if may_reuse && let Some(sender) = pool::take(server.id()) {
                return Ok(Connection { sender, server, is_reused: true });
            }
            match server.connect(timeouts.connect).await {
                Ok(sender) => return Ok(Connection { sender, server, is_reused: false }),
                Err(error) => failure = error,
            }
            tried.push(server);
        }
        Err(failure)
    }

    /// The less busy one of two that are chosen at random, so that nobody needs to look at all of
    /// them, and several gateways do not all choose the same.
    fn choose(&self, tried: &[Arc<UpstreamServer>]) -> Option<Arc<UpstreamServer>> {
        if let ([only], []) = (self.servers.as_slice(), tried) {
            return Some(Arc::clone(only));
        }
        let is_left = |server: &&Arc<UpstreamServer>| !tried.iter().any(|other| Arc::ptr_eq(other, server));
        let left: Vec<&Arc<UpstreamServer>> = self.servers.iter().filter(is_left).collect();
        let first = fastrand::choice(&left)?;
        let second = fastrand::choice(&left)?;
        let chosen = if second.in_flight() < first.in_flight() { second } else { first };
        Some(Arc::clone(chosen))
    }
}

impl Connection {
    async fn send(
        self,
        mut request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, Lease), TrySendError<Request<RequestBody>>> {
        let Self { mut sender, server, .. } = self;
        // A client of HTTP/1.0 may name no host.
        let host = request.headers_mut().entry(HOST);
        host.or_insert_with(|| server.host().clone());
        let load = server.begin();
        let response = sender.try_send_request(request).await?;
        Ok((response, Lease::new(load, sender)))
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
