//! The history in one table: `cargo run --release -p tollgate-bench --bin history`.
//!
//! It wants `redis-server`, and takes about a minute.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints a table")]

use anyhow::{Result, ensure};
use tollgate_bench::history;

fn main() -> Result<()> {
    let table = history::run(|step, so_far| eprintln!("{so_far}\n{step} …"))?;
    print!("{table}");
    ensure!(table.missed() == 0, "{} bounds are missed", table.missed());
    Ok(())
}
