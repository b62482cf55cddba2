//! What the levels around the rules decide: connections by address, and all requests together.

use tollgate_core::Outcome;

use crate::Metrics;
use crate::counters::{StripedCounters, own_stripes_for};
use crate::exposition::{MetricKind, MetricsPage};

/// A limit that is not a rule's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficLevel {
    /// New connections of an address.
    ConnectionRate,
    /// Open connections of an address.
    OpenConnections,
    /// All requests of the gateway.
    Requests,
}

impl TrafficLevel {
    const ALL: [Self; 3] = [Self::ConnectionRate, Self::OpenConnections, Self::Requests];

    /// What metrics and history call it: the setting that it comes from.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnectionRate => "levels.connections.per_second",
            Self::OpenConnections => "levels.connections.open",
            Self::Requests => "levels.requests",
        }
    }
}

/// The counters of all levels.
#[derive(Debug)]
pub(crate) struct LevelCounters([StripedCounters; TrafficLevel::ALL.len()]);

impl LevelCounters {
    pub(crate) fn new() -> Self {
        Self(TrafficLevel::ALL.map(|_| StripedCounters::new(own_stripes_for(1))))
    }

    fn of(&self, level: TrafficLevel) -> &StripedCounters {
        let [rate, open, requests] = &self.0;
        match level {
            TrafficLevel::ConnectionRate => rate,
            TrafficLevel::OpenConnections => open,
            TrafficLevel::Requests => requests,
        }
    }
}

impl Metrics {
    /// A level has decided about a connection or a request.
    pub fn level(&self, level: TrafficLevel, outcome: Outcome) {
        self.levels.of(level).stripe().add_outcome(Some(outcome));
    }

    /// A request was denied by a level, and no rule was asked.
    pub fn denied_by_level(&self) {
        self.requests.stripe().add_outcome(Some(Outcome::Denied));
    }
}

/// Adds the levels' series.
pub(crate) fn add(page: &mut MetricsPage, metrics: &Metrics) {
    let name = "tollgate_level_decisions_total";
    page.family(name, MetricKind::Counter, "Connections and requests that the levels decided, by outcome.");
    for level in TrafficLevel::ALL {
        for outcome in [Outcome::Allowed, Outcome::Denied, Outcome::ShadowDenied] {
            let labels = [("level", level.name()), ("outcome", outcome.name())];
            page.sample(name, &labels, metrics.levels.of(level).outcomes(outcome));
        }
    }
}
