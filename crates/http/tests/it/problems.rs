//! The body of a denial, in words.

use std::time::Duration;

use tollgate_core::{Descriptor, Entry, Request, Verdict};
use tollgate_http::{CallerView, RateLimitFields, ResponseSettings};
use tollgate_limiter::{Limiter, ManualClock, MemoryStore, NoSink};
use tollgate_rules::{Options, SourceFile};

const RULES: &str = "
domain: shop
descriptors:
  - key: login
    rate_limit: { name: login, algorithm: sliding_log, requests_per_unit: 2, unit: hour }
  - key: banned
    rate_limit: { name: banned, requests_per_unit: 0, unit: year }
  - key: counted
    rate_limits:
      - { name: short, requests_per_unit: 1, unit: hour }
      - { name: long, requests_per_unit: 2, unit: day }
";

fn limiter() -> Limiter<MemoryStore, ManualClock, NoSink> {
    let source = SourceFile { name: "rules.yaml".into(), text: RULES.into() };
    let rules = tollgate_rules::load(vec![source], &Options::default()).expect("the rules are right").rules;
    Limiter::with(rules, MemoryStore::default(), ManualClock::default(), NoSink)
}

fn settings() -> ResponseSettings {
    ResponseSettings {
        ratelimit_fields: RateLimitFields::Off,
        partition_keys: false,
        retry_after_jitter: Duration::ZERO,
    }
}

/// The detail of a denial and the limits it names, after so many requests that passed.
fn denial(key: &str, cost: u64, passed: usize) -> (String, Vec<String>) {
    let limiter = limiter();
    let entries = [Entry::from((key, "x"))];
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new("shop", &descriptors);
    for _ in 0..passed {
        assert!(!limiter.check(&request).at_once().verdict.is_deny());
    }
    let request = request.with_cost(cost);
    let reply = limiter.check(&request).at_once();
    assert!(reply.verdict.is_deny());
    let problem = CallerView::new(&settings(), &request, &reply).problem(429);
    (problem.detail, problem.violated_policies)
}

fn detail(key: &str, cost: u64, passed: usize) -> String {
    denial(key, cost, passed).0
}

#[test]
fn a_denial_says_what_the_caller_can_do() {
    let used_up = detail("login", 1, 2);
    assert!(used_up.starts_with("the limit 'login' of 2 per 1h is used up; try again in "), "{used_up}");
    let left = detail("login", 2, 1);
    assert!(left.starts_with("the limit 'login' of 2 per 1h has 1 left and this takes 2; try"), "{left}");
    let never = "a cost of 3 is more than the limit 'login' of 2 per 1h ever lets through; send less";
    assert_eq!(detail("login", 3, 0), never);
}

/// Nobody can send less than one request.
#[test]
fn a_limit_of_zero_does_not_ask_for_less() {
    assert_eq!(detail("banned", 1, 0), "the limit 'banned' lets nothing through");
}

/// The second one fills `long`, which let it pass, and has to be waited for.
#[test]
fn a_denial_is_explained_by_a_limit_that_denies() {
    let (detail, violated) = denial("counted", 1, 1);
    assert_eq!(detail, "the limit 'short' of 1 per 1h is used up; try again in 86400 s");
    assert_eq!(violated, ["short"]);
}

/// Each of three would fit a limit of two, but never all of them.
#[test]
fn what_never_fits_is_not_told_to_be_used_up() {
    let limiter = limiter();
    let entries = [Entry::from(("login", "a"))];
    let descriptors = [Descriptor::new(&entries); 3];
    let request = Request::new("shop", &descriptors);
    let reply = limiter.check(&request).at_once();
    assert_eq!(reply.verdict, Verdict::Deny { retry_after: None });
    let problem = CallerView::new(&settings(), &request, &reply).problem(429);
    let never =
        "this request takes more at once than the limit 'login' of 2 per 1h ever lets through; send less";
    assert_eq!((problem.detail.as_str(), problem.retry_after_ms), (never, None));
}
