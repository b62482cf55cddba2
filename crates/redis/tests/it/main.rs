//! The shared store, held to the promises of the others.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::print_stdout,
    reason = "a test that cannot go on says so by failing"
)]

mod batch_calls;
mod charge_sets;
mod clock_steps;
mod conformance;
mod deferred;
mod envoy;
mod exact;
mod load;
mod local_share;
mod lua;
mod memory;
mod multi_slot;
mod other_servers;
mod outage;
mod outage_log;
mod proxy;
mod server_errors;
mod shared_load;
mod slots;
mod support;
mod tls;
