//! A clock that was a day ahead for two seconds, as spec/algorithms/README.md says.
//!
//! In true time a key uses some of its limit, then its clock is a day ahead and
//! the key is used up, then the clock is back.

use tollgate_core::{Charge, Entry, Key, Limit, Micros, Mode, Operation, Time, Verdict};
use tollgate_limiter::{Capacity, ChargeSet, MemoryStore};

use crate::support::{START, limit, shapes};

const LIMIT: u32 = 6;
const BEFORE: u32 = 2;
const WINDOW: Micros = Micros::from_secs(3_600);
const DAY: Micros = Micros::from_secs(86_400);
const ENTRIES: [Entry<'static>; 1] = [Entry { key: "user", value: "42" }];

fn limits() -> impl Iterator<Item = Limit> {
    shapes(LIMIT).into_iter().flat_map(|shape| {
        let plain = limit(LIMIT, shape);
        [plain, plain.counting_rejected(true)]
    })
}

fn charge(limit: &Limit) -> Charge<'_> {
    let key = Key { domain: "d", entries: &ENTRIES, shared: &[], limit, ordinal: 0 };
    Charge { descriptor: 0, rule: None, key, mode: Mode::Enforce, operation: Operation::Check, cost: 1 }
}

/// The answer to all these charges together.
fn ask<const N: usize>(store: &MemoryStore, charges: [Charge<'_>; N], now: Time) -> Verdict {
    let set = ChargeSet { charges: charges.into_iter().collect(), ..ChargeSet::default() };
    let decisions = store.decide(&set, now);
    let denied = decisions.iter().find(|decision| decision.verdict.is_deny());
    denied.or(decisions.first()).unwrap().verdict
}

/// How many of so many requests at one instant are admitted.
fn admitted(store: &MemoryStore, limit: &Limit, now: Time, requests: u32) -> u32 {
    (0..requests).map(|_| u32::from(!ask(store, [charge(limit)], now).is_deny())).sum()
}

/// A store with a key that was used up while the clock was a day ahead, after
/// some use before; and the true time when it is back.
fn used_up_ahead(limit: &Limit) -> (MemoryStore, Time) {
    let store = MemoryStore::default();
    assert_eq!(admitted(&store, limit, START, BEFORE), BEFORE);
    // Not one denied, which would count where rejected requests do.
    assert_eq!(admitted(&store, limit, START + DAY, LIMIT), LIMIT, "{limit:?}");
    (store, START + Micros::from_secs(2))
}

/// Until when a key is denied, asked every minute from `now` on.
fn denied_until(now: Time, mut ask: impl FnMut(Time) -> Verdict) -> Time {
    let every = Micros::from_secs(60);
    (0..3 * 24 * 60).map(|minute| now + every.times(minute)).find(|now| !ask(*now).is_deny()).unwrap()
}

fn assert_is_back(limit: &Limit, store: &MemoryStore, back: Time) {
    assert_eq!(admitted(store, limit, back, 1), 0, "nothing that was admitted is admitted again: {limit:?}");
    let retry_after = ask(store, [charge(limit)], back).blocked_for();
    // Where rejected requests count, those two do.
    let longest = WINDOW.times(if limit.counts_rejected() { 2 } else { 1 });
    assert!(retry_after <= longest + Micros::from_secs(60), "{retry_after} {limit:?}");
    if !limit.counts_rejected() {
        let in_window: u32 =
            (0..60).map(|minute| admitted(store, limit, back + Micros::from_secs(60 * minute), 9)).sum();
        assert!(in_window <= LIMIT, "{in_window} within a window of true time: {limit:?}");
    }
    let fresh = back + WINDOW.times(3);
    assert_eq!(admitted(store, limit, fresh, LIMIT), LIMIT, "as good as new: {limit:?}");
}

#[test]
fn a_key_in_memory_is_denied_for_its_window_at_most() {
    for limit in limits() {
        let (store, back) = used_up_ahead(&limit);
        assert_is_back(&limit, &store, back);
    }
}

#[test]
fn a_snapshot_that_was_taken_ahead_denies_for_a_window_at_most() {
    for (index, limit) in limits().enumerate() {
        let (store, back) = used_up_ahead(&limit);
        let name = format!("tollgate-clock-ahead-{}-{index}", std::process::id());
        let path = std::env::temp_dir().join(name);
        store.save(&path).unwrap();
        let restored = MemoryStore::restore(&path, Capacity::default(), back).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(restored.usage().keys, 1);
        assert_is_back(&limit, &restored, back);
    }
}

#[test]
fn whoever_only_peeks_is_denied_for_a_window_at_most() {
    for limit in limits().map(|limit| limit.with_postpaid(true)) {
        let (store, back) = used_up_ahead(&limit);
        let peek = Charge { cost: 0, ..charge(&limit) };
        let until = denied_until(back, |now| ask(&store, [peek], now));
        assert!(until > back && until <= back + WINDOW + Micros::from_secs(60), "{until:?} {limit:?}");
    }
}

#[test]
fn limits_that_are_decided_together_are_denied_for_a_window_at_most() {
    for limit in limits() {
        let (store, back) = used_up_ahead(&limit);
        let other = Limit::new(1_000, WINDOW, limit.shape()).unwrap();
        let beside = Charge { key: Key { ordinal: 1, ..charge(&other).key }, ..charge(&other) };
        if limit.counts_rejected() {
            continue;
        }
        let until = denied_until(back, |now| ask(&store, [beside, charge(&limit)], now));
        assert!(until > back && until <= back + WINDOW + Micros::from_secs(60), "{until:?} {limit:?}");
    }
}

#[test]
fn a_debt_is_as_large_when_the_clock_is_back() {
    for shape in shapes(LIMIT) {
        let limit = limit(LIMIT, shape);
        let store = MemoryStore::default();
        let report = Charge { operation: Operation::Report, cost: u64::from(3 * LIMIT), ..charge(&limit) };
        ask(&store, [report], START + DAY);
        let there = ask(&store, [charge(&limit)], START + DAY).blocked_for();
        let back = ask(&store, [charge(&limit)], START).blocked_for();
        assert!(back <= there + WINDOW && back < Micros::from_secs(6 * 3_600), "{back} {there} {limit:?}");
    }
}
