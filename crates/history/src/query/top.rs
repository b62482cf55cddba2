//! The series with the most, and everything else in one row.
//!
//! "Other" is all requests (or all decisions) less the rows that are shown, so the
//! table adds up whatever names clients make up.

use serde::{Deserialize, Serialize};
use tollgate_core::Outcome;

use super::filter::{RuleFilter, present};
use super::{HistoryReader, TimeRange};
use crate::Map;
use crate::error::{Error, Result};
use crate::label::{Label, SeriesKind};
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

    /// What is compared.
    const fn weight(self, (total, denied): Sums) -> Sums {
        match self {
            Self::Total => (total, 0),
            Self::Denied => (denied, total),
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
#[derive(Debug, Clone)]
pub struct TopQuery {
    /// Which kind of series.
    pub kind: SeriesKind,
    /// Of which rules.
    pub filter: RuleFilter,
    /// When.
    pub range: TimeRange,
    /// What comes first.
    pub order: TopOrder,
    /// Rows at most.
    pub limit: usize,
}

impl TopQuery {
    /// The series of a kind with the most, at most so many.
    pub fn new(kind: SeriesKind, range: TimeRange, limit: usize) -> Self {
        Self { kind, filter: RuleFilter::default(), range, order: TopOrder::Total, limit }
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
    /// How many rows there are without a limit.
    #[serde(default)]
    pub row_count: usize,
}

/// One series of a top list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopRow {
    /// The series.
    pub name: String,
    /// The domain of a rule or a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The rule of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
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
        query.filter.check(query.kind)?;
        let total_id = SeriesId::total_of(query.kind);
        let range = self.since_first_count(query.range)?;
        let mut by_id: Map<SeriesId, Sums> = Map::default();
        self.row_totals(range, &mut |id, count| {
            let Some(outcome) = id.outcome() else { return };
            let denied = if outcome == Outcome::Denied { count } else { 0 };
            add(by_id.entry(id.series()).or_default(), (count, denied));
        })?;
        // What the rows are a part of: everything, or what the chosen rules have.
        let mut all = (0, 0);
        let mut rows: Vec<(&Label, Sums)> = Vec::new();
        for (id, sums) in by_id {
            let Some(label) = self.label(id) else { continue };
            let is_chosen = label.kind() == Some(SeriesKind::Rule) && query.filter.takes(label);
            if if query.filter.is_empty() { id == total_id } else { is_chosen } {
                add(&mut all, sums);
            }
            if label.kind() == Some(query.kind) && query.filter.takes(label) && query.order.weight(sums).0 > 0
            {
                rows.push((label, sums));
            }
        }
        rows.sort_unstable_by(|one, other| {
            query.order.weight(other.1).cmp(&query.order.weight(one.1)).then_with(|| one.0.cmp(other.0))
        });
        let row_count = rows.len();
        rows.truncate(query.limit.min(ROWS_MAX));
        let mut shown = (0, 0);
        rows.iter().for_each(|(_, sums)| add(&mut shown, *sums));
        let row = |(label, (total, denied)): (&Label, Sums)| TopRow {
            name: label.name().to_owned(),
            domain: present(label.domain()),
            rule: present(label.rule()),
            total,
            denied,
        };
        let rows = rows.into_iter().map(row).collect();
        let other = TopOther { total: all.0.saturating_sub(shown.0), denied: all.1.saturating_sub(shown.1) };
        Ok(TopResult { from: range.from_s, to: range.to_s, rows, other, row_count })
    }

    /// The names of a kind that start with a prefix, sorted, at most so many.
    pub fn names(&self, kind: SeriesKind, prefix: &str, limit: usize) -> Vec<String> {
        self.texts(kind, limit, |label| Some(label.name()).filter(|name| name.starts_with(prefix)))
    }

    /// What `text` makes of the labels of a kind, sorted, each once, at most so many.
    pub(crate) fn texts<'a>(
        &'a self,
        kind: SeriesKind,
        limit: usize,
        text: impl Fn(&'a Label) -> Option<&'a str>,
    ) -> Vec<String> {
        let texts = self.named(kind).filter_map(|(_, label)| text(label));
        let mut names: Vec<String> = texts.map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(limit);
        names
    }
}

fn add(sums: &mut Sums, (total, denied): Sums) {
    *sums = (sums.0.saturating_add(total), sums.1.saturating_add(denied));
}
