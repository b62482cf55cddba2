//! A day of made-up keys in minutes: `cargo xtask soak`, or `cargo xtask soak-long`.
//!
//! By hand: `cargo run -p tollgate-bench --bin soak -- SECONDS`, after `cargo build` of the same profile.
#![expect(clippy::print_stdout, reason = "it prints a table")]

use anyhow::{Context as _, Result};
use tollgate_bench::soak;

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(20), |text| text.parse()).context("how many seconds?")?;
    println!("{:>8} {:>12} {:>14} {:>10}", "s", "calls", "decisions", "RSS KB");
    let outcome = soak::run(seconds, |sample| println!("{sample}"))?;
    println!("the store holds {} keys in {} KB", outcome.keys, outcome.store_bytes / 1024);
    println!(
        "RSS of the last third is at most {} KB above that of the second",
        soak::growth_kb(&outcome.samples)
    );
    soak::judge(&outcome)
}
