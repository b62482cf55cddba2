//! One upstream: where it is, how busy it is, and how it is doing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use http::HeaderValue;
use http::header::HOST;
use hyper::Request;

use super::connect::Endpoint;
use super::health::ServerHealth;
use super::tls::TlsClient;
use crate::config::{GroupConfig, UpstreamProtocol, UpstreamUrl};
use crate::request_body::RequestBody;

/// Tells the pools of all upstreams in a process apart.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

const NEGOTIATED_HTTP1: u8 = 1;
const NEGOTIATED_HTTP2: u8 = 2;

/// One upstream.
#[derive(Debug)]
pub(crate) struct UpstreamServer {
    id: u64,
    group: String,
    endpoint: Endpoint,
    /// What requests name as their host: the group's, or else what the client named, or else this.
    host: HeaderValue,
    is_host_set: bool,
    /// What TLS has settled on last; see [`UpstreamServer::protocol`].
    negotiated: AtomicU8,
    in_flight: AtomicUsize,
    requests: AtomicU64,
    health: ServerHealth,
}

/// How an upstream is doing, for metrics.
#[derive(Debug, Clone)]
pub struct UpstreamStatus {
    /// The group that it belongs to.
    pub group: String,
    /// Its URL.
    pub upstream: String,
    /// Whether it gets requests.
    pub is_up: bool,
    /// Requests that it has at the moment.
    pub in_flight: usize,
    /// Requests sent to it, since the start.
    pub requests: u64,
    /// Connections that it refused, requests that it did not answer in time or with a 5xx.
    pub failures: u64,
    /// Times that it was left alone for a while.
    pub ejections: u64,
}

impl UpstreamServer {
    pub(super) fn new(url: &UpstreamUrl, group: &GroupConfig, tls: Option<Arc<TlsClient>>) -> Self {
        let own = HeaderValue::from_str(url.authority().as_str());
        let own = own.unwrap_or_else(|_| HeaderValue::from_static("upstream"));
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            group: group.name.clone(),
            endpoint: Endpoint { url: url.clone(), tls: tls.filter(|_| url.is_tls()).map(ArcSwap::new) },
            host: group.host.clone().unwrap_or(own),
            is_host_set: group.host.is_some(),
            negotiated: AtomicU8::new(0),
            in_flight: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            health: ServerHealth::new(&group.name, url),
        }
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    pub(super) const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// New connections are made like this.
    pub(super) fn use_tls(&self, tls: &Arc<TlsClient>) {
        if let Some(own) = &self.endpoint.tls {
            own.store(Arc::clone(tls));
        }
    }

    /// Where it is.
    pub(crate) const fn url(&self) -> &UpstreamUrl {
        &self.endpoint.url
    }

    pub(super) const fn health(&self) -> &ServerHealth {
        &self.health
    }

    /// How many requests it has, of all threads.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(super) fn status(&self) -> UpstreamStatus {
        UpstreamStatus {
            group: self.group.clone(),
            upstream: self.url().to_string(),
            is_up: self.health.is_usable(),
            in_flight: self.in_flight(),
            requests: self.requests.load(Ordering::Relaxed),
            failures: self.health.failures_total.load(Ordering::Relaxed),
            ejections: self.health.ejections_total.load(Ordering::Relaxed),
        }
    }

    /// Counts a request until the guard is dropped.
    pub(super) fn begin(self: Arc<Self>) -> LoadGuard {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        LoadGuard(self)
    }

    /// The host that requests name instead of the client's, if that is set.
    pub(crate) fn own_host(&self) -> Option<&HeaderValue> {
        Some(&self.host).filter(|_| self.is_host_set)
    }

    /// The host that a request is sent with.
    pub(super) fn set_host(&self, request: &mut Request<RequestBody>) {
        // A client of HTTP/1.0 may name none.
        if self.is_host_set || !request.headers().contains_key(HOST) {
            request.headers_mut().insert(HOST, self.host.clone());
        }
    }

    /// What it speaks, if that is known: TLS settles it with the first connection.
    pub(super) fn protocol(&self) -> Option<UpstreamProtocol> {
        match (self.url().protocol(), self.negotiated.load(Ordering::Relaxed)) {
            (Some(protocol), _) => Some(protocol),
            (None, NEGOTIATED_HTTP1) => Some(UpstreamProtocol::Http1),
            (None, NEGOTIATED_HTTP2) => Some(UpstreamProtocol::Http2),
            (None, _) => None,
        }
    }

    /// What TLS has settled on.
    pub(super) fn negotiated(&self, protocol: UpstreamProtocol) {
        let negotiated = match protocol {
            UpstreamProtocol::Http1 => NEGOTIATED_HTTP1,
            UpstreamProtocol::Http2 => NEGOTIATED_HTTP2,
        };
        self.negotiated.store(negotiated, Ordering::Relaxed);
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
