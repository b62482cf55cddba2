//! Texts of denials that are kept are what would be written anew.

use std::time::Duration;

use tollgate_core::{Descriptor, Entry, Micros, Request, RuleSet};
use tollgate_http::response::{DenialParts, DenialTexts, HeaderLines};
use tollgate_http::{CallerView, RateLimitFields, ResponseSettings};
use tollgate_limiter::{Limiter, ManualClock, MemoryStore, NoSink};
use tollgate_rules::{Options, SourceFile};

const RULES: &str = r#"
domain: shop
descriptors:
  - key: plain
    rate_limit: { name: plain, algorithm: token_bucket, requests_per_unit: 2, unit: minute }
  - key: odd
    rate_limit: { name: 'o"d\d ü', algorithm: sliding_log, requests_per_unit: 3, unit: hour }
  - key: soft
    rate_limit: { name: soft, requests_per_unit: 2, unit: minute, throttle: { soft: { exceed: 50% } } }
  - key: told
    rate_limit: { name: told, requests_per_unit: 1, unit: day, message: 'say "please"' }
  - key: counted
    rate_limit: { name: counted, requests_per_unit: 2, unit: minute, algorithm: sliding_counter, count_rejected: true }
  - key: blocked
    rate_limit: { name: blocked, requests_per_unit: 1, unit: second, penalty: { after: 2, within: 1m, block: 10m } }
  - key: none
    rate_limit: { name: none, requests_per_unit: 0, unit: second }
  - key: two
    rate_limits:
      - { name: short, requests_per_unit: 2, unit: second }
      - { name: long, requests_per_unit: 3, unit: day }
"#;
const KEYS: [&str; 8] = ["plain", "odd", "soft", "told", "counted", "blocked", "none", "two"];

fn rules(text: &str) -> RuleSet {
    let source = SourceFile { name: "rules.yaml".into(), text: text.into() };
    tollgate_rules::load(vec![source], &Options::default()).expect("the rules are right").rules
}

#[derive(Debug, Default)]
struct KeptTexts {
    kept: usize,
    others: usize,
}

/// Compares both ways of writing a denial.
fn compare(view: &CallerView<'_>, texts: &mut DenialTexts, seen: &mut KeptTexts) {
    let Some(DenialParts { lines, body, retry_after_ms, .. }) = texts.find(view, 429) else {
        seen.others += 1;
        return;
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let body = [body, retry_after_ms.to_string().as_bytes(), DenialParts::END].concat();
    assert_eq!(text(&body), text(&view.problem(429).to_bytes()));
    assert_eq!(text(lines), text(view.headers::<HeaderLines>().as_bytes()));
    seen.kept += 1;
}

#[test]
fn a_text_that_was_kept_is_what_would_be_written() {
    let limiter = Limiter::with(rules(RULES), MemoryStore::default(), ManualClock::default(), NoSink);
    let other = RULES.replace("please", "hello").replace("unit: minute", "unit: hour");
    let (mut random, mut texts, mut seen) =
        (fastrand::Rng::with_seed(6585), DenialTexts::default(), KeptTexts::default());
    for round in 0..20_000 {
        if round % 500 == 0 {
            limiter.replace_rules(rules(if round % 1_000 == 0 { RULES } else { &other }));
        }
        limiter.clock().advance(Micros::new(random.u64(..700_000)));
        let entries = [Entry::from((KEYS[random.usize(..KEYS.len())], "x"))];
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("shop", &descriptors).with_cost(random.u64(1..4));
        let reply = limiter.check(&request).at_once();
        if reply.verdict.is_deny() {
            let fields = if random.bool() { RateLimitFields::Draft11 } else { RateLimitFields::Off };
            let settings = ResponseSettings { ratelimit_fields: fields, ..ResponseSettings::default() };
            compare(&CallerView::new(&settings, &request, &reply), &mut texts, &mut seen);
        }
    }
    assert!(seen.kept > 3_000 && seen.others > 1_000, "{seen:?}");
}

#[test]
fn what_chance_or_the_caller_adds_is_not_kept() {
    let limiter = Limiter::with(rules(RULES), MemoryStore::default(), ManualClock::default(), NoSink);
    let entries = [Entry::from(("told", "x"))];
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new("shop", &descriptors);
    limiter.check(&request).at_once();
    let reply = limiter.check(&request).at_once();
    let jitter =
        ResponseSettings { retry_after_jitter: Duration::from_secs(5), ..ResponseSettings::default() };
    let partition = ResponseSettings { partition_keys: true, ..ResponseSettings::default() };
    let mut seen = KeptTexts::default();
    for settings in [&jitter, &partition, &ResponseSettings::default()] {
        compare(&CallerView::new(settings, &request, &reply), &mut DenialTexts::default(), &mut seen);
    }
    assert_eq!((seen.kept, seen.others), (1, 2));
}
