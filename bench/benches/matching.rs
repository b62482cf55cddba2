//! Finding a rule among many: `cargo bench -p tollgate-bench --bench matching`.
//!
//! The curve over 10 to 100,000 rules of one domain should be flat but for the
//! caches of the machine.
#![expect(clippy::indexing_slicing, reason = "a benchmark that goes out of bounds should stop")]

use divan::Bencher;
use divan::black_box;
use tollgate_bench::{descriptor, limit, rule_set};
use tollgate_core::{Descriptor, Entry, Operation, Request, RuleSet, Shape};

fn main() {
    divan::main();
}

const RULES: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];

fn rules(count: usize, value: impl Fn(usize) -> String) -> RuleSet {
    let limit = limit(Shape::FixedWindow);
    rule_set((0..count).map(|n| descriptor("path", Some(value(n)), limit)).collect())
}

fn find(bencher: Bencher<'_, '_>, rules: &RuleSet, wanted: &[String]) {
    let mut at = 0;
    bencher.bench_local(|| {
        at = (at + 618_033) % wanted.len();
        let entries = [Entry { key: "path", value: &wanted[at] }];
        let descriptors = [Descriptor::new(&entries)];
        let mut found = 0;
        rules.charges(&Request::new("shop", &descriptors), Operation::Check, |_| found += 1);
        black_box(found)
    });
}

#[divan::bench(args = RULES, sample_count = 20, sample_size = 10_000)]
fn exact(bencher: Bencher<'_, '_>, count: usize) {
    let wanted: Vec<String> = (0..count).map(|n| format!("/shop/item/{n}")).collect();
    find(bencher, &rules(count, |n| format!("/shop/item/{n}")), &wanted);
}

#[divan::bench(args = RULES, sample_count = 20, sample_size = 10_000)]
fn wildcard(bencher: Bencher<'_, '_>, count: usize) {
    let wanted: Vec<String> = (0..count).map(|n| format!("/shop/item/{n}/reviews/7")).collect();
    find(bencher, &rules(count, |n| format!("/shop/item/{n}/*")), &wanted);
}

#[divan::bench(args = RULES, sample_count = 20, sample_size = 10_000)]
fn no_match(bencher: Bencher<'_, '_>, count: usize) {
    let wanted: Vec<String> = (0..count).map(|n| format!("/elsewhere/{n}")).collect();
    find(bencher, &rules(count, |n| format!("/shop/item/{n}/*")), &wanted);
}
