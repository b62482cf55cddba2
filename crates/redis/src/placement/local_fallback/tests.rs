//! What each limit decides without the store, and on whose clock.

use super::*;
use tollgate_core::{Entry, Mode, Refill};

const ALONE: Outage = Outage { age: Micros::ZERO, nodes: 1 };
const OF_THREE: Outage = Outage { age: Micros::ZERO, nodes: 3 };
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
    local
        .check(&charge_set, Time::from_secs(100), ALONE)
        .iter()
        .map(|decision| decision.verdict.is_deny())
        .collect()
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

/// How many charges are admitted at one instant, until one is denied.
fn admitted(local: &LocalFallback, limit: &Limit, now: Time, outage: Outage) -> u32 {
    let charge_set = ChargeSet { charges: smallvec::smallvec![charge(limit, 0)], ..ChargeSet::default() };
    let passes = || !local.check(&charge_set, now, outage)[0].verdict.is_deny();
    (0..).take_while(|_| passes()).count().try_into().unwrap()
}

#[test]
fn every_algorithm_starts_at_its_share_of_a_key_that_was_never_seen() {
    for shape in [
        Shape::FixedWindow,
        Shape::SlidingLog,
        Shape::SlidingCounter,
        Shape::SlidingBuckets { buckets: 6 },
        Shape::TokenBucket { burst: 100, refill: Refill::Smooth },
        Shape::TokenBucket { burst: 100, refill: Refill::Interval },
        Shape::LeakyBucket { burst: 99, max_wait: None },
    ] {
        let limit = Limit::new(100, Micros::from_secs(60), shape).unwrap();
        let local = LocalFallback::new(Capacity::default());
        assert_eq!(admitted(&local, &limit, Time::from_secs(100), OF_THREE), 33, "{shape:?}");
        let soft = LocalFallback::new(Capacity::default());
        assert_eq!(
            admitted(&soft, &limit.soft(50).unwrap(), Time::from_secs(100), OF_THREE),
            49,
            "{shape:?}"
        );
    }
}

#[test]
fn a_node_goes_on_from_what_it_saw_until_that_has_faded() {
    let local = LocalFallback::new(Capacity::default());
    let limit = limit(90, OnStoreError::Local);
    let now = Time::from_secs(100);
    let (_, change) = decide(None, &limit, now, Operation::Report, 30);
    let tollgate_core::Change::Put(state) = change else { panic!("30 of 90 are used") };
    local.learn(&charge(&limit, 0), Some(state), now);
    assert_eq!(admitted(&local, &limit, now, OF_THREE), 60, "of which nobody else knows");
    let faded = Outage { age: Micros::from_secs(60), ..OF_THREE };
    for minute in 1..4 {
        let now = Time::from_secs(100 + 60 * minute);
        assert_eq!(admitted(&local, &limit, now, faded), 30, "each minute its share");
    }
    local.reset(&charge(&limit, 0).key);
    assert_eq!(admitted(&local, &limit, Time::from_secs(280), faded), 30, "a reset gives its share back");
}

#[test]
fn a_share_is_told_in_numbers_of_the_whole_limit() {
    let local = LocalFallback::new(Capacity::default());
    let limit = limit(90, OnStoreError::Local);
    let check = |cost| {
        let charges = smallvec::smallvec![Charge { cost, ..charge(&limit, 0) }];
        let charge_set = ChargeSet { charges, ..ChargeSet::default() };
        local.check(&charge_set, Time::from_secs(100), OF_THREE)[0]
    };
    let first = check(10);
    assert_eq!((first.limit, first.used, first.remaining), (90, 70, 20));
    assert_eq!(check(31).verdict, Verdict::Deny { retry_after: Some(DENY_RETRY_AFTER) }, "later, not never");
    assert_eq!(check(91).verdict, Verdict::Deny { retry_after: None });
}
