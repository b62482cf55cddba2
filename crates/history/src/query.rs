//! Queries and their results: curves, top lists, summaries.
//!
//! Last in the flow. A [`HistoryReader`], which is in `store`, reads what a [`crate::History`] keeps, and
//! HTTP and the command line print the results; their field names are a contract
//! (`docs/guide/history.md`).
//!
//! | module | what it holds |
//! |---|---|
//! | `series`, `top`, `summary`, `usage`, `status` | one query each |
//! | `filter` | of which rules |
//! | `export` | results as CSV and NDJSON |
//!
//! Invariants:
//! - Counts are summed and never interpolated. A stored point counts if any part of
//!   it lies in the range, so a curve, a top list and a summary of the same range
//!   agree.
//! - A bucket in which no process was counting is left out; one without traffic is
//!   zero.
//!
//! Deliberately not here: HTTP, colours, terminals.

mod export;
mod filter;
mod series;
mod status;
mod summary;
mod top;
mod usage;

pub use export::{TableCell, Tabular, csv, ndjson};
pub use filter::{KeyName, RuleFilter};
pub use series::{ComparedSeries, Comparison, Curve, SAMPLES_MAX, SeriesQuery, SeriesResult};
pub use status::{HistoryStatus, TierStatus};
pub use summary::Summary;
pub use top::{TopOrder, TopOther, TopQuery, TopResult, TopRow};
pub use usage::{UsageQuery, UsageResult};

pub use crate::store::HistoryReader;
pub use crate::time_text::TimeRange;

#[cfg(test)]
mod tests;
