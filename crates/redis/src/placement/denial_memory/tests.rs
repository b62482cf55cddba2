//! What is remembered, for how long, and what makes it forgotten.

use super::*;
use tollgate_core::{Entry, Limit, Micros, Mode, Shape};

const NOW: Time = Time::from_secs(1000);
const ENTRIES: [Entry<'static>; 1] = [Entry { key: "user", value: "42" }];

fn charge(limit: &Limit) -> Charge<'_> {
    let key = Key { domain: "shop", entries: &ENTRIES, shared: &[], limit, ordinal: 0 };
    Charge { descriptor: 0, rule: None, key, mode: Mode::Enforce, operation: Operation::Check, cost: 1 }
}

fn limit(count: u32, shape: Shape) -> Limit {
    Limit::new(count, Micros::from_secs(60), shape).unwrap()
}

fn denied(seconds: u64) -> Decision {
    let retry_after = Some(Micros::from_secs(seconds));
    let reset_after = Micros::from_secs(seconds + 5);
    Decision {
        verdict: Verdict::Deny { retry_after },
        limit: 9,
        used: 9,
        remaining: 0,
        reset_after,
        soft: false,
        blocked_for: Micros::from_secs(seconds),
    }
}

fn at(seconds: u64) -> Time {
    NOW + Micros::from_secs(seconds)
}

#[test]
fn a_denial_is_told_again_until_its_time_and_not_longer() {
    let denials = DenialMemory::new(10_000).unwrap();
    let limit = limit(9, Shape::SlidingLog);
    denials.remember(&charge(&limit), &denied(10), NOW, denials.version());
    let told = denials.recall(&charge(&limit), at(4)).unwrap();
    assert_eq!(told, Decision { reset_after: Micros::from_secs(11), ..denied(6) });
    assert_eq!(denials.recall(&charge(&limit), at(10)), None);
}

#[test]
fn another_rule_another_cost_and_another_operation_are_not_found() {
    let denials = DenialMemory::new(10_000).unwrap();
    let nine = limit(9, Shape::SlidingLog);
    denials.remember(&charge(&nine), &denied(10), NOW, denials.version());
    assert!(denials.recall(&charge(&limit(10, Shape::SlidingLog)), NOW).is_none(), "a raised limit");
    assert!(denials.recall(&Charge { cost: 2, ..charge(&nine) }, NOW).is_none());
    for operation in [Operation::Peek, Operation::Report, Operation::Refund] {
        assert!(denials.recall(&Charge { operation, ..charge(&nine) }, NOW).is_none());
    }
    assert!(denials.recall(&charge(&nine), NOW).is_some());
}

#[test]
fn what_is_given_back_is_forgotten_and_so_is_what_was_on_its_way() {
    let denials = DenialMemory::new(10_000).unwrap();
    let limit = limit(9, Shape::SlidingLog);
    let version = denials.version();
    denials.remember(&charge(&limit), &denied(10), NOW, version);
    denials.forget(&charge(&limit).key);
    assert!(denials.recall(&charge(&limit), NOW).is_none());
    denials.remember(&charge(&limit), &denied(10), NOW, version);
    assert!(denials.recall(&charge(&limit), NOW).is_none(), "asked before it was given back");
}

#[test]
fn limits_that_count_rejected_requests_are_remembered_only_in_fixed_windows() {
    let denials = DenialMemory::new(10_000).unwrap();
    for (shape, is_known) in [(Shape::SlidingLog, false), (Shape::FixedWindow, true)] {
        let limit = limit(9, shape).counting_rejected(true);
        denials.remember(&charge(&limit), &denied(10), NOW, denials.version());
        assert_eq!(denials.recall(&Charge { cost: 3, ..charge(&limit) }, NOW).is_some(), is_known);
    }
}

#[test]
fn the_memory_stays_within_its_bytes() {
    let denials = DenialMemory::new(1000).unwrap();
    assert!(size_of_val(&*denials.sets) <= 1000);
    assert!(DenialMemory::new(10).is_none());
    let limits: Vec<_> = (1..100).map(|seconds| limit(seconds, Shape::SlidingLog)).collect();
    let values: Vec<_> = (0..100).map(|value| value.to_string()).collect();
    let mut known = 0;
    for (limit, value) in limits.iter().zip(&values) {
        let entries = [Entry { key: "user", value }];
        let mut charge = charge(limit);
        charge.key.entries = &entries;
        denials.remember(&charge, &denied(10), NOW, denials.version());
        known += u32::from(denials.recall(&charge, NOW).is_some());
    }
    assert_eq!(known, 99, "the newest is always known");
}
