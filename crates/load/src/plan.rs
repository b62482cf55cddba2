//! Which server gets which requests, how many and for how long.

use std::net::SocketAddr;
use std::time::Duration;

use crate::protocol::LoadProtocol;
use crate::transport::ConnectOptions;

/// What stands for the key in a value.
pub const KEY: &str = "{key}";

/// Keys at most; a table of a Zipf distribution takes 8 bytes for each.
pub const KEYS_MAX: u32 = 10_000_000;
/// Connections at most; a process may have about so many files open.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Requests in flight on one connection at most; servers allow about so many streams.
pub const IN_FLIGHT_MAX: usize = 1_000;
/// Threads at most; more than cores gain nothing.
pub const THREADS_MAX: usize = 64;

/// Which server gets which requests, how many and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server's address as it was typed.
    pub address: String,
    /// The same, resolved.
    pub target: SocketAddr,
    /// TLS and password.
    pub connect: ConnectOptions,
    /// How many connections.
    pub connections: usize,
    /// How many requests may be in flight on each: streams, or commands in a pipeline.
    pub in_flight: usize,
    /// How many threads send.
    pub threads: usize,
    /// When the next request is sent.
    pub pacing: LoadLoop,
    /// What is sent.
    pub request: LoadRequest,
    /// Which keys, and how often each.
    pub keys: KeySpace,
    /// The time before measuring starts.
    pub warm_up: Duration,
    /// When measuring ends.
    pub length: RunLength,
}

impl Plan {
    /// How requests are sent.
    pub const fn protocol(&self) -> LoadProtocol {
        match self.request {
            LoadRequest::Check(protocol, _) => protocol,
            LoadRequest::Command(_) => LoadProtocol::Resp,
            LoadRequest::Post { .. } | LoadRequest::Get { .. } => LoadProtocol::Http,
        }
    }

    /// The time between two requests on one connection; none in a closed loop.
    pub(crate) fn interval(&self) -> Option<Duration> {
        match self.pacing {
            LoadLoop::Closed => None,
            LoadLoop::Open { per_second } => {
                let all = Duration::from_secs(1) * u32::try_from(self.connections).unwrap_or(u32::MAX);
                Some(all / per_second.max(1))
            }
        }
    }

    /// When the first request of a connection is due, so that connections take turns.
    pub(crate) fn first_due(&self, connection: usize) -> Duration {
        let share = |all: Duration| all * u32::try_from(connection).unwrap_or(0);
        let connections = u32::try_from(self.connections).unwrap_or(1).max(1);
        self.interval().map_or(Duration::ZERO, |interval| share(interval) / connections)
    }
}

/// When the next request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadLoop {
    /// As soon as one is answered.
    Closed,
    /// At fixed times, whether the last one is answered or not.
    Open {
        /// How many a second, on all connections together.
        per_second: u32,
    },
}

/// What is sent; [`KEY`] in a value stands for the key.
#[derive(Debug, Clone)]
pub enum LoadRequest {
    /// A check by Tollgate, in any of its protocols.
    Check(LoadProtocol, DescriptorCheck),
    /// A command over RESP, word by word. Every reply but an error counts as allowed.
    Command(Vec<String>),
    /// A POST of JSON over HTTP/1.1. Every status from 200 to 299 counts as allowed.
    Post {
        /// The path.
        path: String,
        /// The body.
        body: String,
    },
    /// A GET over HTTP/1.1 with a key in a header. Every status from 200 to 299 counts as allowed, and 429 as
    /// denied.
    Get {
        /// The path.
        path: String,
        /// The header, such as `x-key: {key}`.
        header: String,
    },
}

/// A check of one descriptor.
#[derive(Debug, Clone)]
pub struct DescriptorCheck {
    /// The domain.
    pub domain: String,
    /// The entries of the descriptor.
    pub entries: Vec<(String, String)>,
    /// What it costs.
    pub cost: u32,
}

impl DescriptorCheck {
    /// The entries with a key in its place.
    pub(crate) fn entries_with(&self, key: &str) -> Vec<(String, String)> {
        self.entries.iter().map(|(name, value)| (name.clone(), value.replace(KEY, key))).collect()
    }
}

/// Which keys are sent, and how often each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeySpace {
    /// How many there are.
    pub count: u32,
    /// The exponent of a Zipf distribution; none if all come equally often.
    pub zipf: Option<f64>,
    /// Runs with the same seed draw the same keys, in the same order.
    pub seed: u32,
}

/// When measuring ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunLength {
    /// After this time.
    Time(Duration),
    /// After so many answers.
    Count(u64),
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn check() -> DescriptorCheck {
        let entries = vec![("user_id".to_owned(), "u{key}".to_owned())];
        DescriptorCheck { domain: "shop".to_owned(), entries, cost: 1 }
    }

    /// A small plan that nobody carries out.
    pub(crate) fn plan(protocol: LoadProtocol) -> Plan {
        Plan {
            address: "127.0.0.1:1".to_owned(),
            target: SocketAddr::from(([127, 0, 0, 1], 1)),
            connect: ConnectOptions::default(),
            connections: 1,
            in_flight: 1,
            threads: 1,
            pacing: LoadLoop::Closed,
            request: LoadRequest::Check(protocol, check()),
            keys: KeySpace { count: 100, zipf: None, seed: 0 },
            warm_up: Duration::ZERO,
            length: RunLength::Count(1),
        }
    }
}
