//! The history in one table: `cargo run --release -p tollgate-bench --bin history [ACCESS.LOG]`.
//!
//! The log is NASA's of 1 August 1995 (Internet Traffic Archive), which stands beside the project
//! where it is developed. It wants `redis-server`, and takes about a minute.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints a table")]

use std::path::PathBuf;

use anyhow::{Result, ensure};
use tollgate_bench::history;

fn main() -> Result<()> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/nasa_http_1995-08-01.log");
    let log = std::env::args_os().nth(1).map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let table = history::run(&log, |step, so_far| eprintln!("{so_far}\n{step} …"))?;
    print!("{table}");
    ensure!(table.missed() == 0, "{} bounds are missed", table.missed());
    Ok(())
}
