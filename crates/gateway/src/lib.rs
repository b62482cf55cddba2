//! A reverse proxy that asks the limiter before it forwards.
//!
//! The server accepts a connection and hands it to [`Gateway::serve`]. A request that is let
//! through goes to the upstream, one that is denied gets a 429 and goes nowhere, and one that is
//! to come later is held. In the order of the flow:
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | what an operator sets; the mapping where none is set |
//! | `connection`, `connection_context` | HTTP/1.1 or HTTP/2, and tunnels; what its requests share |
//! | `strict` | lets only requests through that everybody reads alike |
//! | `direct` | the short way of most requests over HTTP/1.1, without hyper |
//! | `exchange` | one request from its head to its answer; everything below is called from here |
//! | `target` | which host and path a request is for |
//! | [`route`], `route_table` | which requests a route is for; all routes, in order |
//! | `fields` | which fields go on, which stay, and which are ours |
//! | `deferral`, [`deferred_wire`] | a request that is denied now and sent later: takes it in, and tells what became of it |
//! | [`deferred_send`] | sends it |
//! | `forward` | a request → an upstream's answer: which one, connections, retries, timeouts |
//! | `request_body`, `response_body`, `timed_body` | bodies in both directions, piece by piece |
//! | `answer_watch` | ends answers that a client does not take |
//! | [`access_log`] | a line for every request |
//! | [`wake_note`] | asks timers and signals once, and again only when they have something to say |
//! | `error`, `problem` | why there is no answer from the upstream, and what the client is told |
//! | [`bounds`] | every bound on clients and upstreams |
//!
//! Invariants: nothing of a denied or malformed request reaches an upstream. A body is never
//! gathered, unless it is to be sent later: it goes on as fast as the slower side takes it. What a client says about itself in
//! `X-Forwarded-…` or `X-Tollgate-…` reaches nobody.
//!
//! Deliberately not here: listening, TLS and the end of a server, which are the server's.

pub mod access_log;
mod answer_watch;
pub mod bounds;
pub mod config;
mod connection;
mod connection_context;
mod deferral;
pub mod deferred_send;
pub mod deferred_wire;
mod direct;
mod error;
mod exchange;
mod fields;
mod forward;
mod problem;
mod request_body;
mod response_body;
pub mod route;
mod route_table;
mod strict;
mod target;
mod timed_body;
pub mod wake_note;

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_defer::DeferService;
use tollgate_http::{AdmissionControl, Checker, Mapping};
use tollgate_limiter::Load;

pub use access_log::{AccessLog, AccessLogConfig, AccessLogFormat};
pub use config::{
    EjectPolicy, GatewayConfig, GatewayTimeouts, GroupConfig, HealthCheck, RouteConfig, UpstreamTls,
    UpstreamUrl, UpstreamUrlError, default_mapping,
};
pub use deferral::DeferredParts;
pub use deferred_send::DeferredAttempt;
pub use forward::{UpstreamStatus, UpstreamTlsError};
pub use route::RouteConditions;

use forward::UpstreamGroup;
use route_table::RouteTable;

/// The reverse proxy; all connections share it.
#[derive(Debug)]
pub struct Gateway<C> {
    checker: Arc<C>,
    /// Has the lines that requests wait in, which outlive a reload.
    admission: AdmissionControl,
    routes: ArcSwap<RouteTable>,
    /// Tells whoever checks upstreams that there are others.
    reloaded: watch::Sender<()>,
    access_log: Option<Arc<AccessLog>>,
    /// Takes requests that are sent later; none if nothing can.
    deferring: Option<Arc<DeferService>>,
}

/// How loaded the upstreams of a group are.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupLoad {
    /// The group.
    pub group: String,
    /// The domain that its requests are counted in.
    pub domain: String,
    /// What it is.
    pub load: Load,
}

/// What is known about a connection before its first byte.
#[derive(Debug, Clone, Copy)]
pub struct ClientSocket {
    /// The client's or a proxy's address; none on a Unix socket.
    pub peer: Option<IpAddr>,
    /// Whether it came through TLS.
    pub is_tls: bool,
}

impl<C: Checker> Gateway<C> {
    /// A gateway that asks `checker` about what `mapping` makes of a request, unless its route has
    /// a mapping of its own.
    ///
    /// # Errors
    /// If TLS towards an upstream cannot be set up.
    pub fn new(config: &GatewayConfig, mapping: &Mapping, checker: Arc<C>) -> Result<Self, UpstreamTlsError> {
        let admission = AdmissionControl::new(mapping.clone(), config.max_wait);
        let routes = ArcSwap::from_pointee(RouteTable::new(config, &admission, None)?);
        let reloaded = watch::Sender::new(());
        Ok(Self { checker, admission, routes, reloaded, access_log: None, deferring: None })
    }

    /// Uses other routes from the next request on; requests that have theirs go on with it. What is
    /// known about upstreams that stay is kept, and so are their connections.
    ///
    /// # Errors
    /// If TLS towards an upstream cannot be set up; the routes in force stay.
    pub fn reload(&self, config: &GatewayConfig, mapping: &Mapping) -> Result<(), UpstreamTlsError> {
        let admission = self.admission.clone().with_mapping(mapping.clone()).with_max_wait(config.max_wait);
        let table = RouteTable::new(config, &admission, Some(&self.routes.load()))?;
        // Not before all files of all groups are right.
        table.groups().for_each(UpstreamGroup::use_tls);
        self.routes.store(Arc::new(table));
        self.reloaded.send_replace(());
        Ok(())
    }

    /// Checks the health of upstreams, for as long as this is polled.
    pub async fn check_upstreams(&self) {
        let mut reloaded = self.reloaded.subscribe();
        loop {
            // All of them end with the set.
            let mut checks = JoinSet::new();
            for group in self.routes.load().groups() {
                group.spawn_checks(&mut checks);
            }
            if reloaded.changed().await.is_err() {
                return;
            }
        }
    }

    /// How every upstream is doing.
    pub fn upstreams(&self) -> Vec<UpstreamStatus> {
        self.routes.load().groups().flat_map(UpstreamGroup::status).collect()
    }

    /// How loaded the upstreams of each group are, for each domain that requests to it are counted
    /// in: by how long they take to answer, and whether they do.
    pub fn loads(&self) -> Vec<GroupLoad> {
        let (routes, now) = (self.routes.load(), Instant::now());
        let load = |(domain, group): (&str, &UpstreamGroup)| GroupLoad {
            group: group.config().name.clone(),
            domain: domain.to_owned(),
            load: group.load(now),
        };
        routes.groups_by_domain().into_iter().map(load).collect()
    }

    /// The same, handing requests that are sent later to `service`.
    #[must_use]
    pub fn with_deferring(mut self, service: Option<Arc<DeferService>>) -> Self {
        self.deferring = service;
        self
    }

    /// The same, telling `log` of every request.
    #[must_use]
    pub fn with_access_log(mut self, log: Option<Arc<AccessLog>>) -> Self {
        self.access_log = log;
        self
    }
}
