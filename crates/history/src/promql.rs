//! A part of Prometheus' query language, so that its tools can read a history.
//!
//! A text is parsed into an expression (`lex`, `parse`, `expression`), which is
//! evaluated at one instant or at many (`evaluate`) with counts read by `select`.
//!
//! Supported: three counters ([`Metric`]), matchers, `rate`, `irate`, `increase`,
//! `offset`, `sum`, `avg`, `min`, `max`, `count`, `topk` and `bottomk` with `by` and
//! `without`, arithmetic and comparisons. Everything else is refused by name.
//!
//! Invariants: a window is rounded to whole stored points, and counts are never
//! interpolated; where no process was counting there is no sample; the work is
//! bounded by [`crate::query::SAMPLES_MAX`].
//!
//! Deliberately not here: HTTP and its JSON.

mod evaluate;
mod expression;
mod lex;
mod matcher;
mod parse;
mod select;

use std::collections::{BTreeMap, BTreeSet};

use crate::label::SeriesKind;
use crate::query::HistoryReader;
pub use matcher::Metric;

/// The longest expression, in bytes.
pub const TEXT_MAX: usize = 8 << 10;

/// The names and values of a series.
pub type LabelSet = BTreeMap<String, String>;

/// Why an expression has no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not an expression.
    #[error("at character {at}: {what}")]
    Syntax {
        /// Where, from 1.
        at: usize,
        /// What is wrong.
        what: String,
    },
    /// It is one that is not supported here.
    #[error(
        "{what} is not supported; there are rate, irate, increase, offset, sum, avg, min, max, count, \
         topk, bottomk, + - * / and comparisons, over tollgate_requests_total, \
         tollgate_decisions_total and tollgate_key_decisions_total"
    )]
    Unsupported {
        /// What there is not.
        what: String,
    },
    /// It would take too much memory.
    #[error("{series} series at {instants} instants are too many; select fewer, or take a longer step")]
    TooMuch {
        /// How many series.
        series: usize,
        /// At how many instants.
        instants: usize,
    },
    /// The history cannot be read.
    #[error(transparent)]
    History(crate::Error),
}

impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Self {
        if let crate::Error::TooManySamples { series, instants } = error {
            return Self::TooMuch { series, instants };
        }
        Self::History(error)
    }
}

/// When an expression is evaluated, in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instants {
    /// Once.
    One {
        /// When.
        at_ms: u64,
    },
    /// Repeatedly.
    Range {
        /// The first time.
        from_ms: u64,
        /// Not after this.
        to_ms: u64,
        /// From one to the next; not 0.
        step_ms: u64,
    },
}

impl Instants {
    /// How many there are.
    pub fn count(&self) -> usize {
        match *self {
            Self::One { .. } => 1,
            Self::Range { from_ms, to_ms, step_ms } => {
                let steps = to_ms.saturating_sub(from_ms) / step_ms.max(1);
                usize::try_from(steps).unwrap_or(usize::MAX).saturating_add(1)
            }
        }
    }

    /// Each of them.
    pub fn each(&self) -> impl Iterator<Item = u64> + '_ {
        let (from, to, step) = match *self {
            Self::One { at_ms } => (at_ms, at_ms, 1),
            Self::Range { from_ms, to_ms, step_ms } => (from_ms, to_ms, step_ms.max(1)),
        };
        (0_u64..).map_while(move |n| {
            let at = from.checked_add(n.checked_mul(step)?)?;
            (at <= to).then_some(at)
        })
    }
}

/// One series of a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// Its names and values.
    pub labels: LabelSet,
    /// At each instant; none where there is nothing to say.
    pub values: Vec<Option<f64>>,
}

/// The value of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum PromValue {
    /// A number at each instant.
    Scalar(Vec<f64>),
    /// Series, each with a number at some instants.
    Series(Vec<Samples>),
}

impl HistoryReader<'_> {
    /// Evaluates an expression.
    ///
    /// # Errors
    ///
    /// If the text is not an expression or not supported, or the history cannot be read.
    pub fn promql(&self, text: &str, instants: Instants) -> Result<PromValue, Error> {
        let expression = parse::parse(text)?;
        evaluate::Evaluation::new(self, instants).value(&expression)
    }

    /// The label sets of all series that a selector matches, at most so many.
    ///
    /// # Errors
    ///
    /// If the text is not a selector.
    pub fn promql_series(&self, selector: &str, most: usize) -> Result<Vec<LabelSet>, Error> {
        let selector = parse::selector(selector)?;
        Ok(select::label_sets(self, &selector, most))
    }

    /// The values that a label has in the series that any of these selectors matches, or in
    /// all if there are none; sorted, at most so many.
    ///
    /// # Errors
    ///
    /// If a text is not a selector.
    pub fn promql_values(
        &self,
        label: &str,
        selectors: &[String],
        most: usize,
    ) -> Result<Vec<String>, Error> {
        if selectors.is_empty() {
            return Ok(self.all_values(label, most));
        }
        let mut values = BTreeSet::new();
        for selector in selectors {
            select::label_values(self, &parse::selector(selector)?, label, &mut values);
        }
        Ok(values.into_iter().take(most).collect())
    }

    fn all_values(&self, label: &str, most: usize) -> Vec<String> {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        match label {
            "__name__" => texts(&Metric::ALL.map(Metric::name)),
            "outcome" => texts(&crate::Outcome::ALL.map(crate::Outcome::name)),
            "route" => self.names(SeriesKind::Route, "", most),
            "domain" => self
                .texts(SeriesKind::Rule, most, |label| Some(label.domain()).filter(|text| !text.is_empty())),
            "rule" => self.names(SeriesKind::Rule, "", most),
            "key" => self.names(SeriesKind::Key, "", most),
            _ => Vec::new(),
        }
    }
}

/// The names of all labels.
pub const LABELS: [&str; 6] = ["__name__", "domain", "key", "outcome", "route", "rule"];

#[cfg(test)]
mod tests;
