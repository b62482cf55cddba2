//! What each limit decides without the store, and on whose clock.

use super::*;
use tollgate_core::{Entry, Key, Limit, Mode, Shape};

const ENTRIES: [Entry<'static>; 1] = [Entry { key: "user", value: "42" }];

fn charge(limit: &Limit, ordinal: u32) -> Charge<'_> {
    let key = Key { domain: "shop", entries: &ENTRIES, shared: &[], limit, ordinal };
    Charge { descriptor: 0, rule: None, key, mode: Mode::Enforce, operation: Operation::Check, cost: 1 }
}

fn limit(count: u32, rule: OnStoreError) -> Limit {
    Limit::new(count, Micros::from_secs(60), Shape::SlidingLog).unwrap().with_on_store_error(rule)
}

fn check(local: &LocalFallback, limits: &[Limit]) -> Vec<bool> {
    let charges = limits.iter().zip(0..).map(|(limit, ordinal)| charge(limit, ordinal));
    let charge_set = ChargeSet { charges: charges.collect(), ..ChargeSet::default() };
    local.check(&charge_set, Time::from_secs(100)).iter().map(|decision| decision.verdict.is_deny()).collect()
}

#[test]
fn what_one_limit_denies_is_not_taken_from_the_others() {
    let local = LocalFallback::new(Capacity { keys: 100, log_bytes: 10_000 });
    let (one, deny) = (limit(1, OnStoreError::Local), limit(1, OnStoreError::Deny));
    assert_eq!(check(&local, &[one, deny]), [false, true]);
    assert_eq!(check(&local, &[one, limit(1, OnStoreError::Allow)]), [false, false], "and is still there");
    assert_eq!(check(&local, &[one, limit(1, OnStoreError::Allow)]), [true, false]);
}

#[test]
fn the_store_s_clock_is_known_from_its_answers() {
    let local = LocalFallback::new(Capacity::default());
    assert_eq!(local.store_time(Time::from_secs(100)), Time::from_secs(100));
    local.learn_clock(Time::from_secs(100), Time::from_secs(400));
    assert_eq!(local.store_time(Time::from_secs(101)), Time::from_secs(401));
    local.learn_clock(Time::from_secs(400), Time::from_secs(100));
    assert_eq!(local.store_time(Time::from_secs(401)), Time::from_secs(101));
}
