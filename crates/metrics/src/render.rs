//! The page for Prometheus: our own series, the reference's, the process's.
//!
//! Reads sums only; `store` tells about the store, and [`super::exposition`] knows the format.
//!
//! Invariant: no series is on the page twice.

mod store;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use tollgate_core::Outcome;

use super::Metrics;
use super::counters::StripedCounters;
use super::exposition::{MetricKind, MetricsPage, Milli, Seconds, labels_text};
use super::hits::HitCounts;
use super::latency::{OURS_US, REFERENCE_MILLI, Times};
use super::levels;
use super::mapper::{MappedName, Series, TimeUnit, default_labels};
use super::process;
use super::snapshot::{Snapshot, hits_by_path, merge};
use super::stats::UpstreamStats;

/// A count and what stands around it is seldom longer.
const COUNT_BYTES_USUAL: usize = 12;
/// The rule that is told where the caller brought the limit.
const OVERRIDE: &str = "override";

/// The page.
pub(super) fn page(metrics: &Metrics) -> String {
    let mut page = MetricsPage::default();
    build(&mut page);
    requests(&mut page, metrics);
    decisions(&mut page, metrics);
    levels::add(&mut page, metrics);
    durations(&mut page, metrics);
    rules(&mut page, metrics);
    limits(&mut page, metrics);
    store::add(&mut page, metrics);
    history(&mut page, metrics);
    gateway(&mut page, metrics);
    deferred(&mut page, metrics);
    access_log(&mut page, metrics);
    load(&mut page, metrics);
    bounds(&mut page, metrics);
    reference(&mut page, metrics);
    process::add(&mut page);
    page.finish()
}

fn build(page: &mut MetricsPage) {
    page.family("tollgate_build_info", MetricKind::Gauge, "What is running; always 1.");
    page.sample("tollgate_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
}

fn requests(page: &mut MetricsPage, metrics: &Metrics) {
    let name = "tollgate_requests_total";
    page.family(name, MetricKind::Counter, "Requests decided, by outcome.");
    for outcome in Outcome::ALL {
        page.sample(name, &[("outcome", outcome.name())], metrics.requests.outcomes(outcome));
    }
}

fn decisions(page: &mut MetricsPage, metrics: &Metrics) {
    let name = "tollgate_decisions_total";
    page.family(name, MetricKind::Counter, "Decisions of each rule, by outcome.");
    let table = metrics.table.load();
    let mut sums: BTreeMap<(&str, &str, &str), [u64; Outcome::ALL.len()]> = BTreeMap::new();
    let mut add = |domain, rule, algorithm, counters: &StripedCounters| {
        let sum = sums.entry((domain, rule, algorithm)).or_default();
        for (sum, outcome) in sum.iter_mut().zip(Outcome::ALL) {
            *sum += counters.outcomes(outcome);
        }
    };
    for row in table.rows() {
        add(&row.domain, &row.name, row.algorithm.name(), &row.counters);
    }
    for (domain, counters) in table.all_overrides() {
        if Outcome::ALL.iter().any(|outcome| counters.outcomes(*outcome) > 0) {
            add(domain, OVERRIDE, "fixed_window", counters);
        }
    }
    for ((domain, rule, algorithm), sums) in sums {
        for (outcome, sum) in Outcome::ALL.iter().zip(sums) {
            let labels =
                [("domain", domain), ("rule", rule), ("algorithm", algorithm), ("outcome", outcome.name())];
            page.sample(name, &labels, sum);
        }
    }
}

fn durations(page: &mut MetricsPage, metrics: &Metrics) {
    let name = "tollgate_request_duration_seconds";
    page.family(
        name,
        MetricKind::Histogram,
        "How long calls take, from the whole request to the whole reply.",
    );
    for (interface, latency) in
        [("grpc", &metrics.should_rate_limit), ("http", &metrics.http), ("resp", &metrics.resp)]
    {
        let times = latency.times();
        let buckets = OURS_US.map(|bound| (Seconds(bound).to_string(), times.up_to(bound)));
        let sum = Seconds(times.sum_us).to_string();
        histogram(page, name, &[("interface", interface)], &buckets, (&sum, times.count()));
    }
}

fn histogram(
    page: &mut MetricsPage,
    name: &str,
    labels: &[(&str, &str)],
    buckets: &[(String, u64)],
    (sum, count): (&str, u64),
) {
    let bucket = format!("{name}_bucket");
    for (bound, count) in
        buckets.iter().map(|(bound, count)| (bound.as_str(), *count)).chain([("+Inf", count)])
    {
        let labels: Vec<_> = labels.iter().copied().chain([("le", bound)]).collect();
        page.sample(&bucket, &labels, count);
    }
    page.sample(&format!("{name}_sum"), labels, sum);
    page.sample(&format!("{name}_count"), labels, count);
}

fn rules(page: &mut MetricsPage, metrics: &Metrics) {
    let table = metrics.table.load();
    let mut by_domain: BTreeMap<&str, u64> = table.rules().domains().map(|domain| (domain, 0)).collect();
    for row in table.rows() {
        *by_domain.entry(&row.domain).or_default() += 1;
    }
    page.family("tollgate_rules", MetricKind::Gauge, "Limits in force in each domain.");
    for (domain, count) in by_domain {
        page.sample("tollgate_rules", &[("domain", domain)], count);
    }
    let loaded = Seconds(metrics.loaded_at_us.load(Ordering::Relaxed));
    let help = "When the rules in force were loaded, in seconds since 1970; 0 if there are none.";
    page.single("tollgate_rules_loaded_timestamp_seconds", MetricKind::Gauge, help, loaded);
    let failed = u8::from(metrics.last_load_failed.load(Ordering::Relaxed));
    let help = "1 if the newest rules were refused and older ones are in force.";
    page.single("tollgate_rules_load_failed", MetricKind::Gauge, help, failed);
    let failed = u8::from(metrics.settings_failed.load(Ordering::Relaxed));
    let help = "1 if the newest tollgate.yaml was refused and what was in force before stays.";
    page.single("tollgate_settings_load_failed", MetricKind::Gauge, help, failed);
}

fn limits(page: &mut MetricsPage, metrics: &Metrics) {
    let table = metrics.table.load();
    let rows: BTreeMap<(&str, &str), (u64, u64)> = table
        .rows()
        .iter()
        .map(|row| ((&*row.domain, &*row.name), (u64::from(row.limit), row.window.get())))
        .collect();
    page.family("tollgate_limit", MetricKind::Gauge, "The number of each rule: so many in a window.");
    for ((domain, rule), (limit, _)) in &rows {
        page.sample("tollgate_limit", &[("domain", domain), ("rule", rule)], limit);
    }
    let name = "tollgate_limit_window_seconds";
    page.family(name, MetricKind::Gauge, "The length of the window of each rule.");
    for ((domain, rule), (_, window_us)) in &rows {
        page.sample(name, &[("domain", domain), ("rule", rule)], Seconds(*window_us));
    }
}

fn gateway(page: &mut MetricsPage, metrics: &Metrics) {
    let upstreams = metrics.gateway.get().map(|look| look()).unwrap_or_default();
    if upstreams.is_empty() {
        return;
    }
    type Look = fn(&UpstreamStats) -> u64;
    let families: [(&str, MetricKind, &str, Look); 5] = [
        (
            "up",
            MetricKind::Gauge,
            "1 if it gets requests; 0 while it is ejected or fails its health checks.",
            |own| u64::from(own.is_up),
        ),
        ("in_flight", MetricKind::Gauge, "Requests that it has at the moment.", |own| {
            u64::try_from(own.in_flight).unwrap_or(u64::MAX)
        }),
        ("requests_total", MetricKind::Counter, "Requests sent to it.", |own| own.requests),
        (
            "failures_total",
            MetricKind::Counter,
            "Connections refused, requests not answered in time or with a 5xx.",
            |own| own.failures,
        ),
        ("ejections_total", MetricKind::Counter, "Times that it got no requests for a while.", |own| {
            own.ejections
        }),
    ];
    for (name, kind, help, look) in families {
        let name = format!("tollgate_gateway_upstream_{name}");
        page.family(&name, kind, help);
        for own in &upstreams {
            page.sample(&name, &[("group", &own.group), ("upstream", &own.upstream)], look(own));
        }
    }
}

fn deferred(page: &mut MetricsPage, metrics: &Metrics) {
    let Some(stats) = metrics.deferred.get().and_then(|look| look()) else { return };
    let help = "Requests that wait to be sent later, or are on their way.";
    page.single("tollgate_deferred_waiting", MetricKind::Gauge, help, stats.waiting);
    let help = "Bytes of requests that wait to be sent later.";
    page.single("tollgate_deferred_waiting_bytes", MetricKind::Gauge, help, stats.waiting_bytes);
    let name = "tollgate_deferred_total";
    page.family(name, MetricKind::Counter, "What happened to requests that are sent later.");
    for (event, count) in stats.events {
        page.sample(name, &[("event", event)], count);
    }
}

fn access_log(page: &mut MetricsPage, metrics: &Metrics) {
    let Some(dropped) = metrics.access_log.get() else { return };
    let help = "Lines missing in the access log of the gateway, because they could not be written in time.";
    page.single("tollgate_access_log_dropped_total", MetricKind::Counter, help, dropped());
}

fn load(page: &mut MetricsPage, metrics: &Metrics) {
    let loads = metrics.domain_loads.get().map(|look| look()).unwrap_or_default();
    if loads.is_empty() {
        return;
    }
    let name = "tollgate_load";
    page.family(name, MetricKind::Gauge, "How loaded the system is, from 0 to 1, as elastic limits see it.");
    for (domain, load) in &loads {
        page.sample(name, &[("domain", domain)], format_args!("{load:.3}"));
    }
}

fn history(page: &mut MetricsPage, metrics: &Metrics) {
    let Some(status) = metrics.history.get().and_then(|status| status()) else { return };
    let is_open = u8::from(status.is_open);
    page.single(
        "tollgate_history_open",
        MetricKind::Gauge,
        "1 if history can be written and asked.",
        is_open,
    );
    let help = "Names that have a series of their own in this process.";
    page.single("tollgate_history_tracked_names", MetricKind::Gauge, help, status.tracked);
    let help = "Flushes that wait to be written.";
    page.single("tollgate_history_waiting_flushes", MetricKind::Gauge, help, status.waiting_flushes);
    let help = "Flushes written.";
    page.single("tollgate_history_flushes_total", MetricKind::Counter, help, status.written_flushes);
    let help = "Attempts to write history that failed.";
    page.single("tollgate_history_failures_total", MetricKind::Counter, help, status.failures);
    let help = "Requests missing in history, because they could not be written in time.";
    page.single("tollgate_history_lost_requests_total", MetricKind::Counter, help, status.lost_requests);
    if let Some(series) = status.series {
        page.single("tollgate_history_series", MetricKind::Gauge, "Named series that are kept.", series);
    }
    if let Some(bytes) = status.disk_bytes {
        page.single(
            "tollgate_history_bytes",
            MetricKind::Gauge,
            "The size of the history file, in bytes.",
            bytes,
        );
    }
}

fn bounds(page: &mut MetricsPage, metrics: &Metrics) {
    let kinds = [("value", &metrics.paths), ("domain", &metrics.domains)];
    page.family("tollgate_metric_paths", MetricKind::Gauge, "Metric paths made of what callers sent.");
    for (kind, paths) in kinds {
        page.sample("tollgate_metric_paths", &[("kind", kind)], paths.len());
    }
    let name = "tollgate_metric_paths_folded_total";
    page.family(
        name,
        MetricKind::Counter,
        "Hits told under a common path because there were too many paths.",
    );
    for (kind, paths) in kinds {
        page.sample(name, &[("kind", kind)], paths.folded());
    }
}

/// Series of one name.
struct Family {
    kind: MetricKind,
    counts: BTreeMap<LabelPairs, u64>,
    times: BTreeMap<LabelPairs, (TimeUnit, Times)>,
}

type LabelPairs = Vec<(String, String)>;
type ReadHits = fn(&HitCounts) -> u64;

/// What the reference shows, by its own mapping or by the operator's.
fn reference(page: &mut MetricsPage, metrics: &Metrics) {
    let snapshot = if metrics.mapper.is_default() {
        let mut snapshot = Snapshot::without_rules(metrics);
        rules_by_default(page, &mut snapshot, metrics);
        snapshot
    } else {
        Snapshot::of(metrics)
    };
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for (dotted, count) in &snapshot.counters {
        // Its name would be made of the rule's: not for nothing.
        if *count == 0 && dotted.ends_with(".over_limit_with_local_cache") {
            continue;
        }
        let mapped = metrics.mapper.map(dotted, MetricKind::Counter);
        if let Some((family, series)) = family_of(&mut families, mapped, MetricKind::Counter) {
            let sum = family.counts.entry(series.labels).or_default();
            *sum = sum.wrapping_add(*count);
        }
    }
    for (dotted, times) in snapshot.timers {
        let mapped = metrics.mapper.map(&dotted, MetricKind::Histogram);
        if let Some((family, series)) = family_of(&mut families, mapped, MetricKind::Histogram) {
            family.times.entry(series.labels).or_insert((series.unit, times));
        }
    }
    for (name, family) in families {
        show(page, &name, family);
    }
}

/// The counters of all rules by the reference's mapping, in one go: with ten
/// thousand paths, mapping one name after the other takes long. What that
/// mapping does not know goes to `others`.
fn rules_by_default(page: &mut MetricsPage, others: &mut Snapshot, metrics: &Metrics) {
    let mut by_labels = Vec::new();
    for (path, hits) in hits_by_path(metrics) {
        match default_labels(&path) {
            Some(labels) => by_labels.push((labels_text(&labels), hits)),
            None => others.hits(&path, &hits),
        }
    }
    merge(&mut by_labels);
    let counters: [(&str, ReadHits); 6] = [
        ("ratelimit_service_rate_limit_total_hits", |hits| hits.total_hits),
        ("ratelimit_service_rate_limit_over_limit", |hits| hits.over_limit),
        ("ratelimit_service_rate_limit_near_limit", |hits| hits.near_limit),
        ("ratelimit_service_rate_limit_within_limit", |hits| hits.within_limit),
        ("ratelimit_service_rate_limit_shadow_mode", |hits| hits.shadow_mode),
        ("ratelimit_service_rate_limit_total_negative_hits", |hits| hits.negative_hits),
    ];
    let labels_bytes: usize = by_labels.iter().map(|(labels, _)| labels.len()).sum();
    for (name, count) in counters.into_iter().filter(|_| !by_labels.is_empty()) {
        page.reserve(labels_bytes + by_labels.len() * (name.len() + COUNT_BYTES_USUAL));
        page.family(name, MetricKind::Counter, help_of(name));
        for (labels, hits) in &by_labels {
            page.sample_of(name, labels, count(hits));
        }
    }
}

/// The family of a series, unless the name is another kind's or ours.
fn family_of(
    families: &mut BTreeMap<String, Family>,
    mapped: MappedName,
    kind: MetricKind,
) -> Option<(&mut Family, Series)> {
    let MappedName::Series(series) = mapped else { return None };
    if ["tollgate_", "process_"].iter().any(|ours| series.name.starts_with(ours)) {
        return None;
    }
    let new = || Family { kind, counts: BTreeMap::new(), times: BTreeMap::new() };
    let family = families.entry(series.name.clone()).or_insert_with(new);
    (family.kind == kind).then_some((family, series))
}

fn show(page: &mut MetricsPage, name: &str, family: Family) {
    page.family(name, family.kind, help_of(name));
    for (labels, count) in &family.counts {
        let labels: Vec<_> = labels.iter().map(|(label, value)| (label.as_str(), value.as_str())).collect();
        page.sample(name, &labels, count);
    }
    for (labels, (unit, times)) in &family.times {
        let labels: Vec<_> = labels.iter().map(|(label, value)| (label.as_str(), value.as_str())).collect();
        let (scale, sum) = match unit {
            TimeUnit::Seconds => (1_000, Seconds(times.sum_us).to_string()),
            TimeUnit::Millis => (1, Milli(times.sum_us).to_string()),
        };
        let buckets = REFERENCE_MILLI.map(|bound| (Milli(bound).to_string(), times.up_to(bound * scale)));
        histogram(page, name, &labels, &buckets, (&sum, times.count()));
    }
}

fn help_of(name: &str) -> &'static str {
    match name.strip_prefix("ratelimit_service_").unwrap_or(name) {
        "rate_limit_total_hits" => "Hits of a rule.",
        "rate_limit_over_limit" => "Hits over the limit of a rule.",
        "rate_limit_near_limit" => "Hits near the limit of a rule.",
        "rate_limit_within_limit" => "Hits within the limit of a rule.",
        "rate_limit_shadow_mode" => "Hits over the limit of a rule that is not enforced.",
        "rate_limit_total_negative_hits" => "Hits given back to a rule.",
        "should_rate_limit_error" => "Calls that got an error and no answer.",
        "total_requests" => "Calls of a gRPC method.",
        "response_time_seconds" => "How long calls of a gRPC method take.",
        "config_load_success" => "Rules loaded.",
        "config_load_error" => "Rules refused.",
        "global_shadow_mode" => "Denials that were not enforced because nothing is.",
        _ => "As envoyproxy/ratelimit tells it.",
    }
}
