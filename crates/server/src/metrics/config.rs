//! How metrics are counted and shown.
//!
//! Filled from [`crate::settings`]; where they go besides is said there.

use super::mapper::Mapper;

/// So many paths are kept for values that callers send; further ones are
/// folded. Each takes about 400 bytes, so this is about 4 MB.
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
