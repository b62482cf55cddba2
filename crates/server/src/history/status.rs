//! How history is doing, as `/v1/history/status` and the metrics tell it.

use serde::Serialize;
use tollgate_history::query::HistoryStatus;
use tollgate_metrics::HistoryStats;

/// How history is doing.
#[derive(Debug, Clone, Serialize)]
pub struct HistoryServiceStatus {
    /// Where it is kept: a folder, or a Redis.
    pub place: String,
    /// How the names of keys are kept: `clear`, `hashed` or `off`.
    pub keys: &'static str,
    /// Whether it can be queried.
    #[serde(rename = "open")]
    pub is_open: bool,
    /// Why the last attempt to write failed, and what to do; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Names that have a series of their own in this process.
    pub tracked: usize,
    /// Flushes written since the start.
    pub written_flushes: u64,
    /// Flushes that wait to be written.
    pub waiting_flushes: usize,
    /// Attempts that failed since the start.
    pub failures: u64,
    /// Flushes dropped since the start, because they could not be written in time.
    pub lost_flushes: u64,
    /// Requests in them.
    pub lost_requests: u64,
    /// Requests refused since the start, because they were dated more than 5 minutes
    /// ahead of the store's clock.
    pub future_requests: u64,
    /// What the history says about itself; absent if it is not open.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryStatus>,
}

impl From<HistoryServiceStatus> for HistoryStats {
    fn from(status: HistoryServiceStatus) -> Self {
        let kept = status.history.as_ref();
        Self {
            is_open: status.is_open,
            tracked: status.tracked,
            waiting_flushes: status.waiting_flushes,
            written_flushes: status.written_flushes,
            failures: status.failures,
            lost_requests: status.lost_requests,
            series: kept.map(|kept| kept.series),
            disk_bytes: kept.and_then(|kept| kept.disk_bytes),
        }
    }
}
