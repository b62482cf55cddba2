//! The curve of a series, by verdict.
//!
//! Buckets are aligned to whole steps since the epoch. A name that ends in `*`
//! means every series whose name begins so; no name means everything.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Span;
use crate::codec::bytes::{index, wide};
use crate::counts::OUTCOMES;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::label::{By, Label, RowId, Sid};
use crate::store::History;
use tollgate_core::Outcome;

/// The steps that are chosen from, in seconds.
const STEPS_S: [u64; 8] = [60, 300, 900, 3_600, 21_600, 86_400, 604_800, 2_592_000];

/// Points that a chart can show.
const POINTS_USUAL: u64 = 300;

/// Points that are ever given for one curve.
const POINTS_MAX: u64 = 11_000;

/// At the end of a name: every series whose name begins so.
const PATTERN: char = '*';

/// What to set beside a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// The same length right before.
    PreviousPeriod,
    /// A week before.
    PreviousWeek,
    /// 364 days before, so that weekdays agree.
    PreviousYear,
}

impl Compare {
    /// The name in questions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreviousPeriod => "previous_period",
            Self::PreviousWeek => "previous_week",
            Self::PreviousYear => "previous_year",
        }
    }
}

impl std::str::FromStr for Compare {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "previous_period" => Ok(Self::PreviousPeriod),
            "previous_week" => Ok(Self::PreviousWeek),
            "previous_year" => Ok(Self::PreviousYear),
            _ => Err(Error::Question {
                what: "compare with previous_period, previous_week or previous_year, not with",
                text: text.into(),
            }),
        }
    }
}

/// Asks for curves.
///
/// ```
/// use tollgate_history::By;
/// use tollgate_history::query::{SeriesQuestion, Span};
/// let span = Span { from_s: 0, to_s: 3_600 };
/// let question = SeriesQuestion { name: Some("/cart".into()), ..SeriesQuestion::new(By::Route, span) };
/// assert_eq!(question.points, 300);
/// ```
#[derive(Debug, Clone)]
pub struct SeriesQuestion {
    /// Which kind of series.
    pub by: By,
    /// Its name, perhaps with `*` at its end; everything if none.
    pub name: Option<String>,
    /// When.
    pub span: Span,
    /// Seconds from one point to the next; chosen if none.
    pub step_s: Option<u64>,
    /// Points at most, where the step is chosen.
    pub points: u64,
    /// What to set beside it.
    pub compare: Option<Compare>,
}

impl SeriesQuestion {
    /// Everything of a kind in a span, in steps that suit it.
    pub const fn new(by: By, span: Span) -> Self {
        Self { by, name: None, span, step_s: None, points: POINTS_USUAL, compare: None }
    }
}

/// Curves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesAnswer {
    /// The first second asked for.
    pub from: u64,
    /// The second after the last.
    pub to: u64,
    /// Seconds from one point to the next; at least what is kept of that time.
    pub step_s: u64,
    /// All curves together.
    pub total: u64,
    /// Whether the last bucket was not over when it was counted or asked for.
    pub partial_last: bool,
    /// One curve for each verdict that came.
    pub series: Vec<Curve>,
    /// The same of an earlier time, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare: Option<Compared>,
}

/// The same curves of an earlier time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// The first second.
    pub from: u64,
    /// The second after the last.
    pub to: u64,
    /// All curves together.
    pub total: u64,
    /// One curve for each verdict that came.
    pub series: Vec<Curve>,
}

/// One curve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Curve {
    /// The series.
    pub name: String,
    /// What became of the requests.
    pub verdict: Cow<'static, str>,
    /// The sum of the points.
    pub total: u64,
    /// Where each bucket begins, and its count. Buckets in which nobody was there
    /// to count are left out.
    pub points: Vec<(u64, u64)>,
}

impl SeriesAnswer {
    /// Leaves only the curves for which `is_meant`.
    pub fn keep(&mut self, is_meant: impl Fn(&Curve) -> bool) {
        let sum = |curves: &[Curve]| curves.iter().fold(0, |sum: u64, curve| sum.saturating_add(curve.total));
        self.series.retain(&is_meant);
        self.total = sum(&self.series);
        if let Some(compared) = &mut self.compare {
            compared.series.retain(&is_meant);
            compared.total = sum(&compared.series);
        }
    }
}

impl<E: Engine> History<E> {
    /// The curve of a series, by verdict.
    ///
    /// ```
    /// use tollgate_history::engine::Memory;
    /// use tollgate_history::query::{SeriesQuestion, Span};
    /// use tollgate_history::{Bounds, By, History};
    /// let history = History::open(Memory::default(), Bounds::default())?;
    /// let span = Span { from_s: 0, to_s: 86_400 };
    /// let answer = history.series(&SeriesQuestion::new(By::Route, span))?;
    /// assert_eq!((answer.step_s, answer.total), (300, 0));
    /// # Ok::<(), tollgate_history::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the engine cannot be read, or has what this version cannot read.
    pub fn series(&self, question: &SeriesQuestion) -> Result<SeriesAnswer> {
        let span = question.span;
        let mut step_s = self.step(question);
        let earlier = question.compare.map(|compare| match compare {
            Compare::PreviousPeriod => span.earlier(span.length_s()),
            Compare::PreviousWeek => span.earlier(7 * 86_400),
            Compare::PreviousYear => span.earlier(364 * 86_400),
        });
        if let Some(earlier) = earlier {
            // Both curves have the same step, or they could not be compared.
            step_s = step_s.max(self.state.rolled.tier_at(earlier.from_s).step_s());
        }
        let (total, series) = self.curves(question, span, step_s)?;
        let compare = match earlier {
            None => None,
            Some(span) => {
                let (total, series) = self.curves(question, span, step_s)?;
                Some(Compared { from: span.from_s, to: span.to_s, total, series })
            }
        };
        let last =
            series.iter().filter_map(|curve| curve.points.last()).map(|(start, _)| start + step_s).max();
        let counted_until = span.to_s.min(self.state.newest_s() + 60);
        let partial_last = last.is_some_and(|end| end > counted_until);
        Ok(SeriesAnswer { from: span.from_s, to: span.to_s, step_s, total, partial_last, series, compare })
    }

    /// The step that is asked for, or one that suits; never finer than what is
    /// kept of the beginning, and whole points of it.
    fn step(&self, question: &SeriesQuestion) -> u64 {
        let kept_s = self.state.rolled.tier_at(question.span.from_s).step_s();
        let length_s = question.span.length_s();
        let fits = |step_s: u64, most: u64| length_s.div_ceil(step_s) <= most.clamp(1, POINTS_MAX);
        let wanted = question.step_s.filter(|step_s| *step_s > 0).unwrap_or_else(|| {
            let suits = |step_s: &u64| *step_s >= kept_s && fits(*step_s, question.points);
            let longest =
                || length_s.div_ceil(question.points.clamp(1, POINTS_MAX)).next_multiple_of(2_592_000);
            STEPS_S.into_iter().find(suits).unwrap_or_else(longest)
        });
        wanted.max(length_s.div_ceil(POINTS_MAX)).next_multiple_of(kept_s)
    }

    /// The rows of everything that the question means, sorted.
    fn meant(&self, question: &SeriesQuestion) -> Vec<Sid> {
        let Some(name) = &question.name else {
            return vec![match question.by {
                By::Route => Sid::REQUESTS,
                By::Rule | By::Key => Sid::RULINGS,
            }];
        };
        match (name.strip_suffix(PATTERN), question.by) {
            (Some(start), by) => self.catalogue.find(by, |name| name.starts_with(start)),
            (None, By::Route) => {
                self.catalogue.get(&Label::Route(name.as_str().into())).into_iter().collect()
            }
            (None, By::Rule) => self.catalogue.get(&Label::Rule(name.as_str().into())).into_iter().collect(),
            (None, By::Key) => self.catalogue.find(By::Key, |known| known == name),
        }
    }

    fn curves(&self, question: &SeriesQuestion, span: Span, step_s: u64) -> Result<(u64, Vec<Curve>)> {
        let first_s = span.from_s - span.from_s % step_s;
        let buckets = index((span.to_s - first_s).div_ceil(step_s));
        let mut rows = vec![RowId::UP];
        rows.extend(
            self.meant(question).into_iter().flat_map(|sid| Outcome::ALL.map(|outcome| sid.row(outcome))),
        );
        rows.sort_unstable();
        let mut sums: [Vec<u64>; OUTCOMES] = std::array::from_fn(|_| vec![0; buckets]);
        let mut up = vec![false; buckets];
        self.points(&rows, span, &mut |point| {
            let at = index((point.second.saturating_sub(first_s)) / step_s);
            if let Some(up) = up.get_mut(at) {
                *up = true;
            }
            let outcome = rows.get(point.place).and_then(|id| id.outcome());
            let slot = outcome.and_then(|outcome| sums.get_mut(outcome.index()));
            if let Some(sum) = slot.and_then(|slot| slot.get_mut(at)) {
                *sum = sum.saturating_add(point.count);
            }
        })?;
        let name = question.name.clone().unwrap_or_else(|| PATTERN.to_string());
        let mut curves = Vec::new();
        for (outcome, sums) in Outcome::ALL.into_iter().zip(sums) {
            let total = sums.iter().fold(0_u64, |total, sum| total.saturating_add(*sum));
            if total == 0 {
                continue;
            }
            let starts = (0..buckets).map(|at| first_s + wide(at) * step_s);
            let counted = starts.zip(sums).zip(&up).filter(|(_, up)| **up);
            let points = counted.map(|(point, _)| point).collect();
            curves.push(Curve { name: name.clone(), verdict: outcome.name().into(), total, points });
        }
        let total = curves.iter().fold(0_u64, |total, curve| total.saturating_add(curve.total));
        Ok((total, curves))
    }
}
