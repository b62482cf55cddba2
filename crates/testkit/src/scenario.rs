//! A limit and a sequence of steps, and how a run that went wrong is told.
//!
//! Generators make a [`Scenario`]; suites and properties run it on an engine.
//!
//! Deliberately not here: where the steps come from.

use std::fmt;

use tollgate_core::{Decision, Limit, Micros, Operation, Refill, Shape, Time};

use crate::engine::Engine;
use crate::oracle::Oracle;

/// One call of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What the clock says.
    pub at: Time,
    /// What to do with the cost.
    pub operation: Operation,
    /// How much.
    pub cost: u64,
}

impl Step {
    /// A step at `at` microseconds.
    pub const fn new(at: u64, operation: Operation, cost: u64) -> Self {
        Self { at: Time::new(at), operation, cost }
    }

    /// The decision of `engine`.
    pub fn run(self, engine: &mut impl Engine) -> Decision {
        engine.decide(self.at, self.operation, self.cost)
    }

    /// Whether it may take something if it fits.
    pub fn is_check(self) -> bool {
        self.operation == Operation::Check && self.cost > 0
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.operation {
            Operation::Check => "check",
            Operation::Peek => "peek",
            Operation::Report => "report",
            Operation::Refund => "refund",
        };
        write!(f, "at {}us {word} {}", self.at.get(), self.cost)
    }
}

/// A limit and what happens to one key of it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The limit.
    pub limit: Limit,
    /// What happens, in this order.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// The same limit with other steps.
    #[must_use]
    pub const fn with(&self, steps: Vec<Step>) -> Self {
        Self { limit: self.limit, steps }
    }

    /// The same with a clock that never steps back.
    #[must_use]
    pub fn monotone(&self) -> Self {
        let mut latest = Time::EPOCH;
        let steps = self.steps.iter().map(|step| {
            latest = latest.max(step.at);
            Step { at: latest, ..*step }
        });
        self.with(steps.collect())
    }

    /// The same with a clock that steps back by a second at most, which nothing
    /// is rewound for.
    #[must_use]
    pub fn with_small_steps_back(&self) -> Self {
        let mut latest = Time::EPOCH;
        let steps = self.steps.iter().map(|step| {
            latest = latest.max(step.at);
            Step { at: step.at.max(latest.before(Micros::SECOND)), ..*step }
        });
        self.with(steps.collect())
    }

    /// The same with only those steps.
    #[must_use]
    pub fn only(&self, keep: impl Fn(Step) -> bool) -> Self {
        self.with(self.steps.iter().copied().filter(|step| keep(*step)).collect())
    }

    /// The decisions of an engine, one per step.
    pub fn run(&self, engine: &mut impl Engine) -> Vec<Decision> {
        self.steps.iter().map(|step| step.run(engine)).collect()
    }

    /// A failure in the midst of this scenario, after `steps` steps of it.
    pub fn failure(&self, steps: usize, promise: &str, detail: impl fmt::Display) -> Failure {
        Failure {
            promise: promise.to_owned(),
            limit: Box::new(self.limit),
            steps: self.steps.iter().copied().take(steps).collect(),
            detail: detail.to_string(),
        }
    }
}

/// Runs a scenario on an engine beside the oracle of its limit; the number of
/// steps that agreed.
///
/// # Errors
/// The first step that they decide differently.
pub fn compare<E: Engine>(engines: &impl Fn(Limit) -> E, scenario: &Scenario) -> Result<u64, Failure> {
    let mut engine = engines(scenario.limit);
    let mut oracle = Oracle::new(scenario.limit);
    for (done, step) in (1..).zip(&scenario.steps) {
        agree(step.run(&mut oracle), step.run(&mut engine))
            .map_err(|detail| scenario.failure(done, "the engine decides as the oracle", detail))?;
    }
    Ok(count(scenario.steps.len()))
}

/// Whether two decisions are the same, and if not, in what they differ.
pub(crate) fn agree(expected: Decision, actual: Decision) -> Result<(), String> {
    if expected == actual {
        return Ok(());
    }
    Err(format!("expected {expected:?}\n     got {actual:?}"))
}

/// A number of steps.
pub(crate) fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A promise that an engine did not keep.
#[derive(Debug, Clone)]
pub struct Failure {
    promise: String,
    limit: Box<Limit>,
    steps: Vec<Step>,
    detail: String,
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not kept: {}", self.promise)?;
        writeln!(f, "limit: {}", describe(&self.limit))?;
        for step in &self.steps {
            writeln!(f, "  {step}")?;
        }
        f.write_str(&self.detail)
    }
}

/// A limit in the words of a rule file.
pub(crate) fn describe(limit: &Limit) -> String {
    let mut text = format!("{} {} per {}us", limit.algorithm(), limit.count(), limit.window().get());
    match limit.shape() {
        Shape::FixedWindow | Shape::SlidingLog | Shape::SlidingCounter => {}
        Shape::SlidingBuckets { buckets } => text += &format!(", buckets {buckets}"),
        Shape::TokenBucket { burst, refill: Refill::Smooth } => text += &format!(", burst {burst}"),
        Shape::TokenBucket { burst, refill: Refill::Interval } => {
            text += &format!(", burst {burst}, refill interval");
        }
        Shape::LeakyBucket { burst, max_wait } => {
            text += &format!(", burst {burst}, max_wait {max_wait:?}");
        }
    }
    if limit.exceed_percent() > 0 {
        text += &format!(", soft {}%", limit.exceed_percent());
    }
    if limit.counts_rejected() {
        text += ", count_rejected";
    }
    text
}
