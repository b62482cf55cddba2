//! What other parts of the process say about themselves whenever the page is rendered.
//!
//! Plain numbers, so that this crate sees neither Redis nor the history; whoever
//! wires the process fills them in, see [`crate::Metrics::watch_store`].

use tollgate_limiter::Usage;

/// How the store of counters is doing.
#[derive(Debug, Clone, Default)]
pub struct StoreStats {
    /// What the memory of this process holds of counters.
    pub usage: Usage,
    /// How the servers are doing that keep counters, if there are any.
    pub remote: Option<RemoteStats>,
}

/// How the servers of a shared store are doing, since the start.
#[derive(Debug, Clone, Default)]
pub struct RemoteStats {
    /// Whether some server is given up at the moment.
    pub is_degraded: bool,
    /// How many nodes share the store; 0 if that is not known.
    pub nodes: u32,
    /// These nodes, or the first hundred of them.
    pub node_list: Vec<NodeStats>,
    /// Requests decided.
    pub requests: u64,
    /// Requests of which at least one limit was decided without the store.
    pub degraded: u64,
    /// Requests denied from memory, without asking the store.
    pub denials_remembered: u64,
    /// Connections made.
    pub connections: u64,
    /// Times that a server was given up for a while.
    pub opened: u64,
    /// Scripts sent again because a server had forgotten them.
    pub script_loads: u64,
    /// Calls followed to another server of a cluster.
    pub redirects: u64,
    /// Charges given back because another server denied.
    pub given_back: u64,
    /// States discarded because they could not be read.
    pub discarded: u64,
    /// Calls that failed, by reason; every reason is there.
    pub failures: Vec<(&'static str, u64)>,
    /// How many calls took at most so many microseconds; the last one has no bound.
    pub round_trips: Vec<(Option<u64>, u64)>,
    /// How long all calls took together.
    pub round_trip_sum_us: u64,
}

/// A node that shares the store.
#[derive(Debug, Clone, Default)]
pub struct NodeStats {
    /// Its name.
    pub name: String,
    /// How long ago its last heartbeat was, in milliseconds.
    pub age_ms: u64,
    /// It is this one.
    pub is_this: bool,
}

/// How an upstream of the gateway is doing.
#[derive(Debug, Clone, Default)]
pub struct UpstreamStats {
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

/// How history is doing.
#[derive(Debug, Clone, Default)]
pub struct HistoryStats {
    /// Whether it can be written and asked.
    pub is_open: bool,
    /// Names that have a series of their own in this process.
    pub tracked: usize,
    /// Flushes that wait to be written.
    pub waiting_flushes: usize,
    /// Flushes written since the start.
    pub written_flushes: u64,
    /// Attempts to write that failed since the start.
    pub failures: u64,
    /// Requests that are missing because they could not be written in time.
    pub lost_requests: u64,
    /// Named series that are kept; none if it is not open.
    pub series: Option<usize>,
    /// The size of its file; none if it has none.
    pub disk_bytes: Option<u64>,
}

/// How requests that are sent later are doing.
#[derive(Debug, Clone, Default)]
pub struct DeferStats {
    /// Requests that wait or are on their way; on Redis those of all nodes.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// What happened to requests in this process since its start, by name.
    pub events: Vec<(&'static str, u64)>,
}
