//! Every short sequence over small limits, step by step beside the oracle.
//!
//! A [`Scope`] is a set of limits, of moves and a depth; all sequences of moves
//! up to that depth are walked as a tree. Windows are a few microseconds long,
//! so that steps of one microsecond meet every edge.
//!
//! Invariant: a node of the tree is compared once; the engine gets there by
//! beginning again, because not every engine can be copied.
//!
//! Deliberately not here: large numbers, which are in [`crate::boundaries`].

use tollgate_core::{Limit, LimitError, Micros, Operation, Refill, Shape};

use crate::engine::Engine;
use crate::oracle::Oracle;
use crate::scenario::{Failure, Scenario, Step, agree};

/// One edge of the tree.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    /// How far the clock goes, in microseconds.
    pub by: i64,
    /// What to do with the cost.
    pub operation: Operation,
    /// How much.
    pub cost: u64,
}

/// What is walked.
#[derive(Debug, Clone)]
pub struct Scope {
    /// For each of these limits
    pub limits: Vec<Limit>,
    /// from this instant on, in microseconds,
    pub start: u64,
    /// all sequences of these moves
    pub moves: Vec<Move>,
    /// up to this length.
    pub depth: usize,
}

/// Clocks that go on, stand still and jump.
const AHEAD: &[i64] = &[0, 1, 2, 4, 9];
/// And step back.
const BOTH_WAYS: &[i64] = &[0, 1, 4, -2, -7];

impl Scope {
    /// Three steps of every operation, with a clock that goes both ways.
    ///
    /// # Errors
    /// If a limit of the scope is refused.
    pub fn wide() -> Result<Self, LimitError> {
        let mut operations = [0, 1, 2, u64::MAX].map(|cost| (Operation::Check, cost)).to_vec();
        operations.extend([(Operation::Peek, 1), (Operation::Report, 4)]);
        operations.extend([(Operation::Refund, 1), (Operation::Refund, 9)]);
        Ok(Self { limits: small_limits()?, start: 21, moves: moves(BOTH_WAYS, &operations), depth: 3 })
    }

    /// Five steps of few operations, with a clock that only goes on: a store
    /// that evicts is held to this one.
    ///
    /// # Errors
    /// If a limit of the scope is refused.
    pub fn deep() -> Result<Self, LimitError> {
        let operations = [(Operation::Check, 1), (Operation::Check, 2)];
        let mut moves = moves(&[0, 1, 3], &operations);
        moves.extend(self::moves(&[1], &[(Operation::Report, 2), (Operation::Refund, 1)]));
        Ok(Self { limits: small_limits()?, start: 9, moves, depth: 5 })
    }

    /// The first microseconds of time.
    ///
    /// # Errors
    /// If a limit of the scope is refused.
    pub fn at_the_epoch() -> Result<Self, LimitError> {
        let operations =
            [(Operation::Check, 1), (Operation::Check, 2), (Operation::Report, 3), (Operation::Refund, 1)];
        Ok(Self { limits: small_limits()?, start: 0, moves: moves(AHEAD, &operations), depth: 3 })
    }

    /// The same with only every `n`th limit, for engines that are slow.
    #[must_use]
    pub fn every(mut self, n: usize) -> Self {
        self.limits = self.limits.into_iter().step_by(n).collect();
        self
    }
}

fn moves(by: &[i64], operations: &[(Operation, u64)]) -> Vec<Move> {
    let each = |&by: &i64| operations.iter().map(move |&(operation, cost)| Move { by, operation, cost });
    by.iter().flat_map(each).collect()
}

/// Every shape with small numbers, hard and soft, rejected requests counted or not.
fn small_limits() -> Result<Vec<Limit>, LimitError> {
    let token = |burst, refill| Shape::TokenBucket { burst, refill };
    let leaky =
        |burst, max_wait: Option<u64>| Shape::LeakyBucket { burst, max_wait: max_wait.map(Micros::new) };
    let plain = [
        (0, 3, Shape::FixedWindow),
        (2, 4, Shape::FixedWindow),
        (1, 1, Shape::SlidingLog),
        (2, 4, Shape::SlidingLog),
        (3, 5, Shape::SlidingLog),
        (2, 4, Shape::SlidingCounter),
        (3, 5, Shape::SlidingCounter),
        (2, 4, Shape::SlidingBuckets { buckets: 2 }),
        (3, 5, Shape::SlidingBuckets { buckets: 3 }),
        (2, 4, token(2, Refill::Smooth)),
        (3, 7, token(2, Refill::Smooth)),
        (5, 3, token(4, Refill::Smooth)),
        (0, 4, token(0, Refill::Smooth)),
        (1, 4, token(2, Refill::Interval)),
        (2, 3, token(3, Refill::Interval)),
        (3, 4, token(2, Refill::Interval)),
        (2, 3, leaky(0, None)),
        (1, 2, leaky(2, None)),
        (3, 7, leaky(2, Some(2))),
        (2, 5, leaky(3, Some(0))),
    ];
    let mut limits = Vec::new();
    for (count, window, shape) in plain {
        let limit = Limit::new(count, Micros::new(window), shape)?;
        let soft = limit.soft(50)?;
        limits.extend([limit, limit.counting_rejected(true), soft, soft.counting_rejected(true)]);
    }
    Ok(limits)
}

/// Walks the scope; the number of steps that were compared.
///
/// # Errors
/// The first step that engine and oracle decide differently.
pub fn run<E: Engine>(engines: &impl Fn(Limit) -> E, scope: &Scope) -> Result<u64, Failure> {
    let mut compared = 0;
    for &limit in &scope.limits {
        let path = Scenario { limit, steps: Vec::new() };
        let mut walk = Walk { engine: engines(limit), scope, path, compared: 0 };
        walk.descend(&Oracle::new(limit), scope.start)?;
        compared += walk.compared;
    }
    Ok(compared)
}

struct Walk<'a, E> {
    engine: E,
    scope: &'a Scope,
    path: Scenario,
    compared: u64,
}

impl<E: Engine> Walk<'_, E> {
    fn descend(&mut self, oracle: &Oracle, now: u64) -> Result<(), Failure> {
        if self.path.steps.len() == self.scope.depth {
            return Ok(());
        }
        for &Move { by, operation, cost } in &self.scope.moves {
            let at = now.saturating_add_signed(by);
            let step = Step::new(at, operation, cost);
            let mut oracle = oracle.clone();
            let expected = step.run(&mut oracle);
            self.engine.reset();
            self.path.run(&mut self.engine);
            let actual = step.run(&mut self.engine);
            self.path.steps.push(step);
            agree(expected, actual).map_err(|detail| {
                self.path.failure(usize::MAX, "the engine decides as the oracle", detail)
            })?;
            self.compared += 1;
            self.descend(&oracle, at)?;
            self.path.steps.pop();
        }
        Ok(())
    }
}
