//! The table against a plain map, and its bounds.

use std::collections::HashMap;

use tollgate_core::{Limit, Micros, Operation, Shape, decide};

use super::*;

const BIG: Bound = Bound { keys: 100_000, log_bytes: 1 << 20 };
const NOW: Time = Time::from_secs(1_000);

fn table(bound: Bound, skip_bits: u32) -> Table {
    Table::new(bound, skip_bits, Arc::new(DeniedCells::new()))
}

/// A state with a deadline of its own: a bucket from which `cost` was taken.
fn state(cost: u64) -> State {
    put(Shape::TokenBucket { burst: 1_000_000, refill: tollgate_core::Refill::Smooth }, cost)
}

fn log(cost: u64) -> State {
    put(Shape::SlidingLog, cost)
}

fn put(shape: Shape, cost: u64) -> State {
    let limit = Limit::new(10_000, Micros::from_secs(10_000), shape).unwrap();
    match decide(None, &limit, NOW, Operation::Check, cost) {
        (_, Change::Put(state)) => state,
        other => unreachable!("a take is kept, not {other:?}"),
    }
}

/// Spreads small numbers over all bits, as a hash does.
fn hash(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xBF58_476D_1CE4_E5B9) | 1
}

fn get(table: &Table, hash: u64) -> Option<State> {
    match table.state(table.find(hash)?)? {
        StateRef::Cell(cell) => Some(State::Cell(cell)),
        StateRef::Log(log) => Some(State::Log(log.clone())),
    }
}

#[test]
fn a_table_holds_what_a_map_holds() {
    for skip_bits in [0, 8] {
        let mut table = table(BIG, skip_bits);
        let mut map = HashMap::new();
        let mut n = 1_u64;
        for step in 0..40_000_u64 {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = hash(n >> 33 & 0x7ff);
            let change = match n >> 60 {
                0..=4 => Change::Remove,
                5 => Change::Keep,
                6..=9 => Change::Put(log(1 + step % 7)),
                _ => Change::Put(state(1 + step % 1_000)),
            };
            let before = match &change {
                Change::Keep => None,
                Change::Remove => map.remove(&key),
                Change::Put(state) => map.insert(key, state.clone()),
            };
            assert_eq!(table.change(key, change, NOW), before);
        }
        assert_eq!(table.len, map.len());
        for (key, state) in &map {
            assert_eq!(get(&table, *key).as_ref(), Some(state));
        }
        let logs = map.values().filter_map(|state| match state {
            State::Log(log) => Some(log.heap_bytes()),
            State::Cell(_) => None,
        });
        assert_eq!(table.log_bytes, logs.sum::<usize>());
    }
}

#[test]
fn what_has_run_out_makes_room_as_others_come() {
    let mut table = table(BIG, 0);
    for n in 0..1_000 {
        drop(table.change(hash(n), Change::Put(state(1)), NOW));
    }
    let later = NOW + Micros::from_secs(10);
    for n in 1_000..2_000 {
        drop(table.change(hash(n), Change::Put(state(100)), later));
    }
    assert!(table.len < 1_100, "{} keys are left", table.len);
    assert_eq!(table.evicted, 0);
    table.sweep(later);
    assert_eq!(table.len, 1_000);
    table.sweep(later + Micros::from_secs(10_000));
    assert_eq!(table.len, 0);
    assert!(table.usage().slot_bytes <= SLOTS_MIN * size_of::<Slot>());
}

#[test]
fn a_flood_evicts_itself_and_not_the_keys_in_use() {
    let mut table = table(Bound { keys: 1_000, log_bytes: 0 }, 0);
    let active: Vec<u64> = (0..100).map(hash).collect();
    for key in &active {
        drop(table.change(*key, Change::Put(state(500)), NOW));
    }
    for n in 1_000..200_000 {
        drop(table.change(hash(n), Change::Put(state(1)), NOW));
        let key = active[usize::try_from(n).unwrap() % active.len()];
        drop(table.change(key, Change::Keep, NOW));
        assert!(table.len <= 1_000);
    }
    for key in &active {
        assert_eq!(get(&table, *key), Some(state(500)));
    }
    assert!(table.evicted > 190_000);
}

#[test]
fn logs_stay_within_their_bytes() {
    let mut table = table(Bound { keys: 100_000, log_bytes: 10_000 }, 0);
    for n in 0..5_000 {
        drop(table.change(hash(n), Change::Put(log(2)), NOW));
        assert!(table.log_bytes <= 10_000, "{} bytes", table.log_bytes);
    }
    assert!(table.len > 50, "some are still there");
}

/// Keys that are denied again and again, given back to, forgotten, run out and evicted, some of which have half of
/// their hash in common: what there is a copy of is what the table has, and out of the way of its hand.
#[test]
fn a_copy_of_a_denied_state_is_what_its_slot_has() {
    const KEYS: u64 = 24;
    let limit = Limit::new(2, Micros::from_secs(5), Shape::FixedWindow).unwrap();
    let charge = |operation| {
        let key = tollgate_core::Key { domain: "", entries: &[], shared: &[], limit: &limit, ordinal: 0 };
        Charge { descriptor: 0, rule: None, key, mode: tollgate_core::Mode::Enforce, operation, cost: 1 }
    };
    let low = u64::from(u32::MAX);
    let hash = |n: u64| hash(n) & !low | hash(n % (KEYS / 2)) & low;
    let mut table = table(Bound { keys: 12, log_bytes: 0 }, 0);
    let (mut n, mut copies, mut evicted) = (1_u64, 0, 0);
    for step in 0..40_000_u64 {
        let now = NOW + Micros::from_millis(step);
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = hash((n >> 33) % KEYS);
        match n >> 60 {
            0 => drop(table.change(key, Change::Remove, now)),
            1 => drop(table.change(key, Change::Put(state(1 + step % 1_000)), now)),
            2 => drop(table.decide(key, &charge(Operation::Refund), now)),
            3 if step.is_multiple_of(97) => table.sweep(now),
            _ => drop(table.decide(key, &charge(Operation::Check), now)),
        }
        for key in (0..KEYS).map(hash) {
            let Some(words) = table.denied.get(key) else { continue };
            let slot = table.slot(table.find(key).unwrap());
            assert_eq!(slot.unmarked(), words, "step {step}");
            assert_ne!(slot.words[0] & IN_USE, 0, "step {step}");
            copies += 1;
        }
        evicted = table.evicted;
    }
    assert!(copies > 1_000 && evicted > 100, "{copies} copies were seen, and {evicted} keys evicted");
}
