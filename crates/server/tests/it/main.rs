//! The integration tests of the server, in one binary to save link time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by failing"
)]

mod admin;
mod authz;
mod blocked;
mod deferred;
mod documents;
mod gateway;
mod gateway_attacks;
mod health;
mod history;
mod hostile;
mod json;
mod levels;
mod metrics;
mod overrides;
mod parity;
mod resp;
mod rls;
mod shared_store;
mod source;
mod support;
mod tls;
mod told;
mod unix;
mod v1;
