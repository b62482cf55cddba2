//! The curve of a series, by outcome.
//!
//! Buckets are aligned to whole steps since the epoch. A name that ends in `*`
//! matches every series that starts with what is before it; no name matches all.
//!
//! Invariant: no curve is a sum over rules, but for that of all decisions.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate_core::Outcome;

use super::filter::{RuleFilter, present};
use super::{HistoryReader, TimeRange};
use crate::bytes::{index, wide};
use crate::counts::OUTCOMES;
use crate::error::{Error, Result};
use crate::label::{Label, SeriesKind};
use crate::row_id::{RowId, SeriesId};

/// The steps to choose from, in seconds.
const STEPS_S: [u64; 15] = [
    60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000,
];

/// Points of a chart.
const POINTS_DEFAULT: u64 = 300;

/// Points of one curve, at most.
const POINTS_MAX: u64 = 11_000;

/// Series times points of any part of a result: some 80 MB.
pub const SAMPLES_MAX: usize = 5_000_000;

/// At the end of a name: any series with that prefix.
const WILDCARD: char = '*';

/// The earlier time to compare a curve with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The same length right before.
    PreviousPeriod,
    /// A week before.
    PreviousWeek,
    /// 364 days before, so that weekdays agree.
    PreviousYear,
}

impl Comparison {
    /// The name in queries.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreviousPeriod => "previous_period",
            Self::PreviousWeek => "previous_week",
            Self::PreviousYear => "previous_year",
        }
    }
}

impl std::str::FromStr for Comparison {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "previous_period" => Ok(Self::PreviousPeriod),
            "previous_week" => Ok(Self::PreviousWeek),
            "previous_year" => Ok(Self::PreviousYear),
            _ => Err(Error::Query {
                what: "compare with previous_period, previous_week or previous_year, not with",
                text: text.into(),
            }),
        }
    }
}

/// A query for curves.
#[derive(Debug, Clone)]
pub struct SeriesQuery {
    /// Which kind of series.
    pub kind: SeriesKind,
    /// Its name, perhaps with a `*` at its end; all if none.
    pub name: Option<String>,
    /// Further names, with curves of their own. All names are exact then.
    pub more_names: Vec<String>,
    /// Of which rules.
    pub filter: RuleFilter,
    /// When.
    pub range: TimeRange,
    /// Seconds from one point to the next; chosen if none.
    pub step_s: Option<u64>,
    /// Points at most, where the step is chosen.
    pub points: u64,
    /// What to compare it with.
    pub compare: Option<Comparison>,
    /// Only these outcomes.
    pub outcomes: Vec<Outcome>,
}

impl SeriesQuery {
    /// All series of a kind, in steps that suit the range.
    pub fn new(kind: SeriesKind, range: TimeRange) -> Self {
        Self {
            kind,
            name: None,
            more_names: Vec::new(),
            filter: RuleFilter::default(),
            range,
            step_s: None,
            points: POINTS_DEFAULT,
            compare: None,
            outcomes: Outcome::ALL.into(),
        }
    }
}

/// The curves of a [`SeriesQuery`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesResult {
    /// The first second of the range.
    pub from: u64,
    /// The second after the last.
    pub to: u64,
    /// Seconds from one point to the next; not finer than what is kept.
    pub step_s: u64,
    /// All curves together.
    pub total: u64,
    /// Whether the last bucket is not complete.
    pub partial_last: bool,
    /// One curve for each rule and outcome that came.
    pub series: Vec<Curve>,
    /// The curves to compare with, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare: Option<ComparedSeries>,
}

/// The same curves of an earlier time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedSeries {
    /// The first second.
    pub from: u64,
    /// The second after the last.
    pub to: u64,
    /// All curves together.
    pub total: u64,
    /// One curve for each rule and outcome that came.
    pub series: Vec<Curve>,
}

/// One curve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Curve {
    /// The series, or what was asked for if it means several.
    pub name: String,
    /// The domain of a rule or a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The rule of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What became of the requests.
    pub outcome: Cow<'static, str>,
    /// The sum of the points.
    pub total: u64,
    /// The first second of each bucket, and its count. Buckets in which no process was
    /// counting are left out.
    pub points: Vec<(u64, u64)>,
}

impl HistoryReader<'_> {
    /// The curve of a series, by outcome.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or hold what this version cannot read.
    pub fn series(&self, query: &SeriesQuery) -> Result<SeriesResult> {
        query.filter.check(query.kind)?;
        let range = self.since_first_count(query.range)?;
        let mut step_s = self.step(query, range)?;
        let earlier = query.compare.map(|compare| match compare {
            Comparison::PreviousPeriod => range.earlier(range.length_s()),
            Comparison::PreviousWeek => range.earlier(7 * 86_400),
            Comparison::PreviousYear => range.earlier(364 * 86_400),
        });
        if let Some(earlier) = earlier {
            // Both curves have the same step, or they could not be compared.
            step_s = step_s.max(self.coarsest_step_s(earlier)?);
        }
        let (total, series) = self.curves(query, range, step_s)?;
        let compare = match earlier {
            None => None,
            Some(range) => {
                let (total, series) = self.curves(query, range, step_s)?;
                Some(ComparedSeries { from: range.from_s, to: range.to_s, total, series })
            }
        };
        let last =
            series.iter().filter_map(|curve| curve.points.last()).map(|(start, _)| start + step_s).max();
        let counted_until = range.to_s.min(self.watermarks.newest_s() + 60);
        let partial_last = last.is_some_and(|end| end > counted_until);
        Ok(SeriesResult { from: range.from_s, to: range.to_s, step_s, total, partial_last, series, compare })
    }

    /// The step that was asked for, or one that suits. It is a multiple of what is kept
    /// of the range.
    fn step(&self, query: &SeriesQuery, range: TimeRange) -> Result<u64> {
        let kept_s = self.coarsest_step_s(range)?;
        let length_s = range.length_s();
        let fits = |step_s: u64, most: u64| length_s.div_ceil(step_s) <= most.clamp(1, POINTS_MAX);
        let wanted = query.step_s.filter(|step_s| *step_s > 0).unwrap_or_else(|| {
            let suits = |step_s: &u64| *step_s >= kept_s && fits(*step_s, query.points);
            let longest = || length_s.div_ceil(query.points.clamp(1, POINTS_MAX)).next_multiple_of(2_592_000);
            STEPS_S.into_iter().find(suits).unwrap_or_else(longest)
        });
        Ok(wanted.max(length_s.div_ceil(POINTS_MAX)).next_multiple_of(kept_s))
    }

    /// The series that a query matches, in groups that have a curve each.
    fn groups(&self, query: &SeriesQuery) -> BTreeMap<CurveName, Vec<SeriesId>> {
        let mut groups = self.groups_of(query, query.name.as_deref());
        for name in &query.more_names {
            groups.append(&mut self.groups_of(query, Some(name)));
        }
        groups
    }

    /// Those of one of its names, or of none.
    fn groups_of(&self, query: &SeriesQuery, name: Option<&str>) -> BTreeMap<CurveName, Vec<SeriesId>> {
        let mut groups: BTreeMap<CurveName, Vec<SeriesId>> = BTreeMap::new();
        if name.is_none() && query.filter.is_empty() {
            let all = CurveName { name: WILDCARD.to_string(), ..CurveName::default() };
            groups.insert(all, vec![SeriesId::total_of(query.kind)]);
            return groups;
        }
        let asked = name.unwrap_or("*");
        let prefix = asked.strip_suffix(WILDCARD).filter(|_| query.more_names.is_empty());
        if query.kind == SeriesKind::Route && prefix.is_none() {
            // The common case, without a look at all names.
            let id = self.series_id(&Label::Route(asked.into())).into_iter().collect();
            groups.insert(CurveName { name: asked.to_owned(), ..CurveName::default() }, id);
            return groups;
        }
        let is_wanted = |name: &str| prefix.map_or(name == asked, |prefix| name.starts_with(prefix));
        // All keys of a rule are what the rule has, with those that have no series.
        let kind = if name.is_none() { SeriesKind::Rule } else { query.kind };
        for (id, label) in self.named(kind) {
            if !is_wanted(label.name()) || !query.filter.takes(label) {
                continue;
            }
            let asked = asked.to_owned();
            let group = match label {
                Label::Rule { domain, name } if query.kind == SeriesKind::Rule => {
                    CurveName { domain: present(domain), rule: None, name: name.to_string() }
                }
                Label::Rule { domain, name: rule } | Label::Key { domain, rule, .. } => {
                    CurveName { domain: present(domain), rule: present(rule), name: asked }
                }
                Label::Route(_) | Label::Requests | Label::Decisions => {
                    CurveName { name: asked, ..CurveName::default() }
                }
            };
            groups.entry(group).or_default().push(id);
        }
        groups
    }

    fn curves(&self, query: &SeriesQuery, range: TimeRange, step_s: u64) -> Result<(u64, Vec<Curve>)> {
        let first_s = range.from_s - range.from_s % step_s;
        let buckets = index((range.to_s - first_s).div_ceil(step_s));
        let groups = self.groups(query);
        let curves_max = groups.len().saturating_mul(OUTCOMES);
        if curves_max.saturating_mul(buckets) > SAMPLES_MAX {
            return Err(Error::TooManySamples { series: curves_max, instants: buckets });
        }
        // Each row with its group. The first row is of no group.
        let mut rows = vec![(RowId::UP, usize::MAX)];
        for (group, ids) in groups.values().enumerate() {
            let each = ids.iter().flat_map(|id| query.outcomes.iter().map(|outcome| id.row(*outcome)));
            rows.extend(each.map(|row| (row, group)));
        }
        rows.sort_unstable();
        rows.dedup();
        let ids: Vec<RowId> = rows.iter().map(|(id, _)| *id).collect();
        let mut sums: Vec<[Vec<u64>; OUTCOMES]> = vec![std::array::from_fn(|_| Vec::new()); groups.len()];
        let mut up = vec![false; buckets];
        self.points(&ids, range, &mut |point| {
            let at = index((point.second.saturating_sub(first_s)) / step_s);
            if let Some(up) = up.get_mut(at) {
                *up = true;
            }
            let Some((id, group)) = rows.get(point.place) else { return Ok(()) };
            let sums = id.outcome().and_then(|outcome| sums.get_mut(*group)?.get_mut(outcome.index()));
            let Some(sums) = sums else { return Ok(()) };
            sums.resize(buckets, 0);
            if let Some(sum) = sums.get_mut(at) {
                *sum = sum.saturating_add(point.count);
            }
            Ok(())
        })?;
        let mut curves = Vec::new();
        for (CurveName { domain, rule, name }, sums) in groups.into_keys().zip(sums) {
            for (outcome, sums) in Outcome::ALL.into_iter().zip(sums) {
                let total = sums.iter().fold(0_u64, |total, sum| total.saturating_add(*sum));
                if total == 0 {
                    continue;
                }
                let starts = (0..buckets).map(|at| first_s + wide(at) * step_s);
                let counted = starts.zip(sums).zip(&up).filter(|(_, up)| **up);
                let points = counted.map(|(point, _)| point).collect();
                let (name, domain, rule) = (name.clone(), domain.clone(), rule.clone());
                curves.push(Curve { name, domain, rule, outcome: outcome.name().into(), total, points });
            }
        }
        let total = curves.iter().fold(0_u64, |total, curve| total.saturating_add(curve.total));
        Ok((total, curves))
    }
}

/// What a curve is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct CurveName {
    domain: Option<String>,
    rule: Option<String>,
    name: String,
}
