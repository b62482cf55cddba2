//! Tests of the mapping, default and written.

use super::*;

/// The mapping that an operator wrote.
fn written(text: &str) -> Result<Mapper, LoadError> {
    Mapper::from_source(SourceFile { name: "statsd.yaml".into(), text: text.into() })
}

fn series(mapper: &Mapper, dotted: &str, kind: MetricKind) -> String {
    match mapper.map(dotted, kind) {
        MappedName::Dropped => "dropped".to_owned(),
        MappedName::Series(series) => {
            let labels: Vec<String> =
                series.labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
            format!("{}{{{}}}", series.name, labels.join(","))
        }
    }
}

fn counter(mapper: &Mapper, dotted: &str) -> String {
    series(mapper, dotted, MetricKind::Counter)
}

#[test]
fn the_default_mapping_is_the_references() {
    let rows = [
        (
            "ratelimit.service.rate_limit.mongo_cps.database_users.total_hits",
            "ratelimit_service_rate_limit_total_hits{domain=mongo_cps,key1=database_users}",
        ),
        (
            "ratelimit.service.rate_limit.d.a_1.b.over_limit",
            "ratelimit_service_rate_limit_over_limit{domain=d,key1=a_1,key2=b}",
        ),
        (
            "ratelimit.service.rate_limit.d.a_1.b.c.d.shadow_mode",
            "ratelimit_service_rate_limit_shadow_mode{domain=d,key1=a_1,key2=b}",
        ),
        (
            "ratelimit.service.rate_limit.d.a.over_limit_with_local_cache",
            "ratelimit_service_rate_limit_d_a_over_limit_with_local_cache{}",
        ),
        (
            "ratelimit.service.rate_limit.foo-bar.domain_not_found",
            "ratelimit_service_rate_limit_foo_bar_domain_not_found{}",
        ),
        (
            "ratelimit.service.call.should_rate_limit.service_error",
            "ratelimit_service_should_rate_limit_error{err_type=service_error}",
        ),
        (
            "ratelimit_server.ShouldRateLimit.total_requests",
            "ratelimit_service_total_requests{grpc_method=ShouldRateLimit}",
        ),
        ("ratelimit.service.config_load_success", "ratelimit_service_config_load_success{}"),
        ("ratelimit.service.config_load_error", "ratelimit_service_config_load_error{}"),
        ("ratelimit.service.global_shadow_mode", "ratelimit_service_global_shadow_mode{}"),
    ];
    for (dotted, expected) in rows {
        assert_eq!(counter(&Mapper::default(), dotted), expected);
    }
    assert_eq!(
        series(&Mapper::default(), "ratelimit_server.ShouldRateLimit.response_time", MetricKind::Histogram),
        "ratelimit_service_response_time_seconds{grpc_method=ShouldRateLimit}"
    );
}

const WRITTEN: &str = r#"
defaults:
  ttl: 1m
mappings:
  - match: "ratelimit.service.rate_limit.*.*.over_limit"
    name: "denied_$2"
    timer_type: histogram
    labels:
      domain: "$1"
  - match: 'ratelimit\.service\.rate_limit\.([^.]+)\.(.*)\.total_hits'
    match_type: regex
    name: hits
    labels: { path: "${2}", domain: "$1" }
  - match: "ratelimit_server.*.response_time"
    match_metric_type: observer
    name: took_seconds
    scale: 0.001
  - match: "."
    match_type: regex
    action: drop
    name: dropped
"#;

#[test]
fn a_written_mapping_is_followed_in_order() {
    let mapper = written(WRITTEN).unwrap();
    let rows = [
        ("ratelimit.service.rate_limit.d.a-b.over_limit", "denied_a_b{domain=d}"),
        ("ratelimit.service.rate_limit.d.a.b.over_limit", "dropped"),
        ("ratelimit.service.rate_limit.d.a.b.total_hits", "hits{domain=d,path=a.b}"),
        ("ratelimit_server.Check.response_time", "dropped"),
    ];
    for (dotted, expected) in rows {
        assert_eq!(counter(&mapper, dotted), expected);
    }
    let MappedName::Series(series) =
        mapper.map("ratelimit_server.Check.response_time", MetricKind::Histogram)
    else {
        panic!("the third mapping is for times")
    };
    assert_eq!((series.name.as_str(), series.unit), ("took_seconds", TimeUnit::Seconds));
}

#[test]
fn a_name_that_nothing_maps_is_flattened() {
    let mapper = written("mappings: []").unwrap();
    assert_eq!(counter(&mapper, "ratelimit.service.x-y*"), "ratelimit_service_x_y_{}");
    assert_eq!(counter(&mapper, "1.x"), "_1_x{}");
}

#[test]
fn a_mistake_is_told_with_its_place() {
    let told = |text: &str| written(text).unwrap_err().to_string();
    assert_eq!(
        told("mappings: 5"),
        "statsd.yaml:1:11: error: mappings must be a list, this is the number '5'; \
         write a list below mappings, each item as - { match: PATTERN, name: NAME }"
    );
    let rows = [
        (
            "name: x\n    match_type: regexp",
            "4:17: error: unknown match_type 'regexp'; write match_type: regex",
        ),
        ("action: keep\n    name: x", "3:13: error: unknown action 'keep'; write map or drop for action"),
        ("labels: {}", "2:5: error: a mapping needs a name; write name: NAME or action: drop"),
        (
            "name: x\n    scale: 7",
            "4:12: error: a scale of '7' is not supported; write 0.001 for seconds, or leave it out",
        ),
        (
            "name: x\n    labels: { \"1a\": b }",
            "4:15: error: '1a' is not the name of a label; write NAME: VALUE, with letters, digits and _ in NAME",
        ),
        (
            "name: x\n    match_metric_type: set",
            "4:24: error: unknown match_metric_type 'set'; write counter, gauge or observer for match_metric_type",
        ),
    ];
    for (rest, expected) in rows {
        let text = format!("mappings:\n  - match: a.b\n    {rest}\n");
        assert_eq!(told(&text), format!("statsd.yaml:{expected}"));
    }
    let told = told("mappings:\n  - name: x\n  - match: '('\n    match_type: regex\n    name: x\n");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        lines,
        [
            "statsd.yaml:2:5: error: a mapping needs match; write match: PATTERN",
            "statsd.yaml:3:12: error: '(' is not a regular expression: unclosed group; write one, or a glob",
        ]
    );
}

#[test]
fn an_absent_file_leaves_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let absent = Mapper::load(&folder.path().join("conf.yaml")).unwrap();
    assert!(absent.mappings.is_none());
    let written = folder.path().join("written.yaml");
    std::fs::write(&written, WRITTEN).unwrap();
    assert_eq!(Mapper::load(&written).unwrap().mappings.map(|all| all.len()), Some(4));
    let unreadable = Mapper::load(folder.path()).unwrap_err().to_string();
    assert!(unreadable.contains("error: cannot be read: "), "{unreadable}");
}
