//! What each limit decides without the store, and on whose clock.

use super::*;
use tollgate_core::{Entry, Mode, Refill};

const ALONE: u32 = 1;
const OF_THREE: u32 = 3;
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
fn admitted(local: &LocalFallback, limit: &Limit, now: Time, nodes: u32) -> u32 {
    let charge_set = ChargeSet { charges: smallvec::smallvec![charge(limit, 0)], ..ChargeSet::default() };
    let passes = || !local.check(&charge_set, now, nodes)[0].verdict.is_deny();
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
fn what_a_node_saw_counts_until_it_fades_and_the_share_all_along() {
    let local = LocalFallback::new(Capacity::default());
    let limit = limit(90, OnStoreError::Local);
    let now = Time::from_secs(100);
    let (_, change) = decide(None, &limit, now, Operation::Report, 70);
    let tollgate_core::Change::Put(state) = change else { panic!("70 of 90 are used") };
    local.learn(&charge(&limit, 0), Some(state), now);
    assert_eq!(admitted(&local, &limit, now, OF_THREE), 20, "what was left");
    assert_eq!(admitted(&local, &limit, Time::from_secs(159), OF_THREE), 0);
    for minute in 1..4 {
        let now = Time::from_secs(100 + 60 * minute);
        assert_eq!(admitted(&local, &limit, now, OF_THREE), 30, "each minute its share");
    }
    local.reset(&charge(&limit, 0).key);
    assert_eq!(admitted(&local, &limit, Time::from_secs(280), OF_THREE), 30, "a reset gives its share back");
}

#[test]
fn the_shares_of_all_nodes_are_no_more_than_the_limit_or_one_each() {
    for (count, percent, nodes) in
        [(100, 0, 3), (100, 50, 3), (2, 0, 3), (2, 100, 3), (4, 10, 3), (5, 1_000, 7), (1, 1_000, 2)]
    {
        for shape in [
            Shape::FixedWindow,
            Shape::TokenBucket { burst: count, refill: Refill::Smooth },
            Shape::LeakyBucket { burst: count - 1, max_wait: None },
        ] {
            let limit = Limit::new(count, Micros::from_secs(60), shape).unwrap();
            let limit = if percent == 0 { limit } else { limit.soft(percent).unwrap() };
            let all = u64::from(nodes) * share(&limit, nodes).hard_capacity();
            assert!(all <= limit.hard_capacity().max(nodes.into()), "{limit:?} of {nodes}: {all}");
            assert!(all * 2 >= limit.hard_capacity(), "{limit:?} of {nodes}: {all}");
        }
    }
}

#[test]
fn a_bucket_that_hardly_fills_in_time_has_a_share_too() {
    let years_50 = tollgate_core::limit::WINDOW_MAX;
    let shape = Shape::TokenBucket { burst: 10, refill: Refill::Smooth };
    let limit = Limit::new(5, years_50, shape).unwrap();
    assert!(share(&limit, 3).capacity() <= 3, "{:?}", share(&limit, 3));
}

#[test]
fn a_shadow_limit_is_told_by_its_share_and_fills_nothing_for_nothing() {
    let local = LocalFallback::new(Capacity::default());
    let limit = limit(30, OnStoreError::Local);
    let charges = smallvec::smallvec![Charge { mode: Mode::Shadow, ..charge(&limit, 0) }];
    let charge_set = ChargeSet { charges, ..ChargeSet::default() };
    for minute in 1..5 {
        let now = Time::from_secs(60 * minute);
        let passes = |_: &u32| !local.check(&charge_set, now, OF_THREE)[0].verdict.is_deny();
        assert_eq!((0..100).filter(passes).count(), 10, "minute {minute}");
    }
    // Beside a limit that is enforced it denies nothing.
    let enforced = self::limit(900, OnStoreError::Local);
    let charges =
        smallvec::smallvec![charge(&enforced, 1), Charge { mode: Mode::Shadow, ..charge(&limit, 0) }];
    let charge_set = ChargeSet { charges, ..ChargeSet::default() };
    for _ in 0..100 {
        let decisions = local.check(&charge_set, Time::from_secs(400), OF_THREE);
        assert!(!charge_set.is_denied(&decisions), "{decisions:?}");
    }
    assert_eq!(local.check(&charge_set, Time::from_secs(400), OF_THREE)[0].remaining, 300 - 101);
}

#[test]
fn who_is_denied_by_the_share_is_struck() {
    let local = LocalFallback::new(Capacity::default());
    let penalty = tollgate_core::Penalty::new(2, Micros::from_secs(60), Micros::from_secs(600)).unwrap();
    let limit = limit(3, OnStoreError::Local).with_penalty(Some(penalty));
    let own = charge(&limit, 0);
    let charges = smallvec::smallvec![own, own.penalty(Operation::Check).unwrap()];
    let charge_set = ChargeSet { charges, ..ChargeSet::default() };
    let check = |second| {
        let decisions = local.check(&charge_set, Time::from_secs(second), OF_THREE);
        assert_eq!(decisions.len(), 2);
        decisions.iter().map(|decision| decision.verdict.is_deny()).collect::<Vec<_>>()
    };
    assert_eq!(check(100), [false, false], "its share is one");
    assert!(check(100)[0]);
    check(100);
    assert!(check(200)[1], "blocked for ten minutes");
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
