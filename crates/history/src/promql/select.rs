//! Counts of the series that a selector means, over windows.
//!
//! Windows are rounded to whole stored points: a window ends where the last whole
//! point before its instant ends, and is at least one point long. The bounds of all
//! windows cut time into pieces; every stored point falls into one, and the count
//! of a window is a difference of two running sums.

use super::matcher::{Metric, Selector};
use super::{Error, Labels, SAMPLES_MAX};
use crate::Map;
use crate::engine::Engine;
use crate::label::{By, Label, RowId, Sid};
use crate::query::Span;
use crate::store::History;
use tollgate_core::Outcome;

/// The name of everything that has no series of its own.
const OTHER: &str = "(other)";

/// From a second until before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from_s: u64,
    pub(super) to_s: u64,
}

/// One series: its labels, and its count in each window.
pub(super) struct Counted {
    pub(super) labels: Labels,
    pub(super) counts: Vec<u64>,
}

/// What is wanted of a selector.
pub(super) struct Wanted<'a> {
    pub(super) selector: &'a Selector,
    pub(super) windows: &'a [Window],
    /// Whether somebody looks at the names of series, or only at their sum.
    pub(super) by_name: bool,
}

/// The label sets of all series that a selector means, at most so many.
pub(super) fn label_sets<E: Engine>(history: &History<E>, selector: &Selector, most: usize) -> Vec<Labels> {
    let mut sets = Vec::new();
    for metric in selector.metrics() {
        let named = history.catalogue.labels().filter(|label| label.by() == Some(metric.by()));
        for label in named.filter(|label| selector.takes_label(label)) {
            let meant = Outcome::ALL.into_iter().filter(|outcome| selector.takes_outcome(*outcome));
            sets.extend(meant.map(|outcome| labels_of(metric, Some(label), outcome)));
            if sets.len() >= most {
                sets.truncate(most);
                return sets;
            }
        }
    }
    sets
}

/// The counts of every series that came in any of the windows.
pub(super) fn counted<E: Engine>(history: &History<E>, wanted: &Wanted<'_>) -> Result<Vec<Counted>, Error> {
    let mut all = Vec::new();
    for metric in wanted.selector.metrics() {
        counted_of(history, metric, wanted, &mut all)?;
    }
    Ok(all)
}

/// Whether anybody was there to count, in each window.
pub(super) fn counted_at_all<E: Engine>(
    history: &History<E>,
    windows: &[Window],
) -> Result<Vec<bool>, Error> {
    let pieces = Pieces::new(windows);
    let mut sums = vec![0; pieces.len()];
    history
        .points(&[RowId::UP], pieces.span(), &mut |point| pieces.add(&mut sums, point.second, point.count))?;
    Ok(pieces.counts(sums, windows).into_iter().map(|count| count > 0).collect())
}

fn counted_of<E: Engine>(
    history: &History<E>,
    metric: Metric,
    wanted: &Wanted<'_>,
    all: &mut Vec<Counted>,
) -> Result<(), Error> {
    let Wanted { selector, windows, by_name } = wanted;
    let total = match metric {
        Metric::Requests => Sid::REQUESTS,
        Metric::Decisions | Metric::KeyDecisions => Sid::RULINGS,
    };
    let is_all = !selector.names();
    let mut sids = Vec::new();
    if *by_name || !is_all {
        sids = meant(history, metric.by(), selector);
    }
    // What has no series of its own is the difference, so that sums are exact.
    if is_all {
        sids.insert(0, total);
    }
    let outcomes: Vec<Outcome> =
        Outcome::ALL.into_iter().filter(|outcome| selector.takes_outcome(*outcome)).collect();
    let mut rows: Vec<RowId> =
        sids.iter().flat_map(|sid| outcomes.iter().map(|outcome| sid.row(*outcome))).collect();
    rows.sort_unstable();
    let pieces = Pieces::new(windows);
    let mut found: Map<RowId, Vec<u64>> = Map::default();
    let mut is_too_much = false;
    history.points(&rows, pieces.span(), &mut |point| {
        let Some(id) = rows.get(point.place) else { return };
        if !found.contains_key(id) && (found.len() + all.len()).saturating_mul(windows.len()) >= SAMPLES_MAX {
            is_too_much = true;
            return;
        }
        let sums = found.entry(*id).or_insert_with(|| vec![0; pieces.len()]);
        pieces.add(sums, point.second, point.count);
    })?;
    if is_too_much {
        return Err(Error::TooMuch { series: rows.len(), instants: windows.len() });
    }
    let mut named: Map<Outcome, Vec<u64>> = Map::default();
    let mut totals: Vec<(Outcome, Vec<u64>)> = Vec::new();
    for (id, sums) in found {
        let Some(outcome) = id.outcome() else { continue };
        let counts = pieces.counts(sums, windows);
        if id.sid() == total {
            totals.push((outcome, counts));
            continue;
        }
        let Some(label) = history.catalogue.label(id.sid()) else { continue };
        let sum = named.entry(outcome).or_insert_with(|| vec![0; windows.len()]);
        sum.iter_mut().zip(&counts).for_each(|(sum, count)| *sum += count);
        all.push(Counted { labels: labels_of(metric, Some(label), outcome), counts });
    }
    for (outcome, mut counts) in totals {
        for (count, named) in counts.iter_mut().zip(named.get(&outcome).into_iter().flatten()) {
            *count = count.saturating_sub(*named);
        }
        if counts.iter().any(|count| *count > 0) {
            all.push(Counted { labels: labels_of(metric, None, outcome), counts });
        }
    }
    all.sort_unstable_by(|one, other| one.labels.cmp(&other.labels));
    Ok(())
}

fn meant<E: Engine>(history: &History<E>, by: By, selector: &Selector) -> Vec<Sid> {
    let of_kind = history.catalogue.labels().filter(|label| label.by() == Some(by));
    let taken = of_kind.filter(|label| selector.takes_label(label));
    let mut sids: Vec<Sid> = taken.filter_map(|label| history.catalogue.get(label)).collect();
    sids.sort_unstable();
    sids
}

/// The labels of a series; of the others if it has no label.
fn labels_of(metric: Metric, label: Option<&Label>, outcome: Outcome) -> Labels {
    let mut labels = Labels::new();
    labels.insert("__name__".to_owned(), metric.name().to_owned());
    labels.insert("verdict".to_owned(), outcome.name().to_owned());
    for name in metric.labels() {
        let value = match (label, *name) {
            (None, _) => OTHER,
            (Some(Label::Key { rule, .. }), "rule") => rule,
            (Some(label), _) => label.name(),
        };
        labels.insert((*name).to_owned(), value.to_owned());
    }
    labels
}

/// Time, cut at the bounds of windows.
struct Pieces {
    /// Sorted; piece `n` begins at bound `n`.
    bounds: Vec<u64>,
}

impl Pieces {
    fn new(windows: &[Window]) -> Self {
        let mut bounds: Vec<u64> = windows.iter().flat_map(|window| [window.from_s, window.to_s]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        Self { bounds }
    }

    fn len(&self) -> usize {
        self.bounds.len()
    }

    fn span(&self) -> Span {
        let from_s = self.bounds.first().copied().unwrap_or(0);
        Span { from_s, to_s: self.bounds.last().copied().unwrap_or(0).max(from_s) }
    }

    fn add(&self, sums: &mut [u64], second: u64, count: u64) {
        let behind = self.bounds.partition_point(|bound| *bound <= second);
        if let Some(sum) = behind.checked_sub(1).and_then(|piece| sums.get_mut(piece)) {
            *sum = sum.saturating_add(count);
        }
    }

    /// The count of each window.
    fn counts(&self, mut sums: Vec<u64>, windows: &[Window]) -> Vec<u64> {
        let mut before = 0_u64;
        for sum in &mut sums {
            let own = *sum;
            *sum = before;
            before = before.saturating_add(own);
        }
        let until = |second: u64| {
            let piece = self.bounds.partition_point(|bound| *bound < second);
            sums.get(piece).copied().unwrap_or(before)
        };
        windows.iter().map(|window| until(window.to_s).saturating_sub(until(window.from_s))).collect()
    }
}

impl<E: Engine> History<E> {
    /// The window of so many seconds that ends at an instant, in whole stored points.
    pub(super) fn window(&self, at_s: u64, length_s: u64) -> Window {
        let step_s = self.state.rolled.tier_at(at_s.saturating_sub(length_s)).step_s();
        let to_s = at_s - at_s % step_s;
        let from_s = at_s.saturating_sub(length_s);
        let from_s = (from_s - from_s % step_s).min(to_s.saturating_sub(step_s));
        Window { from_s, to_s }
    }

    /// Everything until an instant, the point that is not over included.
    pub(super) fn until(&self, at_s: u64) -> Window {
        Window { from_s: 0, to_s: (at_s - at_s % 60).saturating_add(60) }
    }
}

/// A count as a number.
pub(super) fn number(count: u64) -> f64 {
    let low = u32::try_from(count & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    let high = u32::try_from(count >> 32).unwrap_or(u32::MAX);
    f64::from(high).mul_add(4_294_967_296.0, f64::from(low))
}
