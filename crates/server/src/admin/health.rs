//! `/v1/health` of the admin listener: how the server, its store and its rules are.
//!
//! `/healthcheck` of the HTTP listener says yes or no to load balancers; this says why, to people.
//! What it tells comes from [`crate::health`] and from the store's own counters since the start.
//!
//! Deliberately not here: settings, which `settings` shows.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use tollgate_metrics::{NodeStats, RemoteStats};
use utoipa::ToSchema;

use crate::http::RuleStatusBody;
use crate::http::v1::to_wire;
use crate::service::Service;

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Health)]
pub(super) struct AdminHealthBody<'a> {
    /// The version of the server.
    version: &'static str,
    /// The server's clock, in seconds since 1970.
    now_unix_s: u64,
    /// Whether it wants calls.
    healthy: bool,
    /// It is about to end.
    stopping: bool,
    /// Whether history is kept.
    history: bool,
    /// Where counters live.
    store: StoreBody,
    /// How the rules came to be.
    rules: RuleStatusBody<'a>,
}

/// How the store is doing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoreHealth)]
struct StoreBody {
    /// `memory` or `redis`.
    kind: &'static str,
    /// Whether it answers.
    up: bool,
    /// Keys in the memory of this process.
    keys: usize,
    /// Bytes that they take.
    bytes: usize,
    /// Live keys dropped to stay within the bound, since the start.
    evicted: u64,
    /// About the servers that keep counters, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    remote: Option<RemoteBody>,
}

/// The servers of a shared store, since the start.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RemoteHealth)]
struct RemoteBody {
    /// Some server is given up for a moment: the circuit breaker is open.
    breaker_open: bool,
    /// How often that happened.
    breaker_opened: u64,
    /// Nodes that share the store; 0 if that is not known.
    nodes: u32,
    /// These nodes, or the first hundred of them.
    node_list: Vec<NodeBody>,
    /// Requests decided.
    requests: u64,
    /// Requests of which a limit was decided without the store.
    degraded: u64,
    /// Requests denied from memory, without asking the store.
    denials_remembered: u64,
    /// The mean of all calls, in microseconds.
    mean_us: u64,
    /// How many calls took at most so many microseconds; the last has no bound and counts all.
    round_trips: Vec<(Option<u64>, u64)>,
    /// Calls that failed, by reason.
    failures: Vec<(&'static str, u64)>,
}

/// A node that shares the store.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoreNode)]
struct NodeBody {
    /// The host's name, and what tells it from others on that host.
    name: String,
    /// How long ago its last heartbeat was when this server last asked.
    age_ms: u64,
    /// It is this server.
    this: bool,
}

/// How the server, its store and its rules are.
#[utoipa::path(
    get, path = "/v1/health", tag = "health", operation_id = "health",
    responses((status = 200, description = "How it is.", body = AdminHealthBody<'_>))
)]
pub(super) async fn show(State(service): State<Arc<Service>>) -> Response {
    let state = service.health().state();
    let stats = service.limiter().store().stats();
    let known = service.health().rules();
    to_wire::respond(&AdminHealthBody {
        version: env!("CARGO_PKG_VERSION"),
        now_unix_s: service.now().get() / 1_000_000,
        healthy: state.is_healthy(),
        stopping: state.stopping,
        history: service.history().is_some(),
        store: StoreBody {
            kind: if stats.remote.is_some() { "redis" } else { "memory" },
            up: state.store,
            keys: stats.usage.keys,
            bytes: stats.usage.slot_bytes.saturating_add(stats.usage.log_bytes),
            evicted: stats.usage.evicted,
            remote: stats.remote.map(RemoteBody::from),
        },
        rules: RuleStatusBody::from(&*known),
    })
}

impl From<RemoteStats> for RemoteBody {
    fn from(stats: RemoteStats) -> Self {
        // Each counts those before it, too.
        let calls = stats.round_trips.last().map_or(0, |(_, calls)| *calls);
        let node = |NodeStats { name, age_ms, is_this }| NodeBody { name, age_ms, this: is_this };
        Self {
            breaker_open: stats.is_degraded,
            breaker_opened: stats.opened,
            nodes: stats.nodes,
            node_list: stats.node_list.into_iter().map(node).collect(),
            requests: stats.requests,
            degraded: stats.degraded,
            denials_remembered: stats.denials_remembered,
            mean_us: stats.round_trip_sum_us.checked_div(calls).unwrap_or(0),
            round_trips: stats.round_trips,
            failures: stats.failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_of_all_calls_and_each_call_is_one() {
        let round_trips = vec![(Some(2), 1), (Some(4), 3), (None, 4)];
        let stats = RemoteStats { round_trips, round_trip_sum_us: 40, ..RemoteStats::default() };
        assert_eq!(RemoteBody::from(stats).mean_us, 10);
    }
}
