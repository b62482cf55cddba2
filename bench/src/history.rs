//! The history: how much it takes in, how small it stays, how fast it answers.
//!
//! `cargo run --release -p tollgate-bench --bin history` prints one table, with the bounds of the
//! product beside what was measured. Figures of processor time and of bytes tell the same on any
//! day; times of answers want a quiet machine.
//!
//! | module | what it holds |
//! |---|---|
//! | `traffic` | 10,000 series, as busy as real ones |
//! | `table` | what is measured beside what is promised |
//! | `recording` | the cost of a decision, and of a flush |
//! | `keeping` | full retention in a folder: bytes and answers |
//! | `sparse` | a real log |
//! | `sharing` | the same on Redis |
//!
//! Deliberately not here: whether sums are right; tests show that.

pub mod keeping;
pub mod recording;
pub mod sharing;
pub mod sparse;
pub mod table;
pub mod traffic;

use anyhow::Result;

use table::BoundsTable;

/// Measures everything.
///
/// # Errors
/// If something cannot be measured, such as Redis where there is none.
pub fn run(tell: impl Fn(&str, &BoundsTable)) -> Result<BoundsTable> {
    let mut table = BoundsTable::default();
    tell("recording", &table);
    recording::run(&mut table)?;
    tell("a real log", &table);
    sparse::run(&mut table)?;
    tell("full retention in a folder", &table);
    let rows = keeping::run(&mut table)?;
    tell("the same on Redis", &table);
    sharing::run(&rows, &mut table)?;
    Ok(table)
}
