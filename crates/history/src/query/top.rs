//! The series with the most, and everything else in one row.
//!
//! "Other" is all requests (or all decisions) less the rows that are shown, so the
//! table adds up whatever names clients make up.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tollgate_core::Outcome;

use super::filter::{RuleFilter, present};
use super::{HistoryReader, TimeRange};
use crate::Map;
use crate::error::{Error, Result};
use crate::label::{Label, SeriesKind};
use crate::row_id::{BLOCK_SERIES, RowId, SeriesId};

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

/// Sums by series, block by block: the rows of a block come together, so that a row costs no search.
#[derive(Default)]
struct SeriesSums {
    blocks: Vec<(u32, [Sums; BLOCK_SERIES])>,
    places: Map<u32, usize>,
    /// The block that the last row was of, and its place.
    last: Option<(u32, usize)>,
}

impl SeriesSums {
    fn add(&mut self, id: RowId, count: u64) {
        let Some(outcome) = id.outcome() else { return };
        let denied = if outcome == Outcome::Denied { count } else { 0 };
        let place = self.place(id.block());
        let series = id.series().index_in_block();
        if let Some(sums) = self.blocks.get_mut(place).and_then(|(_, all)| all.get_mut(series)) {
            add(sums, (count, denied));
        }
    }

    fn place(&mut self, block: u32) -> usize {
        if let Some((last, place)) = self.last
            && last == block
        {
            return place;
        }
        let place = *self.places.entry(block).or_insert_with(|| {
            self.blocks.push((block, [(0, 0); BLOCK_SERIES]));
            self.blocks.len() - 1
        });
        self.last = Some((block, place));
        place
    }

    /// The series that have any.
    fn iter(&self) -> impl Iterator<Item = (SeriesId, Sums)> {
        self.blocks.iter().flat_map(|(block, all)| {
            let first = RowId::first_of_block(*block).series().0;
            (first..).map(SeriesId).zip(all.iter().copied()).filter(|(_, (total, _))| *total > 0)
        })
    }
}

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
        let blocks = self.blocks_of(query);
        let mut by_series = SeriesSums::default();
        self.row_totals(range, &|block| blocks.contains(&block), &mut |id, count| by_series.add(id, count))?;
        // What the rows are a part of: everything, or what the chosen rules have.
        let mut all = (0, 0);
        let mut rows: Vec<(&Label, Sums)> = Vec::new();
        for (id, sums) in by_series.iter() {
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
        let row_count = rows.len();
        let most_first = |one: &(&Label, Sums), other: &(&Label, Sums)| {
            query.order.weight(other.1).cmp(&query.order.weight(one.1)).then_with(|| one.0.cmp(other.0))
        };
        // Eight of ten thousand: only those that are shown are put in order.
        let limit = query.limit.min(ROWS_MAX);
        if limit < row_count {
            rows.select_nth_unstable_by(limit, most_first);
            rows.truncate(limit);
        }
        rows.sort_unstable_by(most_first);
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

    /// The blocks that the answer is in: those with a series of the kind, and those with what the rows
    /// are a part of.
    fn blocks_of(&self, query: &TopQuery) -> BTreeSet<u32> {
        let of =
            |kind| self.named(kind).filter(|(_, label)| query.filter.takes(label)).map(|(id, _)| id.block());
        let mut blocks: BTreeSet<u32> = of(query.kind).collect();
        if query.filter.is_empty() {
            blocks.insert(SeriesId::total_of(query.kind).block());
        } else {
            blocks.extend(of(SeriesKind::Rule));
        }
        blocks
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
