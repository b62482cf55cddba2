//! Logs and traces.
//!
//! Settings say how they look and where they go: [`tollgate_settings::LogSettings`],
//! [`tollgate_settings::TracingSettings`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`log`] | lines on stderr, for people or as JSON |
//! | [`trace`] | spans for a collector, by OTLP |
//! | `propagation` | the parent span of a call, from its headers |
//!
//! Deliberately not here: counters; see [`tollgate_metrics`].

pub mod log;
mod propagation;
pub mod trace;

pub use trace::{CallSpan, SHOULD_RATE_LIMIT, TraceError, Tracer};
