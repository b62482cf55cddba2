//! The client with real servers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by failing"
)]

mod connections;
mod messages;
mod outgoing;
mod server_restarts;
mod support;
mod tollgate;
