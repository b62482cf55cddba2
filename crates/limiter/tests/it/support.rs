//! Limiters on a clock of their own, and short ways to ask them.

use std::sync::Arc;

use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
use tollgate_core::{Descriptor, Entry, Limit, Micros, Mode, Refill, Request, RuleSet, Shape, Time, Unit};
use tollgate_limiter::{Capacity, Limiter, ManualClock, MemoryStore, NoSink, Reply};

pub(crate) type TestLimiter = Limiter<MemoryStore, Arc<ManualClock>, NoSink>;

/// Noon of some day, away from the edges of minutes and hours.
pub(crate) const START: Time = Time::from_secs(1_767_268_800);

/// Every algorithm with its own parameters at `count`.
pub(crate) fn shapes(count: u32) -> [Shape; 7] {
    [
        Shape::FixedWindow,
        Shape::SlidingLog,
        Shape::SlidingCounter,
        Shape::SlidingBuckets { buckets: 60 },
        Shape::TokenBucket { burst: count, refill: Refill::Smooth },
        Shape::TokenBucket { burst: count, refill: Refill::Interval },
        // One leaves at once and the others wait.
        Shape::LeakyBucket { burst: count - 1, max_wait: None },
    ]
}

pub(crate) fn limit(count: u32, shape: Shape) -> Limit {
    Limit::new(count, Micros::from_secs(3_600), shape).unwrap()
}

pub(crate) fn rule(label: &str, limit: Limit, mode: Mode) -> RuleSpec {
    RuleSpec { label: label.into(), mode, ..RuleSpec::new(limit, Unit::Hour) }
}

pub(crate) fn node(key: &str, rules: Vec<RuleSpec>) -> DescriptorSpec {
    DescriptorSpec { key: key.into(), limits: LimitsSpec::Limits(rules), ..Default::default() }
}

pub(crate) fn rules(descriptors: Vec<DescriptorSpec>) -> RuleSet {
    RuleSet::new(vec![DomainSpec { name: "d".into(), descriptors, ..Default::default() }]).unwrap()
}

pub(crate) fn limiter(descriptors: Vec<DescriptorSpec>) -> TestLimiter {
    bounded(descriptors, Capacity::default())
}

pub(crate) fn bounded(descriptors: Vec<DescriptorSpec>, capacity: Capacity) -> TestLimiter {
    let clock = Arc::new(ManualClock::at(START));
    Limiter::with(rules(descriptors), MemoryStore::new(capacity), clock, NoSink)
}

/// What is asked of a limiter.
pub(crate) fn with_request<R>(entries: &[(&str, &str)], ask: impl FnOnce(&Request<'_>) -> R) -> R {
    let entries: Vec<[Entry<'_>; 1]> = entries.iter().map(|&entry| [entry.into()]).collect();
    let descriptors: Vec<Descriptor<'_>> = entries.iter().map(|entry| Descriptor::new(entry)).collect();
    ask(&Request::new("d", &descriptors))
}

/// Asks once, with one descriptor for each entry.
pub(crate) fn check(limiter: &TestLimiter, entries: &[(&str, &str)]) -> Reply {
    with_request(entries, |request| limiter.check(request).at_once())
}

/// Two limiters have numbers of their own for the same key.
pub(crate) fn without_number(decision: &tollgate_limiter::RuleDecision) -> tollgate_limiter::RuleDecision {
    let mut decision = *decision;
    decision.key_number = None;
    decision
}
