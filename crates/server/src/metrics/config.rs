//! How metrics are counted and where they go, as the settings fill it in.
//!
//! Settings make these; [`super::Metrics`] and [`super::statsd`] use them.
//!
//! Deliberately not here: names of environment variables, flags and defaults
//! that depend on them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::mapper::Mapper;

/// So many paths are kept for values that callers send; further ones are
/// folded. Each takes a few hundred bytes, so this is about 4 MB.
pub const PATHS_MAX: usize = 10_000;

/// How metrics are counted and shown.
#[derive(Debug, Clone)]
pub struct Config {
    /// From which share of a limit on a hit is near it (`NEAR_LIMIT_RATIO`).
    pub near_limit_ratio: f32,
    /// How many paths with callers' values are kept; see [`PATHS_MAX`].
    pub paths_max: usize,
    /// How dotted names become Prometheus series (`PROMETHEUS_MAPPER_YAML`).
    pub mapper: Mapper,
}

impl Default for Config {
    fn default() -> Self {
        Self { near_limit_ratio: 0.8, paths_max: PATHS_MAX, mapper: Mapper::default() }
    }
}

/// How a `StatsD` daemon is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// A connection that is opened again when it breaks; the reference's default.
    #[default]
    Tcp,
    /// Datagrams, several lines each.
    Udp,
}

/// What the lines for a daemon look like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Dialect {
    /// `name.__tag=value:1|c`: tags are part of the name.
    #[default]
    Plain,
    /// `name:1|c|#tag:value`: tags of their own, and names rewritten.
    Dog {
        /// The first that matches rewrites a name.
        mogrifiers: Vec<Mogrifier>,
    },
}

/// Rewrites the names that a pattern matches (`DOG_STATSD_MOGRIFIER_…`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mogrifier {
    /// A regular expression, found anywhere in the dotted name.
    pub pattern: String,
    /// The new name; `$1` is the first group.
    pub name: String,
    /// Tags to add; their values may have groups too.
    pub tags: BTreeMap<String, String>,
}

/// Where `StatsD` lines go, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsdConfig {
    /// Name or address of the daemon (`STATSD_HOST`).
    pub host: String,
    /// Its port (`STATSD_PORT`).
    pub port: u16,
    /// How it is reached (`STATSD_PROTOCOL`); `DogStatsD` is always UDP.
    pub protocol: Protocol,
    /// What lines look like (`USE_DOG_STATSD`).
    pub dialect: Dialect,
    /// Tags on everything (`EXTRA_TAGS`).
    pub tags: BTreeMap<String, String>,
    /// How often what has changed is sent (`STATS_FLUSH_INTERVAL`).
    pub flush_interval: Duration,
}

impl Default for StatsdConfig {
    fn default() -> Self {
        Self {
            host: "localhost".to_owned(),
            port: 8125,
            protocol: Protocol::Tcp,
            dialect: Dialect::Plain,
            tags: BTreeMap::new(),
            flush_interval: Duration::from_secs(10),
        }
    }
}
