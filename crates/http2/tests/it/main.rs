//! The crate beside others that read and write the same bytes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by failing"
)]

mod client;
mod hpack;
mod random;
mod server;
