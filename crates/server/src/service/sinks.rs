//! Who keeps count of decisions: metrics, and history if it is on.

use std::sync::Arc;

use tollgate_limiter::{Event, EventSink};

use crate::history::HistoryService;
use tollgate_metrics::Metrics;

/// Who keeps count of decisions.
#[derive(Debug, Clone)]
pub struct Sinks {
    /// Sums since the start.
    pub metrics: Arc<Metrics>,
    /// Counts by the minute, if they are kept.
    pub history: Option<Arc<HistoryService>>,
}

/// Without history.
impl From<Arc<Metrics>> for Sinks {
    fn from(metrics: Arc<Metrics>) -> Self {
        Self { metrics, history: None }
    }
}

impl EventSink for Sinks {
    fn offer(&self, event: Event<'_>) {
        self.metrics.offer(event);
        if let Some(history) = &self.history {
            history.counter().offer(event);
        }
    }
}
