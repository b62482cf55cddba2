//! Who keeps count of decisions: metrics, history if it is on, and the list of blocked keys.

use std::num::NonZeroU64;
use std::sync::Arc;

use tollgate_core::{Outcome, Time};
use tollgate_limiter::{Event, EventBatch, EventSink, LimitEvent};

use super::blocked_keys::BlockedKeys;
use crate::history::{DecisionBatch, HistoryService};
use tollgate_metrics::{EventOutcomes, Metrics, TrafficLevel};

/// Who keeps count of decisions.
#[derive(Debug, Clone)]
pub struct Sinks {
    /// Sums since the start.
    pub metrics: Arc<Metrics>,
    /// Counts by the minute, if they are kept.
    pub history: Option<Arc<HistoryService>>,
    /// Whom penalties block.
    pub(crate) blocked: Arc<BlockedKeys>,
}

/// Without history.
impl From<Arc<Metrics>> for Sinks {
    fn from(metrics: Arc<Metrics>) -> Self {
        Self::new(metrics, None)
    }
}

impl Sinks {
    /// With history, if there is one.
    pub fn new(metrics: Arc<Metrics>, history: Option<Arc<HistoryService>>) -> Self {
        Self { metrics, history, blocked: Arc::default() }
    }

    /// A level has decided about a connection of an address, or about a request.
    pub(crate) fn level(&self, level: TrafficLevel, address: Option<&str>, outcome: Outcome, now: Time) {
        self.metrics.level(level, outcome);
        if let Some(history) = &self.history {
            history.counter().level(level.name(), address, outcome, now);
        }
    }
}

impl EventSink for Sinks {
    fn offer(&self, event: Event<'_>) {
        self.batch(|events| events.offer(event));
    }

    fn offer_limit(&self, event: LimitEvent<'_>) {
        self.batch(|events| events.offer_limit(event));
    }

    fn batch<T>(&self, act: impl FnOnce(&mut dyn EventBatch) -> T) -> T {
        act(&mut SinksBatch {
            sinks: self,
            history: self.history.as_ref().map(|history| history.counter().start_batch()),
        })
    }
}

/// All of them, as they take note of several events in a row.
struct SinksBatch<'a> {
    sinks: &'a Sinks,
    history: Option<DecisionBatch<'a>>,
}

impl EventBatch for SinksBatch<'_> {
    fn offer(&mut self, event: Event<'_>) {
        let outcomes = EventOutcomes::of(&event);
        self.sinks.metrics.count(&event, outcomes);
        if let Some(history) = &mut self.history {
            history.count(&event, outcomes);
        }
        self.sinks.blocked.note(&event);
    }

    fn offer_limit(&mut self, event: LimitEvent<'_>) {
        self.sinks.metrics.offer_limit(event);
        if let Some(history) = &mut self.history {
            history.count_limit(event);
        }
    }

    fn prefetch(&mut self, rule: u64, key: NonZeroU64) -> bool {
        self.history.as_mut().is_some_and(|history| history.prefetch(rule, key))
    }
}
