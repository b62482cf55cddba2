//! Real threads at one counter: exactly the limit is admitted, every time.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Descriptor, Entry, Mode, Request};

use crate::support::{START, TestLimiter, check, limit, limiter, node, rule, shapes};

const THREADS: usize = 8;
const ASKS: usize = 400;
const COUNT: u32 = 1_000;

/// How many of `THREADS × ASKS` concurrent requests are let through.
fn admitted(limiter: &TestLimiter, entries: &[(&str, &str)]) -> u64 {
    let (start, admitted) = (Barrier::new(THREADS), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..ASKS {
                    if !check(limiter, entries).verdict.is_deny() {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    admitted.into_inner()
}

#[test]
fn every_algorithm_admits_exactly_its_limit() {
    for shape in shapes(COUNT) {
        let limiter = limiter(vec![node("user", vec![rule("", limit(COUNT, shape), Mode::Enforce)])]);
        assert_eq!(admitted(&limiter, &[("user", "42")]), u64::from(COUNT), "{shape:?}");
    }
}

#[test]
fn a_list_of_limits_admits_exactly_the_smallest_and_charges_all_for_it() {
    for shape in shapes(COUNT) {
        let wide = limit(COUNT * 2, shapes(COUNT * 2)[4]);
        let limits =
            vec![rule("narrow", limit(COUNT, shape), Mode::Enforce), rule("wide", wide, Mode::Enforce)];
        let limiter = limiter(vec![node("user", limits)]);
        assert_eq!(admitted(&limiter, &[("user", "42")]), u64::from(COUNT), "{shape:?}");
        let last = check(&limiter, &[("user", "42")]);
        assert_eq!(last.decisions[1].remaining, u64::from(COUNT), "{shape:?}");
    }
}

#[test]
fn several_descriptors_admit_exactly_the_smallest_whatever_their_order() {
    for shape in shapes(COUNT) {
        let limiter = limiter(vec![
            node("org", vec![rule("", limit(COUNT + 500, shape), Mode::Enforce)]),
            node("user", vec![rule("", limit(COUNT, shape), Mode::Enforce)]),
        ]);
        let forward = [("org", "1"), ("user", "42")];
        let backward = [("user", "42"), ("org", "1")];
        let (start, sum) = (Barrier::new(2), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for entries in [forward, backward] {
                let (limiter, start, sum) = (&limiter, &start, &sum);
                scope.spawn(move || {
                    start.wait();
                    sum.fetch_add(admitted(limiter, &entries), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(sum.into_inner(), u64::from(COUNT), "{shape:?}");
    }
}

/// Batches let go of all their shards when they meet each other, and go on one by one.
#[test]
fn batches_prepared_checks_and_others_admit_exactly_the_limit_together() {
    for shape in shapes(COUNT) {
        let limiter = limiter(vec![node("user", vec![rule("", limit(COUNT, shape), Mode::Enforce)])]);
        let entries = ["ann", "bob", "eve"].map(|user| [Entry::from(("user", user))]);
        let descriptors = entries.each_ref().map(|entries| [Descriptor::new(entries)]);
        let requests: Vec<Request<'_>> =
            (0..ASKS).map(|at| Request::new("d", &descriptors[at % descriptors.len()])).collect();
        let (start, admitted) = (Barrier::new(THREADS), AtomicU64::new(0));
        let count = |is_denied: bool| admitted.fetch_add(u64::from(!is_denied), Ordering::Relaxed);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (limiter, requests, start, count) = (&limiter, &requests, &start, &count);
                scope.spawn(move || {
                    let mut users = limiter.prepare("d", ["user"]);
                    start.wait();
                    for part in requests.chunks(50).cycle().take(30) {
                        if thread % 2 == 0 {
                            limiter.check_batch_at_once(part, START, |_, reply| {
                                count(reply.verdict.is_deny());
                            });
                            continue;
                        }
                        for request in part {
                            count(users.check([request.descriptors[0].entries[0].value]).verdict.is_deny());
                        }
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 3 * u64::from(COUNT), "{shape:?}");
    }
}
