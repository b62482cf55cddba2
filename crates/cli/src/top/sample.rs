//! What a server says about itself at one moment.

use serde::Deserialize;
use tollgate_core::Time;
use tollgate_history::query::{Summary, Top};
use tollgate_limiter::{Clock as _, SystemClock};

use crate::remote::{Error, Remote};

/// Rows of each list that are asked for; no terminal shows more.
const ROWS: usize = 50;

/// What the lists are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Total,
    Denied,
}

impl Order {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Denied => "denied",
        }
    }

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Total => Self::Denied,
            Self::Denied => Self::Total,
        }
    }
}

/// The numbers of the metrics page.
#[derive(Debug, Clone, Default)]
pub(super) struct Page(Vec<(String, f64)>);

impl Page {
    /// Reads a page in the text format of Prometheus; what is no number is left out.
    pub(super) fn read(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let numbers = lines.filter_map(|line| {
            let (name, number) = line.rsplit_once(' ')?;
            Some((name.to_owned(), number.parse().ok()?))
        });
        Self(numbers.collect())
    }

    /// The sum of all series of a name whose labels have `label`; none if there are none.
    pub(super) fn sum(&self, name: &str, label: &str) -> Option<f64> {
        let is_meant = |series: &str| {
            let labels = series.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with('{'));
            labels.is_some_and(|labels| labels.contains(label))
        };
        let found = || self.0.iter().filter(|(series, _)| is_meant(series)).map(|(_, number)| *number);
        found().next().map(|_| found().sum())
    }
}

/// What a server says about itself.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) url: String,
    pub(super) at: Time,
    pub(super) page: Page,
    /// None if the server keeps no history; then why not.
    pub(super) lists: Result<Lists, String>,
}

/// The routes, rules and keys with the most.
#[derive(Debug, Clone)]
pub(super) struct Lists {
    pub(super) order: Order,
    pub(super) summary: Summary,
    pub(super) routes: Top,
    pub(super) rules: Top,
    pub(super) keys: Top,
}

/// How history is doing, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Status {
    error: Option<String>,
}

/// Asks a server.
pub(super) struct Asking {
    remote: Remote,
    last: String,
    clock: SystemClock,
}

impl Asking {
    pub(super) fn new(remote: Remote, last: &str) -> Self {
        Self { remote, last: last.to_owned(), clock: SystemClock::new() }
    }

    /// What it says now.
    pub(super) fn sample(&self, order: Order) -> Result<Sample, Error> {
        let page = Page::read(&self.remote.text("/metrics")?);
        let at = self.clock.now();
        let lists = match self.lists(order) {
            Ok(lists) => Ok(lists),
            Err(Error::Refused { detail, .. }) => Err(self.why(detail)),
            Err(other) => return Err(other),
        };
        Ok(Sample { url: self.remote.url().to_owned(), at, page, lists })
    }

    fn lists(&self, order: Order) -> Result<Lists, Error> {
        let last = ("last", self.last.clone());
        let top = |by: &str| {
            let parameters = [
                ("by", by.to_owned()),
                last.clone(),
                ("order", order.name().to_owned()),
                ("limit", ROWS.to_string()),
            ];
            self.remote.json("/v1/history/top", &parameters)
        };
        let summary = self.remote.json("/v1/history/summary", std::slice::from_ref(&last))?;
        Ok(Lists { order, summary, routes: top("route")?, rules: top("rule")?, keys: top("key")? })
    }

    /// Why there are no lists, as well as it can be told.
    fn why(&self, detail: String) -> String {
        let status: Result<Status, Error> = self.remote.json("/v1/history/status", &[]);
        status.ok().and_then(|status| status.error).unwrap_or(detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_by_name_and_label() {
        let page = Page::read(
            "# HELP a A.\na_total{outcome=\"denied\"} 2\na_total{outcome=\"allowed\"} 3\na_total_more 7\nb 1.5\nc NaN?\n",
        );
        assert_eq!(page.sum("a_total", ""), Some(5.0));
        assert_eq!(page.sum("a_total", "\"denied\""), Some(2.0));
        assert_eq!(page.sum("b", ""), Some(1.5));
        assert_eq!(page.sum("c", ""), None);
    }
}
