//! One check in process, beside governor: `cargo bench -p tollgate-bench --bench check`.
//!
//! `keyed` is a limiter of one limit, as governor is. `store` is a key and a limit. `limiter` finds the rule
//! first and makes a whole reply. Both read the clock once per check.
#![expect(clippy::indexing_slicing, reason = "a benchmark that goes out of bounds should stop")]

use divan::Bencher;
use divan::black_box;
use tollgate_bench::{TOKEN_BUCKET, governor, keys, limit, one_rule};
use tollgate_core::{Charge, Descriptor, Entry, Key, Limit, Mode, Operation, Request, Shape};
use tollgate_limiter::{ChargeSet, Clock, KeyedLimiter, Limiter, MemoryStore, SystemClock};

fn main() {
    divan::main();
}

const HOT: usize = 1;
const MILLION: usize = 1_000_000;

/// Walks over the keys in an order that no cache foresees.
struct KeyWalk {
    keys: Vec<String>,
    at: usize,
}

impl KeyWalk {
    fn over(count: usize) -> Self {
        Self { keys: keys(count), at: 0 }
    }

    fn next(&mut self) -> &String {
        // A stride near the golden ratio, without a common factor with a million.
        self.at = (self.at + 618_033) % self.keys.len();
        &self.keys[self.at]
    }
}

#[divan::bench(args = [HOT, MILLION], sample_count = 50, sample_size = 20_000)]
fn governor_check(bencher: Bencher<'_, '_>, count: usize) {
    let limiter = governor();
    let mut walk = KeyWalk::over(count);
    for key in keys(count) {
        assert!(limiter.check_key(&key).is_ok());
    }
    bencher.bench_local(|| black_box(limiter.check_key(walk.next()).is_ok()));
}

#[divan::bench(args = [HOT, MILLION], sample_count = 50, sample_size = 20_000)]
fn keyed_check(bencher: Bencher<'_, '_>, count: usize) {
    let limiter = KeyedLimiter::<String>::new(limit(TOKEN_BUCKET));
    let mut walk = KeyWalk::over(count);
    for key in keys(count) {
        assert!(!limiter.check(&key).verdict.is_deny());
    }
    bencher.bench_local(|| black_box(limiter.check(walk.next())));
}

fn store_check(bencher: Bencher<'_, '_>, count: usize, limit: &Limit) {
    let (store, clock) = (MemoryStore::default(), SystemClock::new());
    let check = |user: &str| {
        let entries = [Entry { key: "user_id", value: user }];
        let key = Key { domain: "shop", entries: &entries, shared: &[], limit, ordinal: 0 };
        let charge = Charge {
            descriptor: 0,
            rule: None,
            key,
            mode: Mode::Enforce,
            operation: Operation::Check,
            cost: 1,
        };
        let mut batch = ChargeSet::default();
        batch.charges.push(charge);
        store.decide(&batch, clock.now())
    };
    let mut walk = KeyWalk::over(count);
    for key in keys(count) {
        assert!(!check(&key)[0].verdict.is_deny());
    }
    bencher.bench_local(|| black_box(check(walk.next())));
}

#[divan::bench(args = [HOT, MILLION], sample_count = 50, sample_size = 20_000)]
fn store_token_bucket(bencher: Bencher<'_, '_>, count: usize) {
    store_check(bencher, count, &limit(TOKEN_BUCKET));
}

#[divan::bench(args = [HOT, MILLION], sample_count = 50, sample_size = 20_000)]
fn store_fixed_window(bencher: Bencher<'_, '_>, count: usize) {
    store_check(bencher, count, &limit(Shape::FixedWindow));
}

#[divan::bench(args = [HOT, MILLION], sample_count = 50, sample_size = 20_000)]
fn store_sliding_counter(bencher: Bencher<'_, '_>, count: usize) {
    store_check(bencher, count, &limit(Shape::SlidingCounter));
}

#[divan::bench(args = [HOT, MILLION], sample_count = 50, sample_size = 20_000)]
fn limiter_token_bucket(bencher: Bencher<'_, '_>, count: usize) {
    let limiter = Limiter::new(one_rule(TOKEN_BUCKET));
    let check = |user: &str| {
        let entries = [Entry { key: "user_id", value: user }];
        let descriptors = [Descriptor::new(&entries)];
        limiter.check(&Request::new("shop", &descriptors)).at_once()
    };
    let mut walk = KeyWalk::over(count);
    for key in keys(count) {
        assert!(!check(&key).verdict.is_deny());
    }
    bencher.bench_local(|| black_box(check(walk.next())));
}

#[divan::bench(sample_count = 50, sample_size = 20_000)]
fn the_clock_alone(bencher: Bencher<'_, '_>) {
    let clock = SystemClock::new();
    bencher.bench_local(|| black_box(clock.now()));
}
