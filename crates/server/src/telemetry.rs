//! Logs and traces.
//!
//! [`config`] says how they look and where they go.

pub mod config;

pub use config::{Format, Level, LogConfig, TraceConfig, TraceProtocol};
