//! What a server says about itself at one moment.

use serde::Deserialize;
use tollgate_core::Time;
use tollgate_history::query::{Summary, TopOrder, TopResult};
use tollgate_limiter::{Clock as _, SystemClock};

use crate::remote::{Error, Remote};

/// Rows of each list: more than a terminal shows.
const ROWS: usize = 50;

/// The numbers of the metrics page.
#[derive(Debug, Clone, Default)]
pub(super) struct MetricsPage(Vec<(String, f64)>);

impl MetricsPage {
    /// Parses a page in the text format of Prometheus; lines without a number are left out.
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

/// Requests that are sent later; none if the server has no queue of them.
pub(super) fn deferred(page: &MetricsPage) -> Option<String> {
    let waiting = page.sum("tollgate_deferred_waiting", "")?;
    let became = |event: &str| page.sum("tollgate_deferred_total", &format!("\"{event}\"")).unwrap_or(0.0);
    let (sent, failed, expired) = (became("sent"), became("failed"), became("expired"));
    Some(format!("deferred: {waiting:.0} waiting, {sent:.0} sent, {failed:.0} failed, {expired:.0} expired"))
}

/// What a server says about itself.
#[derive(Debug, Clone)]
pub(super) struct ServerSample {
    pub(super) url: String,
    pub(super) at: Time,
    pub(super) page: MetricsPage,
    /// Why there are none, if the server keeps no history.
    pub(super) lists: Result<TopLists, String>,
}

/// The routes, rules and keys with the most.
#[derive(Debug, Clone)]
pub(super) struct TopLists {
    pub(super) order: TopOrder,
    pub(super) summary: Summary,
    pub(super) routes: TopResult,
    pub(super) rules: TopResult,
    pub(super) keys: TopResult,
}

/// The part of a history's status that matters here.
#[derive(Debug, Deserialize)]
struct HistoryError {
    error: Option<String>,
}

/// Takes samples of a server.
pub(super) struct Sampler {
    remote: Remote,
    last: String,
    clock: SystemClock,
}

impl Sampler {
    pub(super) fn new(remote: Remote, last: &str) -> Self {
        Self { remote, last: last.to_owned(), clock: SystemClock::new() }
    }

    /// What it says now.
    pub(super) fn sample(&self, order: TopOrder) -> Result<ServerSample, Error> {
        let page = MetricsPage::read(&self.remote.text("/metrics")?);
        let at = self.clock.now();
        let lists = match self.lists(order) {
            Ok(lists) => Ok(lists),
            Err(Error::Refused { detail, .. }) => Err(self.why(detail)),
            Err(other) => return Err(other),
        };
        Ok(ServerSample { url: self.remote.url().to_owned(), at, page, lists })
    }

    fn lists(&self, order: TopOrder) -> Result<TopLists, Error> {
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
        Ok(TopLists { order, summary, routes: top("route")?, rules: top("rule")?, keys: top("key")? })
    }

    /// Why there are no lists.
    fn why(&self, detail: String) -> String {
        let status: Result<HistoryError, Error> = self.remote.json("/v1/history/status", &[]);
        status.ok().and_then(|status| status.error).unwrap_or(detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_by_name_and_label() {
        let page = MetricsPage::read(
            "# HELP a A.\na_total{outcome=\"denied\"} 2\na_total{outcome=\"allowed\"} 3\na_total_more 7\nb 1.5\nc NaN?\n",
        );
        assert_eq!(page.sum("a_total", ""), Some(5.0));
        assert_eq!(page.sum("a_total", "\"denied\""), Some(2.0));
        assert_eq!(page.sum("b", ""), Some(1.5));
        assert_eq!(page.sum("c", ""), None);
    }
}
