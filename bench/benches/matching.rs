//! Finding a rule among many: `cargo bench -p tollgate-bench --bench matching`.
//!
//! The curve over 10 to 100,000 rules of one domain should be flat but for the
//! caches of the machine.
#![expect(clippy::indexing_slicing, reason = "a benchmark that goes out of bounds should stop")]

use divan::Bencher;
use divan::black_box;
use tollgate_bench::{descriptor, limit, rule_set};
use tollgate_core::list::{ExceptionLists, ListItem};
use tollgate_core::rule::DomainSpec;
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

/// A domain whose deny list has that many networks, in pieces of many sizes.
fn denying(networks: usize) -> RuleSet {
    let network = |n: usize| {
        let (high, low) = (n >> 12 & 0xff, n & 0xfff);
        let text = match n % 3 {
            0 => format!("{}.{}.{}.0/24", 1 + high, low >> 4, (low & 0xf) << 4),
            1 => format!("{}.{}.{}.64/26", 1 + high, low >> 4, (low & 0xf) << 4),
            _ => format!("2001:db8:{high:x}:{low:x}::/64"),
        };
        ListItem { key: None, value: text.parse().expect("a network") }
    };
    let lists = ExceptionLists::shared(Vec::new(), (0..networks).map(network).collect());
    let descriptors = vec![descriptor("remote_address", None, limit(Shape::FixedWindow))];
    let domain = DomainSpec { name: "shop".into(), lists, descriptors };
    RuleSet::new(vec![domain]).expect("rules that go together")
}

fn ask_networks(bencher: Bencher<'_, '_>, rules: &RuleSet, address: impl Fn(usize) -> String) {
    let wanted: Vec<String> = (0..10_000).map(address).collect();
    let mut at = 0;
    bencher.bench_local(|| {
        at = (at + 6_180) % wanted.len();
        let entries = [Entry { key: "remote_address", value: &wanted[at] }];
        let descriptors = [Descriptor::new(&entries)];
        let mut found = 0;
        rules.charges(&Request::new("shop", &descriptors), Operation::Check, |_| found += 1);
        black_box(found)
    });
}

#[divan::bench(args = RULES, sample_count = 20, sample_size = 10_000)]
fn networks_v4(bencher: Bencher<'_, '_>, count: usize) {
    ask_networks(bencher, &denying(count), |n| format!("{}.{}.{}.77", 1 + n % 25, n % 256, n % 251));
}

#[divan::bench(args = RULES, sample_count = 20, sample_size = 10_000)]
fn networks_v6(bencher: Bencher<'_, '_>, count: usize) {
    ask_networks(bencher, &denying(count), |n| format!("2001:db8:{:x}:{:x}::1", n % 25, n % 4096));
}
