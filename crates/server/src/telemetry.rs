//! Logs and traces.
//!
//! Settings say how they look and where they go: [`crate::settings::Log`],
//! [`crate::settings::Tracing`].
