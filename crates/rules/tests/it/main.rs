//! Rule files as their users see them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by failing"
)]

mod lists;
mod rule_files;
mod schema;
