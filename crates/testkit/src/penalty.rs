//! Penalties beside an oracle that keeps every denial and every block.
//!
//! An engine is a function: at this instant, note a denial or only look; for how
//! long is the key blocked now? [`beside_the_oracle`] plays every short sequence
//! over small penalties, and long random ones over any, on engine and oracle.
//!
//! Invariant: the oracle is written from `spec/penalty.md` alone, and searches
//! its whole past each time.
//!
//! Deliberately not here: clocks that step back, which each engine is asked
//! about by [`never_longer_than_its_length`].

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tollgate_core::{Micros, Penalty, PenaltyStep, Time};

/// Keeps every denial and every block.
#[derive(Debug)]
pub struct PenaltyOracle {
    penalty: Penalty,
    /// Denials since the last block.
    strikes: Vec<Time>,
    /// Beginning, length, and how many there were before it in a row.
    blocks: Vec<(Time, Micros, u32)>,
}

impl PenaltyOracle {
    /// A key that nothing has happened to.
    pub const fn new(penalty: Penalty) -> Self {
        Self { penalty, strikes: Vec::new(), blocks: Vec::new() }
    }

    /// For how long the key is blocked after this step.
    pub fn step(&mut self, now: Time, step: PenaltyStep) -> Micros {
        if let Some((start, length, _)) = self.blocks.last()
            && *start + *length > now
        {
            return (*start + *length).since(now);
        }
        if step == PenaltyStep::Look {
            return Micros::ZERO;
        }
        let in_row = self.blocks_in_row(now);
        self.strikes.push(now);
        let recent = self.strikes.iter().filter(|at| **at + self.penalty.within() > now).count();
        if u32::try_from(recent).unwrap_or(u32::MAX) < self.penalty.after() {
            return Micros::ZERO;
        }
        let grown = u128::from(self.penalty.block().get())
            .saturating_mul(u128::from(self.penalty.factor()).saturating_pow(in_row));
        let length = Micros::new(u64::try_from(grown).unwrap_or(u64::MAX)).min(self.penalty.max());
        self.blocks.push((now, length, in_row));
        self.strikes.clear();
        length
    }

    /// How many blocks make the one that would begin now longer: the last is
    /// remembered for as long as it lasted, and while denials follow it.
    fn blocks_in_row(&self, now: Time) -> u32 {
        let Some((start, length, before)) = self.blocks.last() else { return 0 };
        let mut until = *start + *length + *length;
        for strike in &self.strikes {
            if *strike >= until {
                return 0;
            }
            until = until.max(*strike + self.penalty.within());
        }
        if now < until { before + 1 } else { 0 }
    }
}

/// Plays all sequences of `depth` steps over small penalties, and `cases` long random ones, on engines
/// beside the oracle; how many steps of the short ones agreed.
///
/// # Errors
/// The first step that they decide differently.
pub fn beside_the_oracle<E>(engines: impl Fn(Penalty) -> E, depth: u32, cases: u32) -> Result<u64, String>
where
    E: FnMut(Time, PenaltyStep) -> Micros,
{
    let mut steps = 0;
    for penalty in small_penalties() {
        for sequence in 0..MOVES.len().pow(depth) {
            let moves = (0..depth)
                .filter_map(|place| MOVES.get(sequence / MOVES.len().pow(place) % MOVES.len()).copied());
            steps += play(&engines, penalty, moves)?;
        }
    }
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let random = (any_penalty(), prop::collection::vec((any_pause(), prop::bool::weighted(0.8)), 1..120));
    let outcome = TestRunner::new(config).run(&random, |(penalty, moves)| {
        let moves = moves.into_iter().map(|(pause, strikes)| (pause, step_of(strikes)));
        play(&engines, penalty, moves).map(|_| ()).map_err(TestCaseError::fail)
    });
    outcome.map_err(|failure| failure.to_string())?;
    Ok(steps)
}

/// Whatever the clock does, a key is not blocked for longer than a block may
/// last, but for the second that threads may differ by.
///
/// # Errors
/// The step after which it is.
pub fn never_longer_than_its_length<E>(engines: impl Fn(Penalty) -> E, cases: u32) -> Result<(), String>
where
    E: FnMut(Time, PenaltyStep) -> Micros,
{
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let clock = prop::collection::vec((0..1_u64 << 52, prop::bool::weighted(0.8)), 1..60);
    let outcome = TestRunner::new(config).run(&(any_penalty(), clock), |(penalty, clock)| {
        let mut engine = engines(penalty);
        for (at, strikes) in clock {
            let blocked = engine(Time::new(at), step_of(strikes));
            prop_assert!(blocked <= penalty.max() + Micros::SECOND, "{penalty} at {at}: {blocked}");
        }
        Ok(())
    });
    outcome.map_err(|failure| failure.to_string())
}

const MOVES: [(u64, PenaltyStep); 7] = [
    (0, PenaltyStep::Strike),
    (1, PenaltyStep::Strike),
    (2, PenaltyStep::Strike),
    (4, PenaltyStep::Strike),
    (9, PenaltyStep::Strike),
    (1, PenaltyStep::Look),
    (5, PenaltyStep::Look),
];

const fn step_of(strikes: bool) -> PenaltyStep {
    if strikes { PenaltyStep::Strike } else { PenaltyStep::Look }
}

fn play<E>(
    engines: impl Fn(Penalty) -> E,
    penalty: Penalty,
    moves: impl Iterator<Item = (u64, PenaltyStep)>,
) -> Result<u64, String>
where
    E: FnMut(Time, PenaltyStep) -> Micros,
{
    let (mut engine, mut oracle) = (engines(penalty), PenaltyOracle::new(penalty));
    let (mut now, mut past) = (Time::from_secs(1_700_000_000), Vec::new());
    for (pause, step) in moves {
        now = now + Micros::new(pause);
        past.push((now.get(), step));
        let (expected, got) = (oracle.step(now, step), engine(now, step));
        if expected != got {
            return Err(format!("{penalty}\n{past:?}\nblocked for {expected} by the oracle, {got} here"));
        }
    }
    Ok(u64::try_from(past.len()).unwrap_or(u64::MAX))
}

fn small_penalties() -> Vec<Penalty> {
    let new = |after, within, block| {
        Penalty::new(after, Micros::new(within), Micros::new(block)).expect("a small penalty")
    };
    let plain = [new(1, 1, 2), new(2, 1, 3), new(2, 4, 2), new(3, 5, 1)];
    let growing = plain.map(|penalty| penalty.growing(2, Micros::new(7)).expect("a small penalty"));
    plain.into_iter().chain(growing).collect()
}

fn any_penalty() -> impl Strategy<Value = Penalty> {
    let span =
        || prop_oneof![1..10_u64, 1..5_000_000_u64, 1..1_576_800_000_000_000_u64].prop_map(Micros::new);
    (1..=100_u32, 1..6_u32, span(), span(), span(), 1..=100_u32).prop_map(
        |(many, few, within, block, max, factor)| {
            let after = if factor % 4 == 0 { many } else { few };
            let penalty = Penalty::new(after, within, block).expect("within the bounds");
            penalty.growing(factor, max.max(block)).unwrap_or(penalty)
        },
    )
}

/// Mostly short, so that there is something to punish.
fn any_pause() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..3_u64, 3 => 0..3_000_000_u64, 1 => 0..1_000_000_000_000_u64]
}
