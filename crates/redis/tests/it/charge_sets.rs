//! Charge sets on a real server, beside the memory store.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Builder;
use tollgate_core::{Charge, Entry, Key, Limit, Micros, Mode, Operation, Penalty, Refill, Shape, Time};
use tollgate_limiter::{ChargeSet, MemoryStore, Store};
use tollgate_testkit::RedisServer;

use crate::support::{limit, store};

/// One charge of a random set: user, limit, mode, operation, cost.
pub(crate) type RandomCharge = (usize, usize, Mode, Operation, u64);

pub(crate) fn limits() -> Vec<Limit> {
    let bucket = |refill| Shape::TokenBucket { burst: 3, refill };
    let seconds = Micros::from_secs;
    let penalty = Penalty::new(2, seconds(4), seconds(5)).unwrap();
    let growing = Penalty::new(1, seconds(3), seconds(1)).unwrap().growing(2, seconds(9)).unwrap();
    vec![
        limit(3, 10, Shape::FixedWindow),
        limit(2, 10, Shape::FixedWindow).counting_rejected(true),
        limit(3, 10, Shape::SlidingLog),
        limit(4, 10, Shape::SlidingCounter),
        limit(4, 10, Shape::SlidingBuckets { buckets: 5 }).counting_rejected(true),
        limit(3, 10, bucket(Refill::Smooth)),
        limit(2, 10, bucket(Refill::Interval)),
        limit(2, 10, Shape::LeakyBucket { burst: 2, max_wait: Some(Micros::from_secs(6)) }),
        limit(2, 10, Shape::SlidingLog).soft(100).unwrap(),
        limit(3, 10, bucket(Refill::Smooth)).with_postpaid(true),
        limit(2, 10, Shape::FixedWindow).counting_rejected(true).with_postpaid(true),
        limit(3, 10, Shape::SlidingLog).with_postpaid(true),
        limit(2, 10, Shape::LeakyBucket { burst: 2, max_wait: None }).with_postpaid(true),
        limit(1, 10, Shape::SlidingLog).with_penalty(Some(penalty)),
        limit(1, 10, Shape::FixedWindow).counting_rejected(true).with_penalty(Some(growing)),
        limit(1, 10, bucket(Refill::Smooth)).with_postpaid(true).with_penalty(Some(growing)),
    ]
}

pub(crate) fn random_charge() -> impl Strategy<Value = RandomCharge> {
    let mode = prop_oneof![
        6 => Just(Mode::Enforce),
        1 => Just(Mode::Shadow),
        2 => Just(Mode::Quota),
        1 => Just(Mode::ShadowQuota),
    ];
    let operation = prop_oneof![
        6 => Just(Operation::Check),
        1 => Just(Operation::Peek),
        1 => Just(Operation::Report),
        1 => Just(Operation::Refund),
    ];
    (0..3_usize, 0..16_usize, mode, operation, 0..3_u64)
}

pub(crate) fn with_charge_set<R>(
    charges: &[RandomCharge],
    limits: &[Limit],
    passes: u8,
    then: impl FnOnce(&ChargeSet<'_>) -> R,
) -> R {
    let users = ["a", "b", "c"].map(|user| [Entry { key: "user", value: user }]);
    let charges = charges.iter().flat_map(|(user, limit, mode, operation, cost)| {
        let key = Key {
            domain: "shop",
            entries: &users[*user],
            shared: &[],
            limit: &limits[*limit],
            ordinal: u32::try_from(*limit).unwrap(),
        };
        let (mode, operation) = (*mode, *operation);
        let charge = Charge { descriptor: 0, rule: None, key, mode, operation, cost: *cost };
        [Some(charge), charge.penalty(Operation::Check)].into_iter().flatten()
    });
    then(&ChargeSet {
        charges: charges.collect(),
        quota_passes: passes == 1,
        is_denied_elsewhere: passes == 2,
    })
}

#[test]
fn random_charge_sets_are_decided_as_in_memory() {
    let server = RedisServer::start();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let limits = limits();
    let step = (0..4_000_000_u64, 0..4_u8, prop::collection::vec(random_charge(), 1..6));
    let steps = prop::collection::vec(step, 1..40);
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&steps, |steps| {
        server.cli(&["flushall"]);
        let store = store(&server.url()).on_the_callers_clock();
        let memory = MemoryStore::default();
        let mut now = Time::from_secs(1_700_000_000);
        for (pause, passes, charges) in &steps {
            now = now + Micros::new(*pause);
            with_charge_set(charges, &limits, *passes, |charge_set| {
                let answer = runtime.block_on(store.check(charge_set, now));
                prop_assert!(answer.degraded.is_empty());
                prop_assert_eq!(answer.now, now);
                prop_assert_eq!(answer.decisions, memory.decide(charge_set, now));
                Ok(())
            })?;
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
