//! The limiter as its users see it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by failing"
)]

mod batches;
mod clock_ahead;
mod deferring;
mod events;
mod flood;
#[cfg(feature = "tokio")]
mod keyed;
mod lists;
mod load;
mod overrides;
mod penalty;
mod postpaid;
mod prepared;
mod reload;
mod retry;
mod short_way;
mod support;
mod threads;
mod together;
