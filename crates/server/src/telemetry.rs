//! Logs and traces.
//!
//! Settings say how they look and where they go: [`tollgate_settings::Log`],
//! [`tollgate_settings::Tracing`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`log`] | lines on stderr, for people or as JSON |
//! | [`trace`] | spans for a collector, by OTLP |
//! | `parent` | whose child a call is, from its headers |
//!
//! Deliberately not here: what is counted; that is [`tollgate_metrics`].

pub mod log;
mod parent;
pub mod trace;

pub use trace::{CallSpan, TraceError, Tracer};
