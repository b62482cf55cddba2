//! What the page tells about the store.

use super::super::Metrics;
use super::super::exposition::{MetricKind, MetricsPage, Seconds};
use super::histogram;
use crate::stats::{RemoteStats, StoreStats};

/// Adds the store's series.
pub(super) fn add(page: &mut MetricsPage, metrics: &Metrics) {
    let Some(StoreStats { usage, remote }) = metrics.store.get().map(|look| look()) else { return };
    page.single("tollgate_store_keys", MetricKind::Gauge, "Keys that have a state in memory.", usage.keys);
    let bytes = usage.slot_bytes.saturating_add(usage.log_bytes);
    page.single("tollgate_store_bytes", MetricKind::Gauge, "Memory that states take, in bytes.", bytes);
    let help = "Keys dropped although in use, to stay within the bound.";
    page.single("tollgate_store_evicted_total", MetricKind::Counter, help, usage.evicted);
    if let Some(remote) = remote {
        servers(page, &remote);
    }
}

fn servers(page: &mut MetricsPage, stats: &RemoteStats) {
    let help = "1 while some server of the store is given up and its limits are decided without it.";
    page.single("tollgate_store_degraded", MetricKind::Gauge, help, u8::from(stats.is_degraded));
    let help = "Nodes that shared the store when it was last asked, this one included.";
    page.single("tollgate_store_nodes", MetricKind::Gauge, help, stats.nodes);
    let counters = [
        ("tollgate_store_requests_total", "Requests decided.", stats.requests),
        (
            "tollgate_store_degraded_requests_total",
            "Requests of which at least one limit was decided without the store.",
            stats.degraded,
        ),
        (
            "tollgate_store_remembered_denials_total",
            "Requests refused from the memory of denials, without asking the store.",
            stats.denials_remembered,
        ),
        ("tollgate_store_connections_total", "Connections made.", stats.connections),
        ("tollgate_store_given_up_total", "Times that a server was given up for a while.", stats.opened),
        (
            "tollgate_store_script_loads_total",
            "Scripts sent again because a server had forgotten them.",
            stats.script_loads,
        ),
        ("tollgate_store_redirects_total", "Calls followed to another server of a cluster.", stats.redirects),
        (
            "tollgate_store_given_back_total",
            "Charges given back because another server denied.",
            stats.given_back,
        ),
        (
            "tollgate_store_discarded_total",
            "States discarded because they could not be read.",
            stats.discarded,
        ),
    ];
    for (name, help, counter) in counters {
        page.single(name, MetricKind::Counter, help, counter);
    }
    let name = "tollgate_store_failures_total";
    page.family(name, MetricKind::Counter, "Calls that came to nothing, by reason.");
    for (reason, failures) in &stats.failures {
        page.sample(name, &[("reason", reason)], failures);
    }
    let name = "tollgate_store_duration_seconds";
    page.family(name, MetricKind::Histogram, "How long calls to the store take.");
    let buckets: Vec<(String, u64)> = stats
        .round_trips
        .iter()
        .filter_map(|(bound, count)| bound.map(|bound| (Seconds(bound).to_string(), *count)))
        .collect();
    let count = stats.round_trips.last().map_or(0, |(_, count)| *count);
    let sum = Seconds(stats.round_trip_sum_us).to_string();
    histogram(page, name, &[], &buckets, (&sum, count));
}
