//! How dotted names become Prometheus series.

/// How dotted names become Prometheus series.
#[derive(Debug, Clone, Default)]
pub struct Mapper {}
