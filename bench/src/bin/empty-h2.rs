//! A gRPC server on `h2` that always says OK: `cargo run --release -p tollgate-bench --bin empty-h2 ADDRESS`.
//!
//! `cargo xtask bench` starts it.

use anyhow::{Context as _, Result};
use tollgate_bench::compare::empty_servers;

fn main() -> Result<()> {
    empty_servers::h2(&std::env::args().nth(1).context("which address?")?)
}
