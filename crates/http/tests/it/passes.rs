//! What requests that pass are told from texts that are kept is what would be written anew.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_core::{Descriptor, Entry, Micros, Request, RuleSet};
use tollgate_http::response::{HeaderLines, ResponseHeaders};
use tollgate_http::{CallerView, RateLimitFields, ResponseSettings};
use tollgate_limiter::{Limiter, ManualClock, MemoryStore, NoSink, Reply};
use tollgate_rules::{Options, SourceFile};

const RULES: &str = r#"
domain: shop
descriptors:
  - key: plain
    rate_limit: { name: plain, algorithm: token_bucket, requests_per_unit: 30, unit: minute }
  - key: odd
    rate_limit: { name: 'o"d\d ü', algorithm: sliding_log, requests_per_unit: 300, unit: hour }
  - key: soft
    rate_limit: { name: soft, requests_per_unit: 2, unit: minute, throttle: { soft: { exceed: 50% } } }
  - key: held
    rate_limit: { name: held, algorithm: leaky_bucket, requests_per_unit: 60, burst: 20, unit: minute }
  - key: shadow
    shadow_mode: true
    rate_limit: { name: shadow, requests_per_unit: 1, unit: day }
  - key: quota
    quota_mode: true
    rate_limit: { name: quota, requests_per_unit: 5, unit: minute }
  - key: blocked
    rate_limit: { name: blocked, requests_per_unit: 3, unit: second, penalty: { after: 2, within: 1m, block: 1m } }
  - key: two
    rate_limits:
      - { name: short, requests_per_unit: 2, unit: second }
      - { name: long, requests_per_unit: 300, unit: day }
"#;
const KEYS: [&str; 8] = ["plain", "odd", "soft", "held", "shadow", "quota", "blocked", "two"];

fn rules(text: &str) -> RuleSet {
    let source = SourceFile { name: "rules.yaml".into(), text: text.into() };
    tollgate_rules::load(vec![source], &Options::default()).expect("the rules are right").rules
}

/// What is told with partition keys, which are never kept, without them.
fn written_anew(settings: &ResponseSettings, request: &Request<'_>, view: &CallerView<'_>) -> String {
    let settings = ResponseSettings { partition_keys: true, ..settings.clone() };
    let lines: HeaderLines = CallerView::new(&settings, request, view.reply()).headers();
    let text = String::from_utf8(lines.as_bytes().to_vec()).expect("headers are ASCII");
    let mut parts = text.split(";pk=:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |told, part| told + part.split_once(':').map_or("", |(_, rest)| rest))
}

#[test]
fn requests_that_pass_are_told_what_would_be_written_anew() {
    let limiter = Limiter::with(rules(RULES), MemoryStore::default(), ManualClock::default(), NoSink);
    let other = RULES.replace("name: plain", "name: same").replace("unit: minute", "unit: hour");
    let (mut random, mut told, mut passed) = (fastrand::Rng::with_seed(1310), 0, 0);
    for round in 0..20_000 {
        if round % 500 == 0 {
            limiter.replace_rules(rules(if round % 1_000 == 0 { RULES } else { &other }));
        }
        limiter.clock().advance(Micros::new(random.u64(..1_500_000)));
        let entries = [Entry::from((KEYS[random.usize(..KEYS.len())], "x"))];
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("shop", &descriptors).with_cost(random.u64(..4));
        let reply = limiter.check(&request).at_once();
        let fields = if random.bool() { RateLimitFields::Draft11 } else { RateLimitFields::Off };
        let settings = ResponseSettings { ratelimit_fields: fields, ..ResponseSettings::default() };
        let view = CallerView::new(&settings, &request, &reply);
        let lines = view.headers::<HeaderLines>();
        let headers = view.headers::<ResponseHeaders>().into_iter();
        let headers = headers.map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap()));
        let expected = written_anew(&settings, &request, &view);
        assert_eq!(headers.collect::<String>(), expected);
        assert_eq!(String::from_utf8_lossy(lines.as_bytes()), expected);
        told += usize::from(!expected.is_empty());
        passed += usize::from(!reply.verdict.is_deny());
    }
    assert!(told > 10_000 && passed > 8_000 && passed < 19_000, "{told} {passed}");
}

#[test]
fn jitter_is_for_those_that_are_denied() {
    let limiter = Limiter::with(rules(RULES), MemoryStore::default(), ManualClock::default(), NoSink);
    let entries = [Entry::from(("plain", "x"))];
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new("shop", &descriptors);
    let plain = ResponseSettings::default();
    let jitter = ResponseSettings { retry_after_jitter: Duration::from_secs(5), ..plain.clone() };
    let told = |settings: &ResponseSettings, reply: &Reply| {
        let headers: ResponseHeaders = CallerView::new(settings, &request, reply).headers();
        headers
            .into_iter()
            .map(|(name, value)| (name, value.to_str().unwrap().to_owned()))
            .collect::<Vec<_>>()
    };
    for _ in 0..30 {
        let reply = limiter.check(&request).at_once();
        assert_eq!(told(&jitter, &reply), told(&plain, &reply));
    }
    let denied = limiter.check(&request).at_once();
    let retry_after = |settings| -> Vec<u64> {
        let told = told(settings, &denied).into_iter();
        told.filter(|(name, _)| name == "retry-after").map(|(_, value)| value.parse().unwrap()).collect()
    };
    assert_eq!(retry_after(&plain), [2]);
    let drawn: BTreeSet<Vec<u64>> = (0..500).map(|_| retry_after(&jitter)).collect();
    assert_eq!(drawn, (2..=7).map(|seconds| vec![seconds]).collect());
}
