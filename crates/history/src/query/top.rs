//! The series with the most, and everything else in one row.
//!
//! "Other" is all requests (or all decisions) less the rows that are shown, so the
//! table adds up whatever names clients make up.

use serde::{Deserialize, Serialize};
use tollgate_core::Outcome;

use super::{HistoryReader, TimeRange};
use crate::Map;
use crate::counts::Counts;
use crate::error::{Error, Result};
use crate::label::SeriesKind;
use crate::row_id::SeriesId;

/// Rows of a list, at most.
const ROWS_MAX: usize = 10_000;

/// What a top list is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TopOrder {
    /// By all requests or decisions.
    #[default]
    Total,
    /// By how many of them were denied; series without denials are left out.
    Denied,
}

impl TopOrder {
    /// The name in queries.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Denied => "denied",
        }
    }
}

impl std::str::FromStr for TopOrder {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "total" => Ok(Self::Total),
            "denied" => Ok(Self::Denied),
            _ => Err(Error::Query { what: "the order is total or denied, not", text: text.into() }),
        }
    }
}

/// A query for a top list.
#[derive(Debug, Clone, Copy)]
pub struct TopQuery {
    /// Which kind of series.
    pub kind: SeriesKind,
    /// When.
    pub range: TimeRange,
    /// What comes first.
    pub order: TopOrder,
    /// Rows at most.
    pub limit: usize,
}

impl TopQuery {
    /// The series of a kind with the most, at most so many.
    pub const fn new(kind: SeriesKind, range: TimeRange, limit: usize) -> Self {
        Self { kind, range, order: TopOrder::Total, limit }
    }
}

/// The result of a [`TopQuery`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopResult {
    /// The first second of the range.
    pub from: u64,
    /// The second after the last.
    pub to: u64,
    /// The most first.
    pub rows: Vec<TopRow>,
    /// Everything that is in no row.
    pub other: TopOther,
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
pub struct TopOther {
    /// All requests or decisions that are in no row.
    pub total: u64,
    /// How many of them were denied.
    pub denied: u64,
}

/// All and denied of one series.
type Sums = (u64, u64);

impl HistoryReader<'_> {
    /// The series with the most, and the rest in one row.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or hold what this version cannot read.
    pub fn top(&self, query: &TopQuery) -> Result<TopResult> {
        let total_id = SeriesId::total_of(query.kind);
        let mut all = Counts::default();
        let mut by_id: Map<SeriesId, Sums> = Map::default();
        self.row_totals(query.range, &mut |id, count| {
            let Some(outcome) = id.outcome() else { return };
            if id.series() == total_id {
                return all.add(outcome, count);
            }
            let denied = if outcome == Outcome::Denied { count } else { 0 };
            add(by_id.entry(id.series()).or_default(), (count, denied));
        })?;
        // A key may have series under several rules: they are one row.
        let mut by_name: Map<&str, Sums> = Map::default();
        for (id, sums) in by_id {
            let Some(label) = self.label(id) else { continue };
            if label.kind() == Some(query.kind) {
                add(by_name.entry(label.name()).or_default(), sums);
            }
        }
        let weight = |(total, denied): Sums| match query.order {
            TopOrder::Total => (total, 0),
            TopOrder::Denied => (denied, total),
        };
        let mut sorted: Vec<(&str, Sums)> =
            by_name.into_iter().filter(|(_, sums)| weight(*sums).0 > 0).collect();
        sorted.sort_unstable_by(|one, other| {
            weight(other.1).cmp(&weight(one.1)).then_with(|| one.0.cmp(other.0))
        });
        sorted.truncate(query.limit.min(ROWS_MAX));
        let mut shown = (0, 0);
        sorted.iter().for_each(|(_, sums)| add(&mut shown, *sums));
        let rows = sorted
            .into_iter()
            .map(|(name, (total, denied))| TopRow { name: name.to_owned(), total, denied })
            .collect();
        let other = TopOther {
            total: all.total().saturating_sub(shown.0),
            denied: all.get(Outcome::Denied).saturating_sub(shown.1),
        };
        Ok(TopResult { from: query.range.from_s, to: query.range.to_s, rows, other })
    }

    /// The names of a kind that start with a prefix, sorted, at most so many.
    pub fn names(&self, kind: SeriesKind, prefix: &str, limit: usize) -> Vec<String> {
        let names = self.named(kind).map(|(_, label)| label.name()).filter(|name| name.starts_with(prefix));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(limit);
        names
    }
}

fn add(sums: &mut Sums, (total, denied): Sums) {
    *sums = (sums.0.saturating_add(total), sums.1.saturating_add(denied));
}
