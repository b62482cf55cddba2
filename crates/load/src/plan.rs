//! Whom to ask what, how often and for how long.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::door::Door;

/// What stands for the key in a value.
pub const KEY: &str = "{key}";

/// Keys at most; a table of a Zipf distribution takes 8 bytes for each.
pub const KEYS_MAX: u32 = 10_000_000;
/// Connections at most; a process may have about so many files open.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Questions on their way on one connection at most; servers allow about so many streams.
pub const IN_FLIGHT_MAX: usize = 1_000;
/// Threads at most; more than cores gain nothing.
pub const THREADS_MAX: usize = 64;

/// How the server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Envoy's rate limit service.
    Grpc,
    /// `POST /v1/check`.
    Http,
    /// `TOLLGATE.CHECK`.
    Resp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grpc => "gRPC",
            Self::Http => "HTTP",
            Self::Resp => "RESP",
        })
    }
}

/// Whom to ask what, how often and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How the server is asked.
    pub protocol: Protocol,
    /// Where, as it was typed.
    pub address: String,
    /// Where, as it was found.
    pub target: SocketAddr,
    /// What stands before it.
    pub door: Door,
    /// How many connections.
    pub connections: usize,
    /// How many questions may be on their way on each: streams, or commands in a
    /// pipeline.
    pub in_flight: usize,
    /// How many threads ask.
    pub threads: usize,
    /// When the next question is asked.
    pub pace: Pace,
    /// What is asked.
    pub question: Question,
    /// Which keys, and how often each.
    pub keys: Keys,
    /// So long nothing is measured.
    pub warm_up: Duration,
    /// What is measured.
    pub length: Length,
}

impl Plan {
    /// From one question to the next on one connection; none in a closed loop.
    pub(crate) fn interval(&self) -> Option<Duration> {
        match self.pace {
            Pace::Closed => None,
            Pace::Open { per_second } => {
                let all = Duration::from_secs(1) * u32::try_from(self.connections).unwrap_or(u32::MAX);
                Some(all / per_second.max(1))
            }
        }
    }

    /// When the first question of a connection is due, so that connections take turns.
    pub(crate) fn first_due(&self, connection: usize) -> Duration {
        let share = |all: Duration| all * u32::try_from(connection).unwrap_or(0);
        let connections = u32::try_from(self.connections).unwrap_or(1).max(1);
        self.interval().map_or(Duration::ZERO, |interval| share(interval) / connections)
    }
}

/// When the next question is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As soon as one is answered.
    Closed,
    /// So many a second on all connections together, answered or not.
    Open {
        /// How many a second.
        per_second: u32,
    },
}

/// What is asked: one descriptor of a domain.
#[derive(Debug, Clone)]
pub struct Question {
    /// The domain.
    pub domain: String,
    /// Its entries; [`KEY`] in a value stands for the key.
    pub entries: Vec<(String, String)>,
    /// What it costs.
    pub cost: u32,
}

/// Which keys are asked about, and how often each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Keys {
    /// How many there are.
    pub count: u32,
    /// The exponent of a Zipf distribution; none if all come equally often.
    pub zipf: Option<f64>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// For so long.
    Time(Duration),
    /// So many answers.
    Count(u64),
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small plan that nobody carries out.
    pub(crate) fn plan(protocol: Protocol) -> Plan {
        Plan {
            protocol,
            address: "127.0.0.1:1".to_owned(),
            target: SocketAddr::from(([127, 0, 0, 1], 1)),
            door: Door::default(),
            connections: 1,
            in_flight: 1,
            threads: 1,
            pace: Pace::Closed,
            question: Question {
                domain: "shop".to_owned(),
                entries: vec![("user_id".to_owned(), "u{key}".to_owned())],
                cost: 1,
            },
            keys: Keys { count: 100, zipf: None },
            warm_up: Duration::ZERO,
            length: Length::Count(1),
        }
    }
}
