//! Queries and their results: curves, top lists, summaries.
//!
//! Last in the flow. A [`HistoryReader`] reads what a [`crate::History`] keeps, and
//! HTTP and the command line print the results; their field names are a contract
//! (`docs/guide/history.md`).
//!
//! | module | what it holds |
//! |---|---|
//! | `reader` | [`HistoryReader`]: stored points of a time range |
//! | `series`, `top`, `summary`, `status` | one query each |
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
mod reader;
mod series;
mod status;
mod summary;
mod top;

pub use export::{TableCell, Tabular, csv, ndjson};
pub use reader::HistoryReader;
pub use series::{ComparedSeries, Comparison, Curve, SeriesQuery, SeriesResult};
pub use status::{HistoryStatus, TierStatus};
pub use summary::Summary;
pub use top::{TopOrder, TopOther, TopQuery, TopResult, TopRow};

use crate::error::{Error, Result};
use crate::time_text;

/// The time that a query is about: from a second until before another.
///
/// ```
/// use tollgate_history::query::TimeRange;
/// let range = TimeRange::parse(None, None, Some("1h"), 1_800_000_000)?;
/// assert_eq!((range.from_s, range.to_s), (1_799_996_400, 1_800_000_000));
/// # Ok::<(), tollgate_history::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// The first second.
    pub from_s: u64,
    /// The second after the last.
    pub to_s: u64,
}

/// The range of a query that names no time.
const DEFAULT_S: u64 = 86_400;

impl TimeRange {
    /// From `from`, or `last` before `to`, until `to`; the last day by default.
    ///
    /// # Errors
    ///
    /// If a text is not a time, both `from` and `last` are given, or the range is
    /// empty.
    pub fn parse(from: Option<&str>, to: Option<&str>, last: Option<&str>, now_s: u64) -> Result<Self> {
        let to_s =
            to.filter(|text| !text.is_empty()).map_or(Ok(now_s), |text| time_text::instant(text, now_s))?;
        let from = from.filter(|text| !text.is_empty());
        let from_s = match (from, last) {
            (Some(_), Some(last)) => {
                return Err(Error::Query { what: "give a start or a length, not both", text: last.into() });
            }
            (Some(from), None) => time_text::instant(from, now_s)?,
            (None, Some(last)) => to_s.saturating_sub(time_text::duration(last)?),
            (None, None) => to_s.saturating_sub(DEFAULT_S),
        };
        if from_s >= to_s {
            let text = format!("{} to {}", time_text::rfc3339(from_s), time_text::rfc3339(to_s));
            return Err(Error::Query { what: "a span must end after it begins", text });
        }
        Ok(Self { from_s, to_s })
    }

    /// How long it is.
    pub const fn length_s(&self) -> u64 {
        self.to_s.saturating_sub(self.from_s)
    }

    /// The same range so many seconds earlier.
    const fn earlier(&self, by_s: u64) -> Self {
        Self { from_s: self.from_s.saturating_sub(by_s), to_s: self.to_s.saturating_sub(by_s) }
    }

    /// Whether a stored point of that length overlaps it.
    const fn touches(&self, second: u64, length_s: u64) -> bool {
        second < self.to_s && second + length_s > self.from_s
    }
}

#[cfg(test)]
mod tests;
