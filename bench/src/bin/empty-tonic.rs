//! A gRPC server on `tonic` that always says OK: `cargo run --release -p tollgate-bench --bin empty-tonic ADDRESS`.
//!
//! `cargo xtask bench` starts it.

use anyhow::{Context as _, Result};
use tollgate_bench::compare::empty_servers;

fn main() -> Result<()> {
    empty_servers::tonic(&std::env::args().nth(1).context("which address?")?)
}
