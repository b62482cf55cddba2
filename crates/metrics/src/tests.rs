//! Tests of counting, and of what is told, through a real limiter.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_core::request::Override;
use tollgate_core::rule::Unit;
use tollgate_core::{Descriptor, Entry, Limit, Micros, Request, RuleSet, Shape, Time};
use tollgate_limiter::{Capacity, Limiter, ManualClock, MemoryStore};
use tollgate_rules::{Options, SourceFile};

use super::*;

const NOW: Time = Time::from_secs(1_000_000);

type Checked = Limiter<MemoryStore, ManualClock, Arc<Metrics>>;

fn rule_set(text: &str) -> RuleSet {
    let source = SourceFile { name: "test.yaml".into(), text: text.into() };
    tollgate_rules::load(vec![source], &Options::default()).unwrap().rules
}

fn limiter_with(text: &str, config: MetricsConfig) -> (Arc<Metrics>, Checked) {
    let metrics = Arc::new(Metrics::new(config));
    let store = MemoryStore::new(Capacity { keys: 100_000, ..Capacity::default() });
    let limiter = Limiter::with(rule_set(text), store, ManualClock::at(NOW), Arc::clone(&metrics));
    metrics.rules_loaded(limiter.rules(), NOW);
    (metrics, limiter)
}

fn limiter(text: &str) -> (Arc<Metrics>, Checked) {
    limiter_with(text, MetricsConfig::default())
}

fn reload(metrics: &Metrics, limiter: &Checked, text: &str) {
    limiter.replace_rules(rule_set(text));
    metrics.rules_loaded(limiter.rules(), NOW);
}

fn ask(limiter: &Checked, domain: &str, entries: &[(&str, &str)]) {
    let entries: Vec<Entry<'_>> = entries.iter().map(|pair| Entry::from(*pair)).collect();
    drop(limiter.check(&Request::new(domain, &[Descriptor::new(&entries)])).at_once());
}

/// What is told under that dotted name, the common beginning left out.
fn dotted(metrics: &Metrics, name: &str) -> Option<u64> {
    let name = format!("ratelimit.service.rate_limit.{name}");
    metrics.dotted().into_iter().find(|(dotted, _)| *dotted == name).map(|(_, count)| count)
}

/// The counters of a path: total, over, near, within, shadow.
fn counters(metrics: &Metrics, path: &str) -> Option<[u64; 5]> {
    let count = |name: &str| dotted(metrics, &format!("{path}.{name}"));
    Some([
        count("total_hits")?,
        count("over_limit")?,
        count("near_limit")?,
        count("within_limit")?,
        count("shadow_mode")?,
    ])
}

fn on_page(metrics: &Metrics, series: &str) -> Option<String> {
    let page = metrics.render();
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned))
}

const ANOTHER: &str = "
domain: another
descriptors:
  - key: key2
    rate_limit: { requests_per_unit: 20, unit: minute }
  - key: key3
    rate_limit: { requests_per_unit: 10, unit: hour }
";

#[test]
fn the_references_base_scenario_counts_as_it_does() {
    let (metrics, limiter) = limiter(ANOTHER);
    for hit in 1..=25 {
        ask(&limiter, "another", &[("key2", "random")]);
        let over = u64::saturating_sub(hit, 20);
        let near = u64::saturating_sub(hit, 16).min(4);
        assert_eq!(counters(&metrics, "another.key2"), Some([hit, over, near, hit.min(20), 0]), "hit {hit}");
    }
    assert_eq!(dotted(&metrics, "another.key2.over_limit_with_local_cache"), Some(0));
    let series = r#"ratelimit_service_rate_limit_over_limit{domain="another",key1="key2"}"#;
    assert_eq!(on_page(&metrics, series).as_deref(), Some("5"));
    assert_eq!(on_page(&metrics, r#"tollgate_requests_total{outcome="denied"}"#).as_deref(), Some("5"));
    assert_eq!(on_page(&metrics, r#"tollgate_requests_total{outcome="allowed"}"#).as_deref(), Some("20"));
}

#[test]
fn a_request_that_meets_two_rules_is_one_request_and_two_decisions() {
    let (metrics, limiter) = limiter(ANOTHER);
    let (first, second) = ([Entry::from(("key2", "x"))], [Entry::from(("key3", "x"))]);
    let descriptors = [Descriptor::new(&first), Descriptor::new(&second)];
    drop(limiter.check(&Request::new("another", &descriptors)).at_once());
    assert_eq!(on_page(&metrics, r#"tollgate_requests_total{outcome="allowed"}"#).as_deref(), Some("1"));
    for rule in ["another.key2", "another.key3"] {
        let series = format!(
            r#"tollgate_decisions_total{{domain="another",rule="{rule}",algorithm="fixed_window",outcome="allowed"}}"#
        );
        assert_eq!(on_page(&metrics, &series).as_deref(), Some("1"), "{rule}");
    }
}

#[test]
fn each_outcome_is_told_by_its_name() {
    let (metrics, limiter) = limiter(
        "
domain: d
descriptors:
  - key: shadow
    shadow_mode: true
    rate_limit: { requests_per_unit: 0, unit: hour }
  - key: soft
    rate_limit: { requests_per_unit: 1, unit: hour, algorithm: token_bucket, throttle: { soft: { exceed: 100% } } }
  - key: queue
    rate_limit: { name: slow, requests_per_unit: 1, unit: hour, algorithm: leaky_bucket, burst: 1 }
",
    );
    for key in ["shadow", "soft", "soft", "queue", "queue", "queue"] {
        ask(&limiter, "d", &[(key, "x")]);
    }
    let rows = [
        ("d.shadow", "fixed_window", "shadow_denied"),
        ("d.soft", "token_bucket", "allowed"),
        ("d.soft", "token_bucket", "soft"),
        ("slow", "leaky_bucket", "allowed"),
        ("slow", "leaky_bucket", "delayed"),
        ("slow", "leaky_bucket", "denied"),
    ];
    for (rule, algorithm, outcome) in rows {
        let series = format!(
            r#"tollgate_decisions_total{{domain="d",rule="{rule}",algorithm="{algorithm}",outcome="{outcome}"}}"#
        );
        assert_eq!(on_page(&metrics, &series).as_deref(), Some("1"), "{series}");
        let expected = if outcome == "allowed" { "2" } else { "1" };
        let series = format!(r#"tollgate_requests_total{{outcome="{outcome}"}}"#);
        assert_eq!(on_page(&metrics, &series).as_deref(), Some(expected), "{series}");
    }
    assert_eq!(counters(&metrics, "d.shadow"), Some([1, 1, 0, 0, 1]));
}

#[test]
fn an_unlimited_or_unmatched_descriptor_counts_no_hits() {
    let (metrics, limiter) =
        limiter("domain: d\ndescriptors:\n  - key: free\n    rate_limit: { unlimited: true }\n");
    ask(&limiter, "d", &[("free", "x")]);
    ask(&limiter, "d", &[("nobody", "x")]);
    let hits = metrics.dotted().into_iter().filter(|(name, _)| name.contains(".rate_limit."));
    assert_eq!(hits.collect::<Vec<_>>(), []);
    assert_eq!(on_page(&metrics, r#"tollgate_requests_total{outcome="allowed"}"#).as_deref(), Some("2"));
}

#[test]
fn an_unknown_domain_counts_each_descriptor_by_name_up_to_a_bound() {
    let (metrics, limiter) = limiter(ANOTHER);
    let entries = [Entry::from(("k", "v"))];
    let descriptors = [Descriptor::new(&entries); 2];
    drop(limiter.check(&Request::new("foo", &descriptors)).at_once());
    assert_eq!(dotted(&metrics, "foo.domain_not_found"), Some(2));
    for n in 0..UNKNOWN_DOMAINS_MAX + 50 {
        ask(&limiter, &format!("made-up-{n}"), &[("k", "v")]);
    }
    let names = metrics.dotted().into_iter().filter(|(name, _)| name.ends_with("domain_not_found"));
    assert_eq!(names.count(), UNKNOWN_DOMAINS_MAX + 1);
    assert_eq!(dotted(&metrics, "other.domain_not_found"), Some(51));
}

#[test]
fn a_refund_is_not_a_hit() {
    let (metrics, limiter) = limiter(ANOTHER);
    ask(&limiter, "another", &[("key2", "x")]);
    let entries = [Entry::from(("key2", "x"))];
    let descriptors = [Descriptor::new(&entries).as_refund()];
    drop(limiter.check(&Request::new("another", &descriptors)).at_once());
    let descriptors = [Descriptor::new(&entries)];
    drop(limiter.refund(&Request::new("another", &descriptors)).at_once());
    assert_eq!(counters(&metrics, "another.key2"), Some([1, 0, 0, 1, 0]));
    assert_eq!(dotted(&metrics, "another.key2.total_negative_hits"), Some(2));
    assert_eq!(on_page(&metrics, r#"tollgate_requests_total{outcome="allowed"}"#).as_deref(), Some("1"));
}

#[test]
fn counts_of_the_same_path_survive_a_reload() {
    let (metrics, limiter) = limiter(ANOTHER);
    ask(&limiter, "another", &[("key2", "x")]);
    ask(&limiter, "another", &[("key3", "x")]);
    // Another limit, another algorithm and another place in the file.
    let changed = "
domain: another
descriptors:
  - key: new
    rate_limit: { requests_per_unit: 1, unit: hour }
  - key: key2
    rate_limit: { requests_per_unit: 9, unit: hour, algorithm: sliding_log }
";
    limiter.replace_rules(rule_set(changed));
    // Between the two steps of a reload nothing is lost.
    ask(&limiter, "another", &[("key2", "x")]);
    ask(&limiter, "another", &[("new", "x")]);
    metrics.rules_loaded(limiter.rules(), NOW);
    ask(&limiter, "another", &[("key2", "x")]);
    assert_eq!(counters(&metrics, "another.key2"), Some([3, 0, 0, 3, 0]));
    assert_eq!(counters(&metrics, "another.new"), Some([1, 0, 1, 1, 0]));
    assert_eq!(counters(&metrics, "another.key3"), None);
    assert_eq!(on_page(&metrics, "ratelimit_service_config_load_success").as_deref(), Some("2"));
}

#[test]
fn a_load_that_failed_is_told_until_one_succeeds() {
    let (metrics, limiter) = limiter(ANOTHER);
    let failed = |metrics: &Metrics| on_page(metrics, "tollgate_rules_load_failed");
    assert_eq!(failed(&metrics).as_deref(), Some("0"));
    metrics.rules_refused();
    assert_eq!(failed(&metrics).as_deref(), Some("1"));
    assert_eq!(on_page(&metrics, "ratelimit_service_config_load_error").as_deref(), Some("1"));
    reload(&metrics, &limiter, ANOTHER);
    assert_eq!(failed(&metrics).as_deref(), Some("0"));
    let loaded = on_page(&metrics, "tollgate_rules_loaded_timestamp_seconds");
    assert_eq!(loaded.as_deref(), Some("1000000"));
}

const VALUES: &str = "
domain: d
descriptors:
  - key: user
    value_to_metric: true
    rate_limits:
      - { requests_per_unit: 5, unit: hour }
      - { requests_per_unit: 9, unit: day }
  - key: path
    value: /api/*
    descriptors:
      - key: method
        detailed_metric: true
        rate_limit: { requests_per_unit: 5, unit: hour }
";

#[test]
fn paths_with_values_are_those_of_the_reference() {
    let (metrics, limiter) = limiter(VALUES);
    ask(&limiter, "d", &[("user", "ann")]);
    ask(&limiter, "d", &[("path", "/api/x"), ("method", "10.0.0.1:80")]);
    assert_eq!(counters(&metrics, "d.user_ann[0]"), Some([1, 0, 0, 1, 0]));
    assert_eq!(counters(&metrics, "d.user_ann[1]"), Some([1, 0, 0, 1, 0]));
    assert_eq!(counters(&metrics, "d.path_/api/x.method_10_0_0_1_80"), Some([1, 0, 0, 1, 0]));
}

#[test]
fn values_that_callers_send_are_bounded_in_number_and_in_length() {
    let (metrics, limiter) =
        limiter_with(VALUES, MetricsConfig { paths_max: 10, ..MetricsConfig::default() });
    for n in 0..100 {
        ask(&limiter, "d", &[("user", &format!("{n}{}", "x".repeat(10_000)))]);
    }
    let of_users: Vec<_> =
        metrics.dotted().into_iter().filter(|(name, _)| name.contains(".d.user")).collect();
    // Ten with a value and two for the rest, seven counters each.
    assert_eq!(of_users.len(), 12 * 7);
    assert!(of_users.iter().all(|(name, _)| name.len() < 256));
    let hits = of_users.iter().filter(|(name, _)| name.ends_with("total_hits")).map(|(_, hits)| hits);
    assert_eq!(hits.sum::<u64>(), 200);
    let folded = on_page(&metrics, r#"tollgate_metric_paths_folded_total{kind="value"}"#);
    assert_eq!(folded.as_deref(), Some("190"));
}

#[test]
fn limits_that_callers_bring_are_bounded_too() {
    let (metrics, limiter) =
        limiter_with(ANOTHER, MetricsConfig { paths_max: 3, ..MetricsConfig::default() });
    let limit = Limit::new(1, Micros::from_secs(60), Shape::FixedWindow).unwrap().counting_rejected(true);
    let brought = Override { limit, unit: Unit::Minute };
    let ask = |value: &str| {
        let entries = [Entry::from(("any", value)), Entry::from(("empty", ""))];
        drop(
            limiter
                .check(&Request::new("another", &[Descriptor::new(&entries).with_limit(&brought)]))
                .at_once(),
        );
    };
    for n in 0..10 {
        ask(&n.to_string());
    }
    ask("0");
    assert_eq!(counters(&metrics, "another.any_0.empty"), Some([2, 1, 1, 1, 0]));
    assert_eq!(counters(&metrics, "another.other"), Some([7, 0, 7, 7, 0]));
    let series = r#"tollgate_decisions_total{domain="another",rule="override",algorithm="fixed_window",outcome="denied"}"#;
    assert_eq!(on_page(&metrics, series).as_deref(), Some("1"));
}

#[test]
fn rules_with_one_label_are_told_by_their_paths() {
    let (metrics, _) = limiter(
        "
domain: d
descriptors:
  - key: a
    rate_limit: { name: twice, requests_per_unit: 1, unit: hour }
  - key: b
    rate_limit: { name: twice, requests_per_unit: 2, unit: hour }
  - key: c
    rate_limit: { name: once, requests_per_unit: 3, unit: minute, unit_multiplier: 5 }
",
    );
    for (rule, limit) in [("d.a", "1"), ("d.b", "2"), ("once", "3")] {
        let series = format!(r#"tollgate_limit{{domain="d",rule="{rule}"}}"#);
        assert_eq!(on_page(&metrics, &series).as_deref(), Some(limit), "{rule}");
    }
    let window = on_page(&metrics, r#"tollgate_limit_window_seconds{domain="d",rule="once"}"#);
    assert_eq!(window.as_deref(), Some("300"));
    assert_eq!(on_page(&metrics, r#"tollgate_rules{domain="d"}"#).as_deref(), Some("3"));
}

#[test]
fn calls_errors_and_the_store_are_told() {
    let (metrics, limiter) = limiter(ANOTHER);
    let limiter = Arc::new(limiter);
    let watched = Arc::clone(&limiter);
    metrics.watch_store(move || StoreStats { usage: watched.store().usage(), remote: None });
    ask(&limiter, "another", &[("key2", "x")]);
    metrics.served(Call::ShouldRateLimit, Micros::new(700));
    metrics.served(Call::ShouldRateLimit, Micros::new(70_000));
    metrics.served(Call::HealthCheck, Micros::new(3));
    metrics.served(Call::Http, Micros::new(30));
    metrics.failed(CallFailure::Service);
    metrics.failed(CallFailure::Store);
    metrics.global_shadow();
    let rows = [
        (r#"ratelimit_service_total_requests{grpc_method="ShouldRateLimit"}"#, "2"),
        (r#"ratelimit_service_total_requests{grpc_method="Check"}"#, "1"),
        (r#"ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.005"}"#, "1"),
        (r#"ratelimit_service_response_time_seconds_sum{grpc_method="ShouldRateLimit"}"#, "0.0707"),
        (r#"ratelimit_service_should_rate_limit_error{err_type="service_error"}"#, "1"),
        (r#"ratelimit_service_should_rate_limit_error{err_type="redis_error"}"#, "1"),
        ("ratelimit_service_global_shadow_mode", "1"),
        (r#"tollgate_request_duration_seconds_bucket{interface="grpc",le="0.001"}"#, "1"),
        (r#"tollgate_request_duration_seconds_bucket{interface="grpc",le="+Inf"}"#, "2"),
        (r#"tollgate_request_duration_seconds_count{interface="http"}"#, "1"),
        ("tollgate_store_keys", "1"),
        ("tollgate_store_evicted_total", "0"),
    ];
    for (series, expected) in rows {
        assert_eq!(on_page(&metrics, series).as_deref(), Some(expected), "{series}");
    }
    let dotted = metrics.dotted();
    assert!(dotted.is_sorted());
    assert!(dotted.contains(&("tollgate.store.keys".to_owned(), 1)));
    assert!(dotted.contains(&("ratelimit_server.ShouldRateLimit.total_requests".to_owned(), 2)));
}

#[test]
fn times_are_in_milliseconds_where_that_is_asked_for() {
    let config = MetricsConfig { mapper: Mapper::default_in_millis(), ..MetricsConfig::default() };
    let (metrics, _) = limiter_with(ANOTHER, config);
    metrics.served(Call::ShouldRateLimit, Micros::new(7_500));
    let bucket = |le: &str| {
        let name = "ratelimit_service_response_time_seconds_bucket";
        on_page(&metrics, &format!(r#"{name}{{grpc_method="ShouldRateLimit",le="{le}"}}"#))
    };
    assert_eq!((bucket("5").as_deref(), bucket("10").as_deref()), (Some("0"), Some("1")));
    let sum =
        on_page(&metrics, r#"ratelimit_service_response_time_seconds_sum{grpc_method="ShouldRateLimit"}"#);
    assert_eq!(sum.as_deref(), Some("7.5"));
}

#[test]
fn a_mapping_of_the_operators_replaces_the_default() {
    let mapper = Mapper::from_source(SourceFile {
        name: "statsd.yaml".into(),
        text: "mappings:\n  - match: ratelimit.service.rate_limit.*.*.total_hits\n    name: hits\n    \
         labels: { of: $1.$2 }\n  - match: ratelimit_server.*.total_requests\n    action: drop\n  \
         - match: ratelimit.service.config_load_success\n    name: tollgate_requests_total\n"
            .into(),
    });
    let (metrics, limiter) =
        limiter_with(ANOTHER, MetricsConfig { mapper: mapper.unwrap(), ..MetricsConfig::default() });
    ask(&limiter, "another", &[("key2", "x")]);
    assert_eq!(on_page(&metrics, r#"hits{of="another.key2"}"#).as_deref(), Some("1"));
    let page = metrics.render();
    assert!(!page.contains("total_requests"), "dropped");
    assert!(page.contains("\nratelimit_service_rate_limit_another_key2_within_limit 1\n"), "flattened");
    assert_eq!(page.matches("# TYPE tollgate_requests_total ").count(), 1, "ours stays ours");
}

#[test]
fn the_page_is_lawful_whatever_callers_send() {
    let (metrics, limiter) = limiter(VALUES);
    for value in ["\"} 1", "a\nb", "\\", "ünï", "", "tab\t", "x{y=\"z\"}"] {
        ask(&limiter, "d", &[("user", value)]);
        ask(&limiter, value, &[("user", "x")]);
    }
    check_page(&metrics.render());
}

/// Every sample has a family with help and type, every series is there once,
/// and families are in one piece.
fn check_page(page: &str) {
    assert!(page.ends_with('\n'));
    let (mut kinds, mut seen, mut family) = (HashMap::new(), HashSet::new(), String::new());
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap().to_owned();
            continue;
        }
        if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of.split_once(' ').unwrap();
            assert_eq!(name, family, "the type follows the help");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(seen.insert(series.to_owned()), "{series} twice");
        let name = series.split('{').next().unwrap();
        let is_lawful = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(name.chars().all(is_lawful), "{line}");
        let suffixes = ["", "_bucket", "_sum", "_count"];
        assert!(suffixes.iter().any(|suffix| format!("{family}{suffix}") == name), "{line} in {family}");
    }
    assert!(kinds.len() > 20, "{} families", kinds.len());
}

#[test]
fn readers_who_come_together_share_one_page() {
    let (metrics, limiter) = limiter(ANOTHER);
    let first = metrics.page(NOW);
    ask(&limiter, "another", &[("key2", "x")]);
    let second = metrics.page(NOW + Micros::new(999_999));
    assert!(Arc::ptr_eq(&first, &second), "the first reader still has it");
    let later = metrics.page(NOW + Micros::SECOND);
    assert!(
        !Arc::ptr_eq(&first, &later) && later.contains("tollgate_requests_total{outcome=\"allowed\"} 1\n")
    );
    drop(later);
    ask(&limiter, "another", &[("key2", "x")]);
    let fresh = metrics.page(NOW + Micros::SECOND);
    assert!(fresh.contains("tollgate_requests_total{outcome=\"allowed\"} 2\n"), "nobody read the last one");
}
