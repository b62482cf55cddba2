//! A reverse proxy that asks the limiter before it forwards.
//!
//! The server accepts a connection and hands it to [`Gateway::serve`]. A request that is let
//! through goes to the upstream, one that is denied gets a 429 and goes nowhere, and one that is
//! to come later is held. In the order of the flow:
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | what an operator sets; the mapping where none is set |
//! | `connection` | HTTP/1.1 or HTTP/2, and tunnels |
//! | `strict` | lets only requests through that everybody reads alike |
//! | `exchange` | one request from its head to its answer; everything below is called from here |
//! | `target` | which host and path a request is for |
//! | [`route`], `route_table` | which requests a route is for; all routes, in order |
//! | `fields` | which fields go on, which stay, and which are ours |
//! | `forward` | a request → an upstream's answer: which one, connections, retries, timeouts |
//! | `request_body`, `response_body`, `idle_timer` | bodies in both directions, piece by piece |
//! | `error`, `problem` | why there is no answer from the upstream, and what the client is told |
//! | [`bounds`] | every bound on clients and upstreams |
//!
//! Invariants: nothing of a denied or malformed request reaches an upstream. A body is never
//! gathered: it goes on as fast as the slower side takes it. What a client says about itself in
//! `X-Forwarded-…` or `X-Tollgate-…` reaches nobody.
//!
//! Deliberately not here: listening, TLS and the end of a server, which are the server's.

pub mod bounds;
pub mod config;
mod connection;
mod error;
mod exchange;
mod fields;
mod forward;
mod idle_timer;
mod problem;
mod request_body;
mod response_body;
pub mod route;
mod route_table;
mod strict;
mod target;

use std::net::IpAddr;
use std::sync::Arc;

use tollgate_http::{Checker, Mapping};

pub use config::{
    GatewayConfig, GatewayTimeouts, GroupConfig, RouteConfig, UpstreamUrl, UpstreamUrlError, default_mapping,
};
pub use route::RouteConditions;

use route_table::RouteTable;

/// The reverse proxy; all connections share it.
#[derive(Debug)]
pub struct Gateway<C> {
    checker: Arc<C>,
    routes: RouteTable,
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
    pub fn new(config: &GatewayConfig, mapping: &Mapping, checker: Arc<C>) -> Self {
        Self { checker, routes: RouteTable::new(config, mapping) }
    }
}
