//! Counts of the series that a selector matches, over windows.
//!
//! Windows are rounded to whole stored points: a window ends where the last whole
//! point before its instant ends, and is at least one point long. The bounds of all
//! windows cut time into pieces; every stored point falls into one, and the count
//! of a window is a difference of two running sums.

use std::collections::BTreeSet;

use tollgate_core::Outcome;

use super::matcher::{Metric, Selector};
use super::{Error, LabelSet};
use crate::Map;
use crate::error::Error as HistoryError;
use crate::label::Label;
use crate::query::{HistoryReader, SAMPLES_MAX, TimeRange};
use crate::row_id::{RowId, SeriesId};

/// Stands for everything that has no series of its own.
const OTHER: &str = "(other)";

/// From a second until before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CountWindow {
    pub(super) from_s: u64,
    pub(super) to_s: u64,
}

/// One series: its labels, and its count in each window.
pub(super) struct WindowCounts {
    pub(super) labels: LabelSet,
    pub(super) counts: Vec<u64>,
}

/// What to count.
pub(super) struct SelectorQuery<'a> {
    pub(super) selector: &'a Selector,
    pub(super) windows: &'a [CountWindow],
    /// Whether the names of series matter, or only their sum.
    pub(super) by_name: bool,
}

/// The label sets of all series that a selector matches, at most so many.
pub(super) fn label_sets(reader: &HistoryReader<'_>, selector: &Selector, most: usize) -> Vec<LabelSet> {
    let mut sets = Vec::new();
    for metric in selector.metrics() {
        for (_, label) in reader.named(metric.kind()).filter(|(_, label)| selector.takes_label(label)) {
            let outcomes = Outcome::ALL.into_iter().filter(|outcome| selector.takes_outcome(*outcome));
            sets.extend(outcomes.map(|outcome| labels_of(metric, Some(label), outcome)));
            if sets.len() >= most {
                sets.truncate(most);
                return sets;
            }
        }
    }
    sets
}

/// Adds the values that a label has in the series that a selector matches.
pub(super) fn label_values(
    reader: &HistoryReader<'_>,
    selector: &Selector,
    label: &str,
    values: &mut BTreeSet<String>,
) {
    for metric in selector.metrics() {
        for (_, named) in reader.named(metric.kind()).filter(|(_, named)| selector.takes_label(named)) {
            let outcomes = Outcome::ALL.into_iter().filter(|outcome| selector.takes_outcome(*outcome));
            // Only the outcome differs between the series of a name.
            let sets = outcomes.take(if label == "outcome" { usize::MAX } else { 1 });
            values.extend(sets.filter_map(|outcome| labels_of(metric, Some(named), outcome).remove(label)));
        }
    }
}

/// The counts of every series that has any in a window.
pub(super) fn count(
    reader: &HistoryReader<'_>,
    wanted: &SelectorQuery<'_>,
) -> Result<Vec<WindowCounts>, Error> {
    let mut all = Vec::new();
    for metric in wanted.selector.metrics() {
        count_metric(reader, metric, wanted, &mut all)?;
    }
    Ok(all)
}

/// Whether any process was counting, in each window.
pub(super) fn was_counting(reader: &HistoryReader<'_>, windows: &[CountWindow]) -> Result<Vec<bool>, Error> {
    let pieces = WindowPieces::new(windows);
    let mut sums = vec![0; pieces.len()];
    reader.points(&[RowId::UP], pieces.range(), &mut |point| {
        pieces.add(&mut sums, point.second, point.count);
        Ok(())
    })?;
    Ok(pieces.counts(sums, windows).into_iter().map(|count| count > 0).collect())
}

fn count_metric(
    reader: &HistoryReader<'_>,
    metric: Metric,
    wanted: &SelectorQuery<'_>,
    all: &mut Vec<WindowCounts>,
) -> Result<(), Error> {
    let SelectorQuery { selector, windows, by_name } = wanted;
    let total = SeriesId::total_of(metric.kind());
    let is_all = !selector.names();
    let mut series = Vec::new();
    if *by_name || !is_all {
        let named = reader.named(metric.kind()).filter(|(_, label)| selector.takes_label(label));
        series = named.map(|(id, _)| id).collect();
    }
    // What has no series of its own is the difference, so that sums are exact.
    if is_all {
        series.push(total);
    }
    let outcomes: Vec<Outcome> =
        Outcome::ALL.into_iter().filter(|outcome| selector.takes_outcome(*outcome)).collect();
    let mut rows: Vec<RowId> =
        series.iter().flat_map(|id| outcomes.iter().map(|outcome| id.row(*outcome))).collect();
    rows.sort_unstable();
    let pieces = WindowPieces::new(windows);
    let mut found: Map<RowId, Vec<u64>> = Map::default();
    reader.points(&rows, pieces.range(), &mut |point| {
        let Some(id) = rows.get(point.place) else { return Ok(()) };
        if !found.contains_key(id) && (found.len() + all.len()).saturating_mul(windows.len()) >= SAMPLES_MAX {
            return Err(HistoryError::TooManySamples { series: rows.len(), instants: windows.len() });
        }
        let sums = found.entry(*id).or_insert_with(|| vec![0; pieces.len()]);
        pieces.add(sums, point.second, point.count);
        Ok(())
    })?;
    let mut named: Map<Outcome, Vec<u64>> = Map::default();
    let mut totals: Vec<(Outcome, Vec<u64>)> = Vec::new();
    for (id, sums) in found {
        let Some(outcome) = id.outcome() else { continue };
        let counts = pieces.counts(sums, windows);
        if id.series() == total {
            totals.push((outcome, counts));
            continue;
        }
        let Some(label) = reader.label(id.series()) else { continue };
        let sum = named.entry(outcome).or_insert_with(|| vec![0; windows.len()]);
        sum.iter_mut().zip(&counts).for_each(|(sum, count)| *sum += count);
        all.push(WindowCounts { labels: labels_of(metric, Some(label), outcome), counts });
    }
    for (outcome, mut counts) in totals {
        for (count, named) in counts.iter_mut().zip(named.get(&outcome).into_iter().flatten()) {
            *count = count.saturating_sub(*named);
        }
        if counts.iter().any(|count| *count > 0) {
            all.push(WindowCounts { labels: labels_of(metric, None, outcome), counts });
        }
    }
    all.sort_unstable_by(|one, other| one.labels.cmp(&other.labels));
    Ok(())
}

/// The label set of a series; of the others if there is no label.
fn labels_of(metric: Metric, label: Option<&Label>, outcome: Outcome) -> LabelSet {
    let mut labels = LabelSet::new();
    labels.insert("__name__".to_owned(), metric.name().to_owned());
    labels.insert("outcome".to_owned(), outcome.name().to_owned());
    for name in metric.labels() {
        let value = match (label, *name) {
            (None, _) => OTHER,
            (Some(label), "domain") => label.domain(),
            (Some(Label::Key { rule, .. }), "rule") => rule,
            (Some(label), _) => label.name(),
        };
        // To Prometheus a label without a value is none.
        if !value.is_empty() {
            labels.insert((*name).to_owned(), value.to_owned());
        }
    }
    labels
}

/// Time, cut at the bounds of windows.
struct WindowPieces {
    /// Sorted; piece `n` begins at bound `n`.
    bounds: Vec<u64>,
}

impl WindowPieces {
    fn new(windows: &[CountWindow]) -> Self {
        let mut bounds: Vec<u64> = windows.iter().flat_map(|window| [window.from_s, window.to_s]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        Self { bounds }
    }

    fn len(&self) -> usize {
        self.bounds.len()
    }

    fn range(&self) -> TimeRange {
        let from_s = self.bounds.first().copied().unwrap_or(0);
        TimeRange { from_s, to_s: self.bounds.last().copied().unwrap_or(0).max(from_s) }
    }

    fn add(&self, sums: &mut [u64], second: u64, count: u64) {
        let behind = self.bounds.partition_point(|bound| *bound <= second);
        if let Some(sum) = behind.checked_sub(1).and_then(|piece| sums.get_mut(piece)) {
            *sum = sum.saturating_add(count);
        }
    }

    /// The count of each window.
    fn counts(&self, mut sums: Vec<u64>, windows: &[CountWindow]) -> Vec<u64> {
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

impl CountWindow {
    /// The window of so many seconds that ends at an instant, in whole stored points.
    pub(super) fn before(reader: &HistoryReader<'_>, at_s: u64, length_s: u64) -> Self {
        let step_s = reader.stored_step_s(at_s.saturating_sub(length_s));
        let to_s = at_s - at_s % step_s;
        let from_s = at_s.saturating_sub(length_s);
        let from_s = (from_s - from_s % step_s).min(to_s.saturating_sub(step_s));
        Self { from_s, to_s }
    }

    /// Everything until an instant, the current minute included.
    pub(super) const fn until(at_s: u64) -> Self {
        Self { from_s: 0, to_s: (at_s - at_s % 60).saturating_add(60) }
    }
}

/// A count as a number.
pub(super) fn number(count: u64) -> f64 {
    let low = u32::try_from(count & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    let high = u32::try_from(count >> 32).unwrap_or(u32::MAX);
    f64::from(high).mul_add(4_294_967_296.0, f64::from(low))
}
