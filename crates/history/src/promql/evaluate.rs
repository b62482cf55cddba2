//! Evaluates an expression, at all instants at once.
#![expect(clippy::float_arithmetic, reason = "numbers in this language are floats")]

use super::expression::{Aggregate, Expression, Function, Grouping, Operator};
use super::matcher::Selector;
use super::select::{CountWindow, SelectorQuery, WindowCounts, count, number, was_counting};
use super::{Error, Instants, LabelSet, PromValue, Samples};
use crate::query::{HistoryReader, SAMPLES_MAX};

/// A counter has a value for so long after a process last counted.
const LOOK_BACK_S: u64 = 300;

/// One expression at its instants.
pub(super) struct Evaluation<'a> {
    reader: &'a HistoryReader<'a>,
    instants: Instants,
}

/// Whether the names of series matter, or only their sum.
#[derive(Clone, Copy)]
struct ByName(bool);

impl<'a> Evaluation<'a> {
    pub(super) const fn new(reader: &'a HistoryReader<'a>, instants: Instants) -> Self {
        Self { reader, instants }
    }

    pub(super) fn value(&self, expression: &Expression) -> Result<PromValue, Error> {
        if self.instants.count() > SAMPLES_MAX {
            return Err(Error::TooMuch { series: 1, instants: self.instants.count() });
        }
        self.of(expression, ByName(true))
    }

    fn of(&self, expression: &Expression, by_name: ByName) -> Result<PromValue, Error> {
        match expression {
            Expression::Number(number) => Ok(PromValue::Scalar(vec![*number; self.instants.count()])),
            Expression::Negative(inner) => Ok(mapped(self.of(inner, by_name)?, |number| -number)),
            Expression::Counter(selector) => self.counter(selector, by_name),
            Expression::Window { function, selector, length_ms } => {
                self.window(*function, selector, (length_ms / 1_000).max(1), by_name)
            }
            Expression::Aggregate { aggregate, over, grouping } => {
                let is_sum = *aggregate == Aggregate::Sum;
                let names = ["route", "domain", "rule", "key"].into_iter().any(|label| grouping.keeps(label));
                match self.of(over, ByName(!is_sum || names))? {
                    PromValue::Series(series) => {
                        Ok(PromValue::Series(aggregated(*aggregate, grouping, series)))
                    }
                    PromValue::Scalar(_) => {
                        Err(Error::Unsupported { what: "an aggregate of a number".to_owned() })
                    }
                }
            }
            Expression::Binary { operator, left, right, is_bool } => {
                let (left, right) = (self.of(left, ByName(true))?, self.of(right, ByName(true))?);
                binary(BinaryOperation { operator: *operator, is_bool: *is_bool }, left, right)
            }
        }
    }

    /// The seconds that a selector looks at.
    fn seconds(&self, selector: &Selector) -> Vec<u64> {
        self.instants.each().map(|at| at.saturating_sub(selector.offset_ms) / 1_000).collect()
    }

    fn counter(&self, selector: &Selector, by_name: ByName) -> Result<PromValue, Error> {
        let seconds = self.seconds(selector);
        let windows: Vec<CountWindow> = seconds.iter().map(|at| CountWindow::until(*at)).collect();
        let recent: Vec<CountWindow> = seconds
            .iter()
            .map(|at| CountWindow { to_s: at + 60, ..CountWindow::before(self.reader, *at, LOOK_BACK_S) })
            .collect();
        let is_up = was_counting(self.reader, &recent)?;
        let counted = count(self.reader, &SelectorQuery { selector, windows: &windows, by_name: by_name.0 })?;
        let samples = |one: WindowCounts| {
            let values = one.counts.iter().zip(&is_up);
            let values = values.map(|(count, is_up)| (*is_up && *count > 0).then(|| number(*count)));
            Samples { labels: one.labels, values: values.collect() }
        };
        Ok(PromValue::Series(counted.into_iter().map(samples).collect()))
    }

    fn window(
        &self,
        function: Function,
        selector: &Selector,
        length_s: u64,
        by_name: ByName,
    ) -> Result<PromValue, Error> {
        let windows: Vec<CountWindow> =
            self.seconds(selector).iter().map(|at| CountWindow::before(self.reader, *at, length_s)).collect();
        let is_up = was_counting(self.reader, &windows)?;
        let counted = count(self.reader, &SelectorQuery { selector, windows: &windows, by_name: by_name.0 })?;
        let samples = |one: WindowCounts| {
            let mut labels = one.labels;
            labels.remove("__name__");
            let values = one.counts.iter().zip(&windows).zip(&is_up).map(|((count, window), is_up)| {
                let seconds = number((window.to_s - window.from_s).max(1));
                is_up.then_some(match function {
                    Function::Rate => number(*count) / seconds,
                    // Multiplied first, so that whole numbers stay whole.
                    Function::Increase => number(*count) * number(length_s) / seconds,
                })
            });
            Samples { labels, values: values.collect() }
        };
        Ok(PromValue::Series(counted.into_iter().map(samples).collect()))
    }
}

fn mapped(value: PromValue, map: impl Fn(f64) -> f64) -> PromValue {
    match value {
        PromValue::Scalar(numbers) => PromValue::Scalar(numbers.into_iter().map(map).collect()),
        PromValue::Series(series) => PromValue::Series(
            series
                .into_iter()
                .map(|one| Samples {
                    labels: nameless(one.labels),
                    values: one.values.into_iter().map(|value| value.map(&map)).collect(),
                })
                .collect(),
        ),
    }
}

fn nameless(mut labels: LabelSet) -> LabelSet {
    labels.remove("__name__");
    labels
}

fn aggregated(aggregate: Aggregate, grouping: &Grouping, series: Vec<Samples>) -> Vec<Samples> {
    let mut groups: std::collections::BTreeMap<LabelSet, Vec<Samples>> = std::collections::BTreeMap::new();
    for one in series {
        let kept = one.labels.iter().filter(|(label, _)| grouping.keeps(label));
        let group: LabelSet = kept.map(|(label, value)| (label.clone(), value.clone())).collect();
        groups.entry(group).or_default().push(one);
    }
    let one = |(labels, members): (LabelSet, Vec<Samples>)| match aggregate {
        Aggregate::Top(rows) => extremes(members, rows, |one, other| other.total_cmp(&one)),
        Aggregate::Bottom(rows) => extremes(members, rows, |one, other| one.total_cmp(&other)),
        Aggregate::Sum | Aggregate::Average | Aggregate::Min | Aggregate::Max | Aggregate::Count => {
            vec![Samples { labels, values: folded(aggregate, &members) }]
        }
    };
    groups.into_iter().flat_map(one).collect()
}

fn folded(aggregate: Aggregate, members: &[Samples]) -> Vec<Option<f64>> {
    let instants = members.first().map_or(0, |one| one.values.len());
    let at = |instant: usize| {
        let values = || members.iter().filter_map(move |one| one.values.get(instant).copied().flatten());
        let count = values().fold(0.0, |count, _| count + 1.0);
        let value = match aggregate {
            Aggregate::Min => values().fold(f64::INFINITY, f64::min),
            Aggregate::Max => values().fold(f64::NEG_INFINITY, f64::max),
            Aggregate::Count => count,
            Aggregate::Average => values().sum::<f64>() / count,
            Aggregate::Sum | Aggregate::Top(_) | Aggregate::Bottom(_) => values().sum(),
        };
        (count > 0.0).then_some(value)
    };
    (0..instants).map(at).collect()
}

/// The first rows at each instant, as series that are there at those instants.
fn extremes(
    mut members: Vec<Samples>,
    rows: usize,
    order: impl Fn(f64, f64) -> std::cmp::Ordering,
) -> Vec<Samples> {
    let instants = members.first().map_or(0, |one| one.values.len());
    for instant in 0..instants {
        let value = |one: &Samples| one.values.get(instant).copied().flatten();
        let mut there: Vec<(usize, f64)> =
            members.iter().enumerate().filter_map(|(at, one)| Some((at, value(one)?))).collect();
        there.sort_by(|one, other| order(one.1, other.1));
        for (at, _) in there.into_iter().skip(rows) {
            if let Some(value) = members.get_mut(at).and_then(|one| one.values.get_mut(instant)) {
                *value = None;
            }
        }
    }
    members.retain(|one| one.values.iter().any(Option::is_some));
    let first = |one: &Samples| one.values.iter().copied().flatten().next().unwrap_or(f64::NAN);
    if instants == 1 {
        members.sort_by(|one, other| order(first(one), first(other)));
    }
    members
}

#[derive(Clone, Copy)]
struct BinaryOperation {
    operator: Operator,
    is_bool: bool,
}

impl BinaryOperation {
    /// The value of two numbers; none where a comparison without `bool` does not hold.
    fn of(self, left: f64, right: f64, shown: f64) -> Option<f64> {
        let compared = |holds: bool| match (self.is_bool, holds) {
            (true, true) => Some(1.0),
            (true, false) => Some(0.0),
            (false, true) => Some(shown),
            (false, false) => None,
        };
        match self.operator {
            Operator::Add => Some(left + right),
            Operator::Subtract => Some(left - right),
            Operator::Multiply => Some(left * right),
            Operator::Divide => Some(left / right),
            Operator::Equal => compared(left.total_cmp(&right).is_eq()),
            Operator::Unequal => compared(left.total_cmp(&right).is_ne()),
            Operator::Greater => compared(left > right),
            Operator::Less => compared(left < right),
            Operator::AtLeast => compared(left >= right),
            Operator::AtMost => compared(left <= right),
        }
    }

    /// Whether the name of a series stays: what is only filtered keeps it.
    const fn keeps_name(self) -> bool {
        self.operator.is_comparison() && !self.is_bool
    }

    fn labels(self, labels: LabelSet) -> LabelSet {
        if self.keeps_name() { labels } else { nameless(labels) }
    }
}

fn binary(combine: BinaryOperation, left: PromValue, right: PromValue) -> Result<PromValue, Error> {
    match (left, right) {
        (PromValue::Scalar(_), PromValue::Scalar(_)) if combine.keeps_name() => {
            Err(Error::Unsupported { what: "a comparison of two numbers without bool".to_owned() })
        }
        (PromValue::Scalar(left), PromValue::Scalar(right)) => {
            let pairs = left.into_iter().zip(right);
            Ok(PromValue::Scalar(
                pairs.map(|(one, other)| combine.of(one, other, one).unwrap_or(f64::NAN)).collect(),
            ))
        }
        (PromValue::Series(series), PromValue::Scalar(numbers)) => {
            Ok(PromValue::Series(with_numbers(combine, series, &numbers, |own, number| (own, number))))
        }
        (PromValue::Scalar(numbers), PromValue::Series(series)) => {
            Ok(PromValue::Series(with_numbers(combine, series, &numbers, |own, number| (number, own))))
        }
        (PromValue::Series(left), PromValue::Series(right)) => {
            Ok(PromValue::Series(paired(combine, left, right)))
        }
    }
}

fn with_numbers(
    combine: BinaryOperation,
    series: Vec<Samples>,
    numbers: &[f64],
    sides: impl Fn(f64, f64) -> (f64, f64),
) -> Vec<Samples> {
    let one = |one: Samples| {
        let values = one.values.into_iter().zip(numbers).map(|(own, number)| {
            let own = own?;
            let (left, right) = sides(own, *number);
            combine.of(left, right, own)
        });
        Samples { values: values.collect(), labels: combine.labels(one.labels) }
    };
    series.into_iter().map(one).filter(|one| one.values.iter().any(Option::is_some)).collect()
}

/// Series of both sides with the same labels.
fn paired(combine: BinaryOperation, left: Vec<Samples>, right: Vec<Samples>) -> Vec<Samples> {
    let by_labels: std::collections::BTreeMap<LabelSet, Vec<Option<f64>>> =
        right.into_iter().map(|one| (nameless(one.labels), one.values)).collect();
    let pair = |one: Samples| {
        let other = by_labels.get(&nameless(one.labels.clone()))?;
        let values = one.values.iter().zip(other).map(|(left, right)| {
            let (left, right) = ((*left)?, (*right)?);
            combine.of(left, right, left)
        });
        Some(Samples { values: values.collect(), labels: combine.labels(one.labels) })
    };
    left.into_iter().filter_map(pair).filter(|one| one.values.iter().any(Option::is_some)).collect()
}
