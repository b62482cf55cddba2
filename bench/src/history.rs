//! The history: how much it takes in, how small it stays, how fast it answers.
//!
//! `cargo run --release -p tollgate-bench --bin history` prints one table, with the bounds of the
//! product beside what was measured. Processor time and bytes are much the same in every run; the
//! latency of queries needs a quiet machine.
//!
//! | module | what it holds |
//! |---|---|
//! | `traffic` | 10,000 series, as busy as real ones |
//! | `table` | what is measured beside what is promised |
//! | `recording` | the cost of a decision, and of a flush |
//! | `embedded` | full retention in a folder: bytes and queries |
//! | `access_log` | a real log |
//! | `shared` | the same on Redis |
//!
//! Deliberately not here: whether sums are right; tests show that.

pub mod access_log;
pub mod embedded;
pub mod recording;
pub mod shared;
pub mod table;
pub mod traffic;

use anyhow::Result;

use table::BoundsTable;

/// Measures everything.
///
/// # Errors
/// If something cannot be measured, such as Redis where there is none.
pub fn run(report: impl Fn(&str, &BoundsTable)) -> Result<BoundsTable> {
    let mut table = BoundsTable::default();
    report("recording", &table);
    recording::run(&mut table)?;
    report("a real log", &table);
    access_log::run(&mut table)?;
    report("full retention in a folder", &table);
    let rows = embedded::run(&mut table)?;
    report("the same on Redis", &table);
    shared::run(&rows, &mut table)?;
    Ok(table)
}
