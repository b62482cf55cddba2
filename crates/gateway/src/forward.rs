//! A request → an upstream's answer.
//!
//! | module | what it holds |
//! |---|---|
//! | `server`, `health` | one upstream: where it is, how busy it is, and how it is doing |
//! | `upstream_load` | how loaded a group is, by how long it takes to answer |
//! | `checks` | health checks |
//! | `connection` | a connection for a request, kept or new, and what becomes of the request on it |
//! | `pool` | the connections of each worker thread |
//! | `keep_alive` | how long an upstream keeps them |
//! | `connect`, `tls` | a new connection: TCP, TLS, HTTP/1.1 or HTTP/2 |
//! | `stream_lease` | a connection as bytes, for the short way |
//! | `counted_stream` | whether anything has come on a connection since a request was sent |
//! | `sender` | a connection of either protocol, and a request in the form that it takes |
//!
//! Invariants: a request is sent again only once, and only if that is safe: the upstream says that
//! it has not looked at it; or not a byte of an answer has come on a connection that had served
//! others before, it has no body, and its method may be repeated. An upstream that accepts no
//! connection has been sent nothing, so that others of its group are tried.

mod checks;
mod connect;
mod connection;
mod counted_stream;
mod health;
mod keep_alive;
mod pool;
mod sender;
mod server;
mod stream_lease;
mod tls;
mod upstream_load;

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tollgate_limiter::Load;

use crate::bounds::CONNECT_TRIES_MAX;
use crate::config::{GatewayTimeouts, GroupConfig};
use crate::error::GatewayError;
use crate::request_body::{BodyFate, RequestBody};
use connection::{Connection, ConnectionNeed, SendError};
use sender::without_body;
use tls::TlsClient;
use upstream_load::UpstreamLoad;

pub use server::UpstreamStatus;
pub use tls::UpstreamTlsError;

pub(crate) use keep_alive::idle_time;
pub(crate) use pool::Lease;
pub(crate) use server::UpstreamServer;
pub(crate) use stream_lease::StreamLease;

/// Upstreams that serve the same.
#[derive(Debug)]
pub(crate) struct UpstreamGroup {
    config: Arc<GroupConfig>,
    servers: Vec<Arc<UpstreamServer>>,
    /// As its files were when it was loaded; none without TLS.
    tls: Option<Arc<TlsClient>>,
    /// Outlives a reload, as what is known about upstreams does.
    load: Arc<UpstreamLoad>,
}

/// A request for an upstream.
#[derive(Debug)]
pub(crate) struct OutgoingRequest {
    pub(crate) request: Request<RequestBody>,
    /// What becomes of its body.
    pub(crate) fate: BodyFate,
    pub(crate) has_body: bool,
    /// Twice is as good as once.
    pub(crate) is_idempotent: bool,
    /// It wants to speak another protocol afterwards, which only HTTP/1.1 can.
    pub(crate) is_upgrade: bool,
}

/// What is known about the sending of one request, for whoever logs it.
#[derive(Debug, Default)]
pub(crate) struct SendRecord {
    /// Who was asked last.
    pub(crate) upstream: Option<Arc<UpstreamServer>>,
    /// From the first try to the head of the answer, or until it was given up.
    pub(crate) took: Option<Duration>,
    /// The answer must be over by then; none if it may take any time.
    pub(crate) deadline: Option<Instant>,
}

/// Upstreams that took no connection for a request, and why the last of them did not.
struct ConnectTries {
    tried: Vec<Arc<UpstreamServer>>,
    failure: GatewayError,
}

impl Default for ConnectTries {
    fn default() -> Self {
        Self { tried: Vec::new(), failure: GatewayError::Unreachable }
    }
}

type UpstreamAnswer = Result<(Response<Incoming>, Lease), GatewayError>;

impl UpstreamGroup {
    /// What `old` knows about upstreams that stay is kept: their connections, health and counts.
    pub(crate) fn new(config: &Arc<GroupConfig>, old: Option<&Self>) -> Result<Self, UpstreamTlsError> {
        let old = old.filter(|old| old.config.tls == config.tls && old.config.host == config.host);
        let tls = match config.servers.iter().any(|url| url.is_tls()) {
            true => Some(Arc::new(TlsClient::load(config)?)),
            false => None,
        };
        let server = |url| {
            let kept = old.and_then(|old| old.servers.iter().find(|server| server.url() == url));
            match kept {
                Some(kept) => {
                    kept.health().forget_checks();
                    Arc::clone(kept)
                }
                None => Arc::new(UpstreamServer::new(url, config, tls.clone())),
            }
        };
        let servers = config.servers.iter().map(server).collect();
        let load = old.map(|old| Arc::clone(&old.load)).unwrap_or_default();
        Ok(Self { config: Arc::clone(config), servers, tls, load })
    }

    /// Upstreams that were kept are spoken to by the files as they are now, on new connections.
    pub(crate) fn use_tls(&self) {
        if let Some(tls) = &self.tls {
            self.servers.iter().for_each(|server| server.use_tls(tls));
        }
    }

    pub(crate) fn config(&self) -> &GroupConfig {
        &self.config
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(
        &self,
        outgoing: OutgoingRequest,
        timeouts: &GatewayTimeouts,
        record: &mut SendRecord,
    ) -> UpstreamAnswer {
        let start = Instant::now();
        let fate = outgoing.fate.clone();
        record.deadline = timeouts.total.map(|total| start + total);
        let total = record.deadline.zip(timeouts.total);
        let sending = self.send_with_retry(outgoing, timeouts, record);
        let answered = match total {
            Some((deadline, total)) => {
                timeout_at(deadline, sending).await.unwrap_or_else(|_| Err(fate.late_after(total)))
            }
            None => sending.await,
        };
        // A client that breaks its request off is no failure of the upstream.
        let answered = answered.map_err(|error| fate.error().unwrap_or(error));
        let status = answered.as_ref().map(|(response, _)| response.status());
        record.took = Some(self.learn(record, status, (start, fate.last_piece().unwrap_or(start))));
        answered
    }

    /// Learns from what became of a request: from the first try, and since the upstream had all of
    /// it. Returns how long it took.
    pub(crate) fn learn(
        &self,
        record: &SendRecord,
        answered: Result<StatusCode, &GatewayError>,
        (start, sent): (Instant, Instant),
    ) -> Duration {
        let end = Instant::now();
        if let Some(server) = &record.upstream {
            self.observe(server, answered);
        }
        self.measure(answered, sent, end);
        end - start
    }

    async fn send_with_retry(
        &self,
        outgoing: OutgoingRequest,
        timeouts: &GatewayTimeouts,
        record: &mut SendRecord,
    ) -> UpstreamAnswer {
        let OutgoingRequest { request, fate, has_body, is_idempotent, is_upgrade } = outgoing;
        let need = ConnectionNeed { is_new: false, is_http1: is_upgrade };
        let connection = self.connect(need, timeouts, record).await?;
        let again = (!has_body && !is_upgrade).then(|| without_body(&request));
        let is_reused = connection.is_reused;
        let request = match connection.send(request, timeouts.first_byte, &fate).await {
            Ok(answered) => return Ok(answered),
            Err(SendError::Timeout) => return Err(GatewayError::FirstByteTimeout),
            Err(SendError::TlsRefused(alert)) => return Err(GatewayError::TlsRefused(alert)),
            Err(SendError::NotSent(request)) => Some(*request),
            Err(SendError::Refused) => again,
            Err(SendError::BrokenAnswer) => None,
            Err(SendError::Broken) => again.filter(|_| is_reused && is_idempotent),
        };
        let request = request.ok_or(GatewayError::NoAnswer)?;
        let connection = self.connect(ConnectionNeed { is_new: true, ..need }, timeouts, record).await?;
        match connection.send(request, timeouts.first_byte, &fate).await {
            Ok(answered) => Ok(answered),
            Err(SendError::Timeout) => Err(GatewayError::FirstByteTimeout),
            Err(SendError::TlsRefused(alert)) => Err(GatewayError::TlsRefused(alert)),
            Err(SendError::NotSent(_) | SendError::Refused | SendError::Broken | SendError::BrokenAnswer) => {
                Err(GatewayError::NoAnswer)
            }
        }
    }

    /// A connection to some upstream of the group.
    async fn connect(
        &self,
        need: ConnectionNeed,
        timeouts: &GatewayTimeouts,
        record: &mut SendRecord,
    ) -> Result<Connection, GatewayError> {
        let mut tries = ConnectTries::default();
        while let Some(server) = self.next_try(&tries, record) {
            match Connection::get(&server, need, timeouts.connect).await {
                Ok(connection) => return Ok(connection),
                Err(error) => self.failed_try(&mut tries, server, error),
            }
        }
        Err(tries.failure)
    }

    /// Whom to connect to next, if anybody.
    fn next_try(&self, tries: &ConnectTries, record: &mut SendRecord) -> Option<Arc<UpstreamServer>> {
        let server = self.choose(&tries.tried).filter(|_| tries.tried.len() < CONNECT_TRIES_MAX)?;
        record.upstream = Some(Arc::clone(&server));
        Some(server)
    }

    /// It did not take a connection.
    fn failed_try(&self, tries: &mut ConnectTries, server: Arc<UpstreamServer>, error: GatewayError) {
        self.failed(&server);
        tries.tried.push(server);
        tries.failure = error;
    }

    /// The less busy one of two that are chosen at random, so that nobody needs to look at all of
    /// them, and several gateways do not all choose the same. If none is in use, all are.
    fn choose(&self, tried: &[Arc<UpstreamServer>]) -> Option<Arc<UpstreamServer>> {
        if let ([only], []) = (self.servers.as_slice(), tried) {
            return Some(Arc::clone(only));
        }
        let is_left = |server: &&Arc<UpstreamServer>| !tried.iter().any(|other| Arc::ptr_eq(other, server));
        let left: Vec<&Arc<UpstreamServer>> = self.servers.iter().filter(is_left).collect();
        let usable: Vec<_> = left.iter().copied().filter(|server| server.health().is_usable()).collect();
        let among = if usable.is_empty() { left } else { usable };
        let first = fastrand::usize(..among.len().max(1));
        let second = first + 1 + fastrand::usize(..(among.len().saturating_sub(1)).max(1));
        let (first, second) = (among.get(first)?, among.get(second % among.len())?);
        let chosen = if second.in_flight() < first.in_flight() { second } else { first };
        Some(Arc::clone(chosen))
    }

    /// Learns from what became of a request.
    fn observe(&self, server: &UpstreamServer, answered: Result<StatusCode, &GatewayError>) {
        if matches!(answered, Err(GatewayError::NoAnswer)) {
            server.health().said_nothing();
        }
        match answered {
            Ok(status) if !status.is_server_error() => server.health().answered(),
            Ok(_)
            | Err(GatewayError::NoAnswer | GatewayError::FirstByteTimeout | GatewayError::TlsRefused(_)) => {
                self.failed(server);
            }
            // The client's doing, or a connection that was refused, which is noticed at once.
            Err(_) => {}
        }
    }

    /// Learns from how long it took, since the upstream had all of the request.
    fn measure(&self, answered: Result<StatusCode, &GatewayError>, sent: Instant, end: Instant) {
        match answered {
            Ok(status) if status.is_server_error() => self.load.note(None, end),
            Ok(_) => self.load.note(Some(end - sent), end),
            // The client's doing.
            Err(GatewayError::RequestBody | GatewayError::SlowRequestBody) => {}
            Err(_) => self.load.note(None, end),
        }
    }

    /// How loaded its upstreams are.
    pub(crate) fn load(&self, now: Instant) -> Load {
        self.load.load(now, self.servers.iter().any(|server| server.in_flight() > 0))
    }

    /// An upstream that fails again and again is left alone for a while, unless it is the last one.
    fn failed(&self, server: &UpstreamServer) {
        let is_other = |other: &&Arc<UpstreamServer>| other.id() != server.id() && other.health().is_usable();
        let has_other = || self.servers.iter().any(|other| is_other(&other));
        server.health().failed(&self.config.eject, has_other);
    }

    /// Checks the health of all upstreams for ever, if that is wanted.
    pub(crate) fn spawn_checks(&self, tasks: &mut JoinSet<()>) {
        let Some(check) = &self.config.health_check else { return };
        for server in &self.servers {
            tasks.spawn(checks::run(Arc::clone(server), check.clone()));
        }
    }

    /// How each upstream is doing.
    pub(crate) fn status(&self) -> impl Iterator<Item = UpstreamStatus> {
        self.servers.iter().map(|server| server.status())
    }
}
