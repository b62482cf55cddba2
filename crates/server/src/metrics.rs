//! What is counted, and how it is told: Prometheus, `StatsD`, `/stats`.
//!
//! The limiter offers every ruling to [`Metrics`], which only adds to counters.

pub mod config;
pub mod mapper;

pub use config::Config;
pub use mapper::Mapper;
