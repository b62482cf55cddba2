//! Questions and answers: curves, top lists, summaries.
//!
//! Last in the flow: reads what [`crate::History`] keeps. The answers are what HTTP and
//! the command line print; their field names are a contract (`docs/guide/history.md`).
//!
//! Invariants:
//! - Counts are summed and never interpolated. A stored point counts if any of it
//!   lies in the span asked for; so a curve, a top list and a summary of the same
//!   span agree.
//! - A bucket in which nobody was there to count is left out; one in which nothing
//!   came is zero.
//!
//! Deliberately not here: HTTP, colours, terminals.

mod read;
mod render;
mod series;
mod status;
mod summary;
mod top;

pub use render::{Cell, Rows, csv, ndjson};
pub use series::{Compare, Compared, Curve, SeriesAnswer, SeriesQuestion};
pub use status::{Status, TierStatus};
pub use summary::Summary;
pub use top::{Order, Top, TopQuestion, TopRow, TopSum};

use crate::error::{Error, Result};
use crate::when;

/// The span that a question is about: from a second until before another.
///
/// ```
/// use tollgate_history::query::Span;
/// let span = Span::read(None, None, Some("1h"), 1_800_000_000)?;
/// assert_eq!((span.from_s, span.to_s), (1_799_996_400, 1_800_000_000));
/// # Ok::<(), tollgate_history::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first second.
    pub from_s: u64,
    /// The second after the last.
    pub to_s: u64,
}

/// What a question is about that names no time.
const USUAL_S: u64 = 86_400;

impl Span {
    /// The span of `from` and `to`, or the last so long before `to`; a day if
    /// nothing is said.
    ///
    /// # Errors
    ///
    /// If a text is no time, if both `from` and `last` are given, or if the span
    /// is empty.
    pub fn read(from: Option<&str>, to: Option<&str>, last: Option<&str>, now_s: u64) -> Result<Self> {
        let to_s = to.filter(|text| !text.is_empty()).map_or(Ok(now_s), |text| when::instant(text, now_s))?;
        let from = from.filter(|text| !text.is_empty());
        let from_s = match (from, last) {
            (Some(_), Some(last)) => {
                return Err(Error::Question {
                    what: "give a start or a length, not both",
                    text: last.into(),
                });
            }
            (Some(from), None) => when::instant(from, now_s)?,
            (None, Some(last)) => to_s.saturating_sub(when::span(last)?),
            (None, None) => to_s.saturating_sub(USUAL_S),
        };
        if from_s >= to_s {
            let text = format!("{} to {}", when::rfc3339(from_s), when::rfc3339(to_s));
            return Err(Error::Question { what: "a span must end after it begins", text });
        }
        Ok(Self { from_s, to_s })
    }

    /// How long it is.
    pub const fn length_s(&self) -> u64 {
        self.to_s.saturating_sub(self.from_s)
    }

    /// The same length right before, or so many seconds before.
    const fn earlier(&self, by_s: u64) -> Self {
        Self { from_s: self.from_s.saturating_sub(by_s), to_s: self.to_s.saturating_sub(by_s) }
    }

    /// Whether a stored point of that length has a part in it.
    const fn touches(&self, second: u64, length_s: u64) -> bool {
        second < self.to_s && second + length_s > self.from_s
    }
}

#[cfg(test)]
mod tests;
