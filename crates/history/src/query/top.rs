//! The series with the most, and everything else in one row.
//!
//! "Other" is all requests (or all decisions) less the rows that are shown, so that
//! the table adds up whatever names were made up.

use serde::{Deserialize, Serialize};

use super::Span;
use crate::Map;
use crate::counts::Counts;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::label::{By, Sid};
use crate::store::History;
use tollgate_core::Outcome;

/// Rows that are ever given.
const ROWS_MAX: usize = 10_000;

/// What a top list is sorted by.
///
/// ```
/// use tollgate_history::query::Order;
/// assert_eq!("denied".parse::<Order>().unwrap(), Order::Denied);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By all requests or decisions.
    #[default]
    Total,
    /// By how many of them were denied; series without any are in no row.
    Denied,
}

impl Order {
    /// The name in questions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Denied => "denied",
        }
    }
}

impl std::str::FromStr for Order {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "total" => Ok(Self::Total),
            "denied" => Ok(Self::Denied),
            _ => Err(Error::Question { what: "the order is total or denied, not", text: text.into() }),
        }
    }
}

/// Asks for a top list.
///
/// ```
/// use tollgate_history::By;
/// use tollgate_history::query::{Span, TopQuestion};
/// let question = TopQuestion { by: By::Route, span: Span { from_s: 0, to_s: 3_600 }, limit: 10 };
/// assert_eq!(question.limit, 10);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TopQuestion {
    /// Which kind of series.
    pub by: By,
    /// When.
    pub span: Span,
    /// Rows at most.
    pub limit: usize,
}

/// A top list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Top {
    /// The first second asked for.
    pub from: u64,
    /// The second after the last.
    pub to: u64,
    /// The most first.
    pub rows: Vec<TopRow>,
    /// Everything that is in no row.
    pub other: TopSum,
}

/// One series of a top list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopRow {
    /// The series.
    pub name: String,
    /// All of its requests or decisions.
    pub total: u64,
    /// How many of them were denied.
    pub denied: u64,
}

/// The rest of a top list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopSum {
    /// All requests or decisions that are in no row.
    pub total: u64,
    /// How many of them were denied.
    pub denied: u64,
}

impl<E: Engine> History<E> {
    /// The series with the most, and the rest.
    ///
    /// ```
    /// use tollgate_history::engine::Memory;
    /// use tollgate_history::query::{Span, TopQuestion};
    /// use tollgate_history::{Bounds, By, History};
    /// let history = History::open(Memory::default(), Bounds::default())?;
    /// let span = Span { from_s: 0, to_s: 86_400 };
    /// let top = history.top(&TopQuestion { by: By::Rule, span, limit: 10 })?;
    /// assert!(top.rows.is_empty());
    /// # Ok::<(), tollgate_history::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the engine cannot be read, or has what this version cannot read.
    pub fn top(&self, question: &TopQuestion) -> Result<Top> {
        self.top_by(question, Order::Total)
    }

    /// The same, sorted by what one likes.
    ///
    /// # Errors
    ///
    /// If the engine cannot be read, or has what this version cannot read.
    pub fn top_by(&self, question: &TopQuestion, order: Order) -> Result<Top> {
        let of_all = match question.by {
            By::Route => Sid::REQUESTS,
            By::Rule | By::Key => Sid::RULINGS,
        };
        let mut all = Counts::default();
        let mut by_sid: Map<Sid, (u64, u64)> = Map::default();
        self.row_totals(question.span, &mut |id, count| {
            let Some(outcome) = id.outcome() else { return };
            if id.sid() == of_all {
                return all.add(outcome, count);
            }
            let sum = by_sid.entry(id.sid()).or_default();
            sum.0 = sum.0.saturating_add(count);
            if outcome == Outcome::Denied {
                sum.1 = sum.1.saturating_add(count);
            }
        })?;
        // A key may have series under several rules: they are one row.
        let mut by_name: Map<&str, (u64, u64)> = Map::default();
        for (sid, (total, denied)) in by_sid {
            let Some(label) = self.catalogue.label(sid) else { continue };
            if label.by() == Some(question.by) {
                let sum = by_name.entry(label.name()).or_default();
                *sum = (sum.0.saturating_add(total), sum.1.saturating_add(denied));
            }
        }
        let weight = |(total, denied): (u64, u64)| match order {
            Order::Total => (total, 0),
            Order::Denied => (denied, total),
        };
        let mut sorted: Vec<(&str, (u64, u64))> =
            by_name.into_iter().filter(|(_, sums)| weight(*sums).0 > 0).collect();
        sorted.sort_unstable_by(|one, other| {
            weight(other.1).cmp(&weight(one.1)).then_with(|| one.0.cmp(other.0))
        });
        sorted.truncate(question.limit.min(ROWS_MAX));
        let shown = sorted.iter().fold((0_u64, 0_u64), |sum, (_, (total, denied))| {
            (sum.0.saturating_add(*total), sum.1.saturating_add(*denied))
        });
        let rows = sorted
            .into_iter()
            .map(|(name, (total, denied))| TopRow { name: name.to_owned(), total, denied })
            .collect();
        let other = TopSum {
            total: all.total().saturating_sub(shown.0),
            denied: all.get(Outcome::Denied).saturating_sub(shown.1),
        };
        Ok(Top { from: question.span.from_s, to: question.span.to_s, rows, other })
    }

    /// The names of a kind that begin so, sorted, at most so many.
    ///
    /// ```
    /// use tollgate_history::engine::Memory;
    /// use tollgate_history::{Bounds, By, History};
    /// let history = History::open(Memory::default(), Bounds::default())?;
    /// assert!(history.names(By::Route, "/", 1_000).is_empty());
    /// # Ok::<(), tollgate_history::Error>(())
    /// ```
    pub fn names(&self, by: By, start: &str, limit: usize) -> Vec<String> {
        let of_kind = self.catalogue.labels().filter(|label| label.by() == Some(by));
        let meant = of_kind.map(|label| label.name()).filter(|name| name.starts_with(start));
        let mut names: Vec<String> = meant.map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(limit);
        names
    }
}
