//! Tollgate as a service: thin adapters around one limiter, and their wiring.
//!
//! Bytes come in on a listener, an adapter turns them into a
//! [`tollgate_core::Request`] (`from_wire`), asks the limiter, and turns the
//! reply into bytes (`to_wire`).
//!
//! | module | what it holds |
//! |---|---|
//! | [`settings`] | flags, environment and `tollgate.yaml`, checked |
//! | [`source`] | where rules come from: files that change, xDS |
//! | [`metrics`] | what is counted, and how it is told: Prometheus, StatsD |
//! | [`telemetry`] | logs and traces |
//!
//! Deliberately not here: any decision about limits.

pub mod metrics;
pub mod settings;
pub mod source;
pub mod telemetry;
