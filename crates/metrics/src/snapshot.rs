//! The sums at some instant, under the reference's dotted names.
//!
//! Read by the page for Prometheus, by `StatsD` and by `/stats`.
//!
//! Deliberately not here: what only Tollgate counts, apart from a few gauges;
//! that is on the page for Prometheus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Metrics;
use super::hits::HitCounts;
use super::latency::Times;
use super::mapper::{CALL_PREFIX, METHOD_PREFIX, RULE_PREFIX};
use super::stats::StoreStats;

/// The last level of the path of what has no path of its own.
const OTHER: &str = "other";

/// The sums at some instant.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) counters: BTreeMap<String, u64>,
    pub(super) gauges: BTreeMap<String, u64>,
    pub(super) timers: Vec<(String, Times)>,
}

impl Snapshot {
    pub(super) fn of(metrics: &Metrics) -> Self {
        let mut snapshot = Self::without_rules(metrics);
        for (path, hits) in hits_by_path(metrics) {
            snapshot.hits(&path, &hits);
        }
        snapshot
    }

    /// All but the counters of rules.
    pub(super) fn without_rules(metrics: &Metrics) -> Self {
        let mut snapshot = Self::default();
        snapshot.domains(metrics);
        snapshot.service(metrics);
        snapshot.methods(metrics);
        snapshot.gauges(metrics);
        snapshot
    }

    /// Adds the counters of a path.
    pub(super) fn hits(&mut self, path: &str, hits: &HitCounts) {
        let counters = [
            ("total_hits", hits.total_hits),
            ("over_limit", hits.over_limit),
            ("near_limit", hits.near_limit),
            ("over_limit_with_local_cache", hits.remembered),
            ("within_limit", hits.within_limit),
            ("shadow_mode", hits.shadow_mode),
            ("total_negative_hits", hits.negative_hits),
        ];
        for (name, hits) in counters {
            self.add(format!("{RULE_PREFIX}{path}.{name}"), hits);
        }
    }

    fn domains(&mut self, metrics: &Metrics) {
        let mut add =
            |domain: &str, hits: u64| self.add(format!("{RULE_PREFIX}{domain}.domain_not_found"), hits);
        metrics.domains.each(|domain, counters| add(domain, counters.hits().total_hits));
        let others = metrics.other_domains.hits().total_hits;
        if others > 0 {
            add(OTHER, others);
        }
    }

    fn service(&mut self, metrics: &Metrics) {
        let counters = [
            ("ratelimit.service.config_load_success", &metrics.loads),
            ("ratelimit.service.config_load_error", &metrics.failed_loads),
            ("ratelimit.service.global_shadow_mode", &metrics.global_shadow),
        ];
        for (name, counter) in counters {
            self.add(name.to_owned(), counter.load(Ordering::Relaxed));
        }
        let errors = [("service_error", &metrics.service_errors), ("redis_error", &metrics.store_errors)];
        for (name, counter) in errors {
            self.add(format!("{CALL_PREFIX}{name}"), counter.load(Ordering::Relaxed));
        }
    }

    fn methods(&mut self, metrics: &Metrics) {
        let methods = [("ShouldRateLimit", &metrics.should_rate_limit), ("Check", &metrics.health_check)];
        for (method, latency) in methods {
            let times = latency.times();
            self.add(format!("{METHOD_PREFIX}{method}.total_requests"), times.count());
            self.timers.push((format!("{METHOD_PREFIX}{method}.response_time"), times));
        }
    }

    fn gauges(&mut self, metrics: &Metrics) {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let table = metrics.table.load();
        self.gauges.insert("tollgate.rules".to_owned(), count(table.rows().len()));
        if let Some(StoreStats { usage, remote }) = metrics.store.get().map(|look| look()) {
            let bytes = count(usage.slot_bytes.saturating_add(usage.log_bytes));
            self.gauges.insert("tollgate.store.keys".to_owned(), count(usage.keys));
            self.gauges.insert("tollgate.store.bytes".to_owned(), bytes);
            if let Some(remote) = remote {
                self.gauges.insert("tollgate.store.degraded".to_owned(), u64::from(remote.is_degraded));
            }
        }
    }

    fn add(&mut self, name: String, by: u64) {
        let sum = self.counters.entry(name).or_default();
        *sum = sum.wrapping_add(by);
    }
}

/// The hits of all rules, by path and sorted. Two rules can have one path;
/// then they count together, as in the reference.
pub(super) fn hits_by_path(metrics: &Metrics) -> Vec<(Arc<str>, HitCounts)> {
    let table = metrics.table.load();
    let mut all: Vec<(Arc<str>, HitCounts)> =
        table.rows().iter().map(|row| (Arc::clone(&row.path), row.counters.hits())).collect();
    for (domain, counters) in table.all_overrides() {
        let hits = counters.hits();
        if hits != HitCounts::default() {
            all.push((format!("{domain}.{OTHER}").into(), hits));
        }
    }
    metrics.paths.each(|path, counters| all.push((Arc::clone(path), counters.hits())));
    merge(&mut all);
    all
}

/// Sorts, and adds up what has one name. There can be ten thousand names made
/// by callers: a map would compare far more of their text.
pub(super) fn merge<T: Ord>(hits: &mut Vec<(T, HitCounts)>) {
    hits.sort_by(|one, other| one.0.cmp(&other.0));
    hits.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same {
            kept.1.add(&next.1);
        }
        is_same
    });
}
