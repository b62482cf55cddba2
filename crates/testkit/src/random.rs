//! Long random sequences over any limit, shrunk to the shortest that fails.
//!
//! Steps are drawn in the words of the limit: to the instant of the last
//! `retry_after`, one microsecond before the window's edge, a third of the
//! capacity. An oracle turns them into instants and costs, and a suite runs
//! the [`Scenario`]: [`beside_the_oracle`] or [`for_every_property`].
//!
//! Invariant: a seed that has failed once is kept in `regressions.txt` and runs
//! first from then on.
//!
//! Deliberately not here: distributions of real traffic.

use std::cell::Cell;
use std::fmt;

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestError, TestRunner};
use tollgate_core::algorithm::NOW_MAX;
use tollgate_core::limit::WINDOW_MAX;
use tollgate_core::{Decision, Limit, Micros, Operation, Refill, Shape, Verdict};

use crate::engine::Engine;
use crate::oracle::Oracle;
use crate::properties;
use crate::scenario::{Failure, Scenario, Step, compare};

/// Where seeds that failed are kept.
const REGRESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/regressions.txt");

/// A random case that went wrong, at its smallest.
#[derive(Debug)]
pub struct RandomFailure(String);

impl std::error::Error for RandomFailure {}

impl fmt::Display for RandomFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nthe seed is kept in {REGRESSIONS}", self.0)
    }
}

/// Runs `cases` scenarios beside the oracle; the number of steps compared.
///
/// # Errors
/// The smallest scenario found that is decided differently.
pub fn beside_the_oracle<E: Engine>(engines: &impl Fn(Limit) -> E, cases: u32) -> Result<u64, RandomFailure> {
    run(cases, 60, |scenario| compare(engines, scenario))
}

/// Asks every property of `cases` scenarios; the number of decisions looked at.
///
/// # Errors
/// The smallest scenario found for which one does not hold.
pub fn for_every_property<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    cases: u32,
) -> Result<u64, RandomFailure> {
    run(cases, 16, |scenario| properties::run(engines, scenario))
}

/// The same with a clock that only goes on, for a store that evicts.
///
/// # Errors
/// The smallest scenario found that is decided differently.
pub fn beside_the_oracle_monotone<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    cases: u32,
) -> Result<u64, RandomFailure> {
    run(cases, 60, |scenario| compare(engines, &scenario.monotone()))
}

fn run(
    cases: u32,
    steps: usize,
    suite: impl Fn(&Scenario) -> Result<u64, Failure>,
) -> Result<u64, RandomFailure> {
    let persistence = FileFailurePersistence::Direct(REGRESSIONS);
    let config = Config {
        cases,
        max_global_rejects: cases.saturating_mul(20),
        failure_persistence: Some(Box::new(persistence)),
        ..Config::default()
    };
    let compared = Cell::new(0);
    let outcome = TestRunner::new(config).run(&scenarios(steps), |scenario| {
        let steps = suite(&scenario).map_err(|failure| TestCaseError::fail(failure.to_string()))?;
        compared.set(compared.get() + steps);
        Ok(())
    });
    match outcome {
        Ok(()) => Ok(compared.get()),
        Err(TestError::Fail(reason, _)) => Err(RandomFailure(reason.message().to_owned())),
        Err(TestError::Abort(reason)) => Err(RandomFailure(format!("gave up: {reason}"))),
    }
}

/// Any limit that is accepted, and what happens to a key of it.
fn scenarios(steps: usize) -> impl Strategy<Value = Scenario> {
    let draws = proptest::collection::vec((jumps(), operations(), costs()), 1..steps);
    (limits(), starts(), draws).prop_map(|(limit, start, draws)| resolve(limit, start, &draws))
}

fn limits() -> impl Strategy<Value = Limit> {
    let count = prop_oneof![1..10_u32, 1..100_000_u32, log_uniform(32).prop_map(to_u32)];
    let small = prop_oneof![1..6_u32, 1..1_000_u32];
    let window = prop_oneof![
        1..40_u64,
        Just(1_000_000_u64),
        Just(60_000_000),
        Just(3_600_000_000),
        Just(86_400_000_000),
        log_uniform(51).prop_map(|us| us.clamp(1, WINDOW_MAX.get())),
    ];
    let exceed = prop_oneof![Just(0_u32), Just(0), 1..=1_000_u32];
    (count, small, window, 0..8_u8, exceed, any::<bool>()).prop_filter_map(
        "this limit is refused",
        |(count, small, window, shape, exceed, count_rejected)| {
            let limit = Limit::new(
                shaped_count(count, shape),
                Micros::new(window),
                shaped(shape, count, small, window),
            )
            .ok()?;
            let limit = if exceed > 0 { limit.soft(exceed).ok()? } else { limit };
            Some(limit.counting_rejected(count_rejected))
        },
    )
}

/// A log holds no more than some thousands.
fn shaped_count(count: u32, shape: u8) -> u32 {
    if shape == 1 { count % 900 + 1 } else { count }
}

fn shaped(shape: u8, count: u32, small: u32, window: u64) -> Shape {
    let wait = Micros::new(window.saturating_mul(u64::from(small)) / u64::from(count).max(1));
    match shape {
        0 => Shape::FixedWindow,
        1 => Shape::SlidingLog,
        2 => Shape::SlidingCounter,
        3 => Shape::SlidingBuckets { buckets: small },
        4 => Shape::TokenBucket { burst: small, refill: Refill::Smooth },
        5 => Shape::TokenBucket { burst: count.max(small), refill: Refill::Smooth },
        6 => Shape::TokenBucket { burst: small, refill: Refill::Interval },
        _ => Shape::LeakyBucket { burst: small, max_wait: count.is_multiple_of(2).then_some(wait) },
    }
}

/// Every number of digits alike.
fn log_uniform(bits: u32) -> impl Strategy<Value = u64> {
    (0..bits, any::<u64>()).prop_map(|(bits, random)| (1 << bits) | (random & ((1 << bits) - 1)))
}

fn to_u32(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn starts() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0_u64),
        0..100_u64,
        1_700_000_000_000_000..1_900_000_000_000_000_u64,
        Just(NOW_MAX.get() - 5),
    ]
}

/// Where the clock goes.
#[derive(Debug, Clone, Copy)]
enum Jump {
    Ahead(u64),
    /// So many thousandths of a window.
    Share(u64),
    BackShare(u64),
    /// To the instant of the last `retry_after`, or beside it.
    Retry(i64),
    Reset(i64),
    /// To the end of the window.
    Edge(i64),
    /// By the time that so many tokens take.
    Tokens(u64),
}

fn jumps() -> impl Strategy<Value = Jump> {
    prop_oneof![
        4 => (0..3_u64).prop_map(Jump::Ahead),
        3 => (0..1_300_u64).prop_map(Jump::Share),
        1 => (0..1_300_u64).prop_map(Jump::BackShare),
        3 => (-1..=1_i64).prop_map(Jump::Retry),
        1 => (-1..=1_i64).prop_map(Jump::Reset),
        2 => (-1..=1_i64).prop_map(Jump::Edge),
        2 => (1..5_u64).prop_map(Jump::Tokens),
    ]
}

fn operations() -> impl Strategy<Value = Operation> {
    prop_oneof![
        10 => Just(Operation::Check),
        1 => Just(Operation::Peek),
        2 => Just(Operation::Report),
        2 => Just(Operation::Refund),
    ]
}

/// How much is asked for.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Plain(u64),
    /// So many thousandths of the base capacity.
    Share(u64),
    /// The hard capacity, or beside it.
    Hard(i64),
    /// What remained at last, or beside it.
    Remaining(i64),
}

fn costs() -> impl Strategy<Value = Ask> {
    prop_oneof![
        6 => (1..4_u64).prop_map(Ask::Plain),
        1 => Just(Ask::Plain(0)),
        1 => any::<u64>().prop_map(Ask::Plain),
        3 => (0..1_100_u64).prop_map(Ask::Share),
        2 => (-1..=1_i64).prop_map(Ask::Hard),
        3 => (-1..=1_i64).prop_map(Ask::Remaining),
    ]
}

/// Turns draws into steps, with the oracle's word for what "remaining" is.
fn resolve(limit: Limit, start: u64, draws: &[(Jump, Operation, Ask)]) -> Scenario {
    let mut oracle = Oracle::new(limit);
    let mut last = Step::new(start, Operation::Peek, 0).run(&mut oracle);
    let mut now = start;
    let mut steps = Vec::with_capacity(draws.len());
    for &(jump, operation, ask) in draws {
        now = instant(&limit, now, last, jump).min(NOW_MAX.get() + 2);
        let step = Step::new(now, operation, cost(&limit, last, ask));
        last = step.run(&mut oracle);
        steps.push(step);
    }
    Scenario { limit, steps }
}

fn instant(limit: &Limit, now: u64, last: Decision, jump: Jump) -> u64 {
    let window = limit.window().get();
    let beside = |span: u64, by: i64| now.saturating_add(span).saturating_add_signed(by);
    match jump {
        Jump::Ahead(by) => now + by,
        Jump::Share(share) => now + share * (window / 1_000) + share % 7,
        Jump::BackShare(share) => now.saturating_sub(share * (window / 1_000) + share % 7),
        Jump::Retry(by) => match last.verdict {
            Verdict::Deny { retry_after: Some(after) } => beside(after.get(), by),
            Verdict::Delay { wait } => beside(wait.get(), by),
            Verdict::Deny { retry_after: None } | Verdict::Allow => now,
        },
        Jump::Reset(by) => beside(last.reset_after.get(), by),
        Jump::Edge(by) => beside(window - now % window, by),
        Jump::Tokens(n) => now + n * window / u64::from(limit.count().max(1)),
    }
}

fn cost(limit: &Limit, last: Decision, ask: Ask) -> u64 {
    match ask {
        Ask::Plain(cost) => cost,
        Ask::Share(share) => limit.capacity() * share / 1_000,
        Ask::Hard(by) => limit.hard_capacity().saturating_add_signed(by),
        Ask::Remaining(by) => last.remaining.saturating_add_signed(by),
    }
}
