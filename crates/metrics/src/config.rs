//! How metrics are counted, shown and sent; settings fill it in.

use std::time::Duration;

use crate::mapper::Mapper;

/// So many paths are kept for values that callers send; further ones are
/// folded. Each takes about 400 bytes, so this is about 4 MB.
pub const PATHS_MAX: usize = 10_000;

/// How metrics are counted and shown.
#[derive(Debug, Clone)]
pub struct MetricsConfig {
    /// From which share of a limit on a hit is near it (`NEAR_LIMIT_RATIO`).
    pub near_limit_ratio: f32,
    /// How many paths with callers' values are kept; see [`PATHS_MAX`].
    pub paths_max: usize,
    /// How dotted names become Prometheus series (`PROMETHEUS_MAPPER_YAML`).
    pub mapper: Mapper,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { near_limit_ratio: 0.8, paths_max: PATHS_MAX, mapper: Mapper::default() }
    }
}

/// Where counters are sent, how often, and what lines look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsdConfig {
    /// The daemon's host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How lines travel.
    pub protocol: StatsdProtocol,
    /// How lines look.
    pub dialect: StatsdDialect,
    /// Tags on every line.
    pub tags: Vec<(String, String)>,
    /// How often counters are sent.
    pub flush_interval: Duration,
}

/// How StatsD lines travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsdProtocol {
    /// A connection.
    Tcp,
    /// Datagrams.
    Udp,
}

/// How StatsD lines look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatsdDialect {
    /// Tags are part of the name.
    Plain,
    /// Tags stand apart, and names are rewritten by the first of these that matches.
    Dog(Vec<Mogrifier>),
}

/// A rewriting of metric names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mogrifier {
    /// A regular expression on the whole name.
    pub pattern: String,
    /// The new name, with `$1` for the first group.
    pub name: String,
    /// Tags to add, with groups too.
    pub tags: Vec<(String, String)>,
}
