//! The integration tests of the gateway, in one binary: raw sockets on both sides.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by failing"
)]

mod access_log;
mod bodies;
mod charges;
mod client_certificates;
mod connect_timeouts;
mod control;
mod denials;
mod direct;
mod exact_bodies;
mod fields;
mod frames;
mod groups;
mod grpc;
mod hostile;
mod http2;
mod http2_smuggling;
mod routes;
mod shaping;
mod smuggling;
mod support;
mod timeouts;
mod tunnels;
mod upstream_http2;
mod upstreams;
