//! Limits whose allowance comes and goes: beside the oracle after every step, and
//! what they let through over any interval.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tollgate_core::rule::Elastic;
use tollgate_core::{Change, Decision, Limit, Micros, Operation, Refill, Shape, State, Time, decide};
use tollgate_testkit::{Engine as _, Oracle};

/// What happens at some time after the event before.
#[derive(Debug, Clone, Copy)]
struct LoadStep {
    after: u64,
    granted: bool,
    operation: Operation,
    cost: u64,
}

/// A check that was let through.
#[derive(Debug, Clone, Copy)]
struct Passed {
    at: u64,
    granted: bool,
    soft: bool,
    cost: u64,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let burst = prop_oneof![1..4_u32, 4..40_u32];
    prop_oneof![
        1 => Just(Shape::FixedWindow),
        1 => Just(Shape::SlidingLog),
        1 => Just(Shape::SlidingCounter),
        1 => Just(Shape::SlidingBuckets { buckets: 5 }),
        1 => burst.clone().prop_map(|burst| Shape::TokenBucket { burst, refill: Refill::Interval }),
        3 => burst.clone().prop_map(|burst| Shape::TokenBucket { burst, refill: Refill::Smooth }),
        3 => (burst, prop_oneof![Just(None), (0..2_000_000_u64).prop_map(|us| Some(Micros::new(us)))])
            .prop_map(|(burst, max_wait)| Shape::LeakyBucket { burst, max_wait }),
    ]
}

fn elastic_limits() -> impl Strategy<Value = Elastic> {
    let window = prop_oneof![Just(1_000_000), 1..50_u64, 1_000..3_000_000_u64].prop_map(Micros::new);
    let percent = prop_oneof![Just(100_u32), Just(50), Just(1_000), 1..=1_000_u32];
    (1..60_u32, window, shapes(), percent, any::<bool>()).prop_filter_map(
        "a limit",
        |(count, window, shape, percent, counts)| {
            let limit = Limit::new(count, window, shape).ok()?.counting_rejected(counts);
            Elastic::new(&limit, percent, 70).ok()
        },
    )
}

/// Steps whose pauses are about as long as what the limit counts by.
fn steps(only_checks: bool) -> impl Strategy<Value = Vec<LoadStep>> {
    let operation = match only_checks {
        true => Just(Operation::Check).boxed(),
        false => prop_oneof![
            6 => Just(Operation::Check), 1 => Just(Operation::Peek),
            1 => Just(Operation::Report), 2 => Just(Operation::Refund),
        ]
        .boxed(),
    };
    let pause = prop_oneof![3 => Just(0_u64), 3 => 0..1_000_u64, 2 => 0..2_000_000_u64];
    let cost = prop_oneof![6 => Just(1_u64), 2 => 0..9_u64, 1 => 0..200_u64];
    let step = (pause, any::<bool>(), operation, cost)
        .prop_map(|(after, granted, operation, cost)| LoadStep { after, granted, operation, cost });
    prop::collection::vec(step, 1..60)
}

fn for_all(only_checks: bool, test: impl Fn(&Elastic, &[LoadStep]) -> Result<(), TestCaseError>) {
    let config = Config { cases: 1_500, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config)
        .run(&(elastic_limits(), steps(only_checks)), |(elastic, steps)| test(&elastic, &steps));
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// A key of an elastic limit; a state is dropped at its deadline, or kept.
struct ElasticKey {
    state: Option<State>,
    drops: bool,
}

impl ElasticKey {
    fn decide(&mut self, limit: &Limit, now: Time, step: &LoadStep) -> Decision {
        let state = self.state.take().filter(|state| !self.drops || state.deadline() > now);
        let (decision, change) =
            decide(state.as_ref().map(State::as_ref), limit, now, step.operation, step.cost);
        self.state = match change {
            Change::Keep => state,
            Change::Put(state) => Some(state),
            Change::Remove => None,
        };
        decision
    }
}

fn in_force(elastic: &Elastic, granted: bool) -> Limit {
    if granted { elastic.limit } else { elastic.withdrawn() }
}

#[test]
fn any_sequence_of_loads_is_decided_as_by_the_oracle() {
    for_all(false, |elastic, steps| {
        let mut oracle = Oracle::new(elastic.limit);
        let (mut kept, mut dropped) =
            (ElasticKey { state: None, drops: false }, ElasticKey { state: None, drops: true });
        let mut now = Time::from_secs(1_000);
        for step in steps {
            now = now + Micros::new(step.after);
            let limit = in_force(elastic, step.granted);
            oracle.put_in_force(limit);
            let expected = oracle.decide(now, step.operation, step.cost);
            prop_assert_eq!(kept.decide(&limit, now, step), expected, "{:?} at {:?}", step, now);
            prop_assert_eq!(dropped.decide(&limit, now, step), expected, "dropped, {:?} at {:?}", step, now);
        }
        Ok(())
    });
}

/// Over any interval no more than the larger limit lets through; over any in which
/// nothing was granted no more than the limit; and what is not marked stays
/// within the limit, too.
#[test]
fn a_bucket_keeps_its_promise_over_any_interval_while_loads_come_and_go() {
    for_all(true, |elastic, steps| {
        let is_smooth = matches!(
            elastic.limit.shape(),
            Shape::TokenBucket { refill: Refill::Smooth, .. } | Shape::LeakyBucket { .. }
        );
        if !is_smooth {
            return Ok(());
        }
        let (mut key, mut now) = (ElasticKey { state: None, drops: true }, Time::from_secs(1_000));
        let (mut passed, mut grants): (Vec<Passed>, Vec<(u64, bool)>) = (Vec::new(), Vec::new());
        for LoadStep { after, granted, operation, cost } in steps.iter().copied() {
            now = now + Micros::new(after);
            grants.push((now.get(), granted));
            let step = LoadStep { after, granted, operation, cost };
            let decision = key.decide(&in_force(elastic, granted), now, &step);
            if !decision.verdict.is_deny() {
                passed.push(Passed { at: now.get(), granted, soft: decision.soft, cost });
            }
        }
        let larger = 100 + u128::from(elastic.limit.exceed_percent());
        for (first_index, first) in passed.iter().enumerate() {
            let (mut all, mut unmarked, mut is_base) = (0, 0, true);
            for last in &passed[first_index..] {
                all += u128::from(last.cost);
                unmarked += if last.soft { 0 } else { u128::from(last.cost) };
                is_base &= !last.granted;
                let tokens = |percent: u128| {
                    u128::from(last.at - first.at) * u128::from(elastic.limit.count()) * percent
                        / (u128::from(elastic.limit.window().get()) * 100)
                };
                let within_base = u128::from(elastic.limit.capacity()) + tokens(100);
                prop_assert!(all <= u128::from(elastic.limit.hard_capacity()) + tokens(larger));
                prop_assert!(unmarked <= within_base, "{unmarked} not marked from {first:?} to {last:?}");
                let granted_between =
                    grants.iter().any(|(at, granted)| *granted && (first.at..=last.at).contains(at));
                prop_assert!(!is_base || granted_between || all <= within_base);
            }
        }
        Ok(())
    });
}

/// From the same state, what passes without the allowance passes with it, and
/// sooner or as soon.
#[test]
fn an_allowance_never_denies_what_the_limit_lets_through() {
    for_all(false, |elastic, steps| {
        let (mut key, mut now) = (ElasticKey { state: None, drops: false }, Time::from_secs(1_000));
        for step in steps {
            now = now + Micros::new(step.after);
            let state = key.state.as_ref().map(State::as_ref);
            let [without, with] = [false, true]
                .map(|granted| decide(state, &in_force(elastic, granted), now, Operation::Peek, step.cost).0);
            prop_assert!(without.verdict.blocked_for() >= with.verdict.blocked_for(), "{without:?} {with:?}");
            key.decide(&in_force(elastic, step.granted), now, step);
        }
        Ok(())
    });
}

/// A sender that takes whatever it can get, a request at a time.
#[test]
fn a_greedy_sender_gets_the_larger_rate_while_it_is_granted() {
    for shape in [
        Shape::TokenBucket { burst: 5, refill: Refill::Smooth },
        Shape::LeakyBucket { burst: 4, max_wait: None },
    ] {
        let limit = Limit::new(50, Micros::SECOND, shape);
        let elastic = Elastic::new(&limit.unwrap(), 100, 70).unwrap();
        let mut key = ElasticKey { state: None, drops: true };
        let mut passed = [0_u32; 3];
        for ms in 0..30_000_u64 {
            let phase = usize::try_from(ms / 10_000).unwrap();
            let step = LoadStep { after: 1, granted: phase == 1, operation: Operation::Check, cost: 1 };
            let limit = in_force(&elastic, step.granted);
            let decision = key.decide(&limit, Time::from_secs(1_000) + Micros::from_millis(ms), &step);
            passed[phase] += u32::from(!decision.verdict.is_deny());
        }
        for (passed, expected) in passed.into_iter().zip([500, 1_000, 500]) {
            assert!(passed.abs_diff(expected) <= 10, "{shape:?}: {passed} where {expected} are due");
        }
    }
}
