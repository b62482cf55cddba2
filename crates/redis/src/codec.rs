//! A batch of charges as the script's arguments, and its answer as decisions.
//!
//! What Lua could only do slowly is worked out here, once per charge: the time
//! that a cost takes, exact to the fraction of a microsecond.
//!
//! Invariant: a decision told here is the one that the script took: both take
//! the same steps from the same states at the same time.

use redis::Value;
use smallvec::SmallVec;
use tollgate_core::{Change, Charge, Limit, Mode, Operation, Refill, Shape, State, StateRef, Time};
use tollgate_limiter::store::{Batch, CHARGES_USUAL, Decisions, States, decide_together};

/// The numbers of a charge, in the order in which they are sent; `lua/ask.lua`
/// calls them so.
pub const NUMBERS: [&str; 11] = [
    "cost",
    "window",
    "hard",
    "tick",
    "count",
    "parts",
    "hard_span",
    "hard_span_part",
    "take",
    "take_part",
    "max_wait",
];
/// What comes before them: algorithm, mode, operation, whether rejected requests count.
pub const NUMBERS_AT: usize = 4;
/// Arguments of the whole batch, which come first.
const HEAD: usize = 3;

/// The arguments of a script, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    bytes: Vec<u8>,
    /// Where each one ends.
    ends: Vec<usize>,
}

impl Arguments {
    fn with_room(charges: usize) -> Self {
        let count = HEAD + charges * (NUMBERS_AT + NUMBERS.len());
        Self { bytes: Vec::with_capacity(count * 6), ends: Vec::with_capacity(count) }
    }

    fn text(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len());
    }

    fn number(&mut self, number: u64) {
        self.text(itoa::Buffer::new().format(number));
    }

    fn time(&mut self, time: Option<Time>) {
        match time {
            Some(time) => self.number(time.get()),
            None => self.text(""),
        }
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| self.bytes.get(start..*end).unwrap_or_default())
    }
}

/// When a batch is decided.
#[derive(Debug, Clone, Copy, Default)]
pub struct When {
    /// The time; the server's own if none.
    pub now: Option<Time>,
    /// If it is later than this, nothing is changed.
    pub not_after: Option<Time>,
}

/// The arguments of the script for a batch.
pub fn arguments(batch: &Batch<'_>, when: When) -> Arguments {
    let mut arguments = Arguments::with_room(batch.charges.len());
    arguments.time(when.now);
    arguments.text(match (batch.is_refused_elsewhere, batch.quota_passes) {
        (true, _) => "2",
        (false, true) => "1",
        (false, false) => "0",
    });
    arguments.time(when.not_after);
    for charge in &batch.charges {
        charge_arguments(charge, &mut arguments);
    }
    arguments
}

fn charge_arguments(charge: &Charge<'_>, out: &mut Arguments) {
    let limit = charge.limit();
    let cost = charge.cost.min(tollgate_core::algorithm::COST_MAX);
    let (hard, take) = (limit.hard_span_parts(), limit.cost_span_parts(cost));
    out.text(algorithm(limit));
    out.text(mode(charge.mode));
    out.text(operation(charge.operation));
    out.text(if limit.counts_rejected() { "1" } else { "0" });
    let numbers = [
        cost,
        limit.window().get(),
        limit.hard_capacity(),
        limit.tick().get(),
        u64::from(limit.count().max(1)),
        limit.span_parts(),
        hard.0,
        hard.1,
        take.0,
        take.1,
    ];
    numbers.into_iter().for_each(|number| out.number(number));
    match limit.shape() {
        Shape::LeakyBucket { max_wait: Some(wait), .. } => out.number(wait.get()),
        Shape::LeakyBucket { max_wait: None, .. }
        | Shape::FixedWindow
        | Shape::SlidingLog
        | Shape::SlidingCounter
        | Shape::SlidingBuckets { .. }
        | Shape::TokenBucket { .. } => out.text("-1"),
    }
}

/// What the scripts call the algorithm of a limit.
pub(crate) fn algorithm(limit: &Limit) -> &'static str {
    if let Shape::TokenBucket { refill: Refill::Interval, .. } = limit.shape() {
        return "token_bucket_interval";
    }
    limit.algorithm().name()
}

const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
        Mode::Quota => "quota",
        Mode::ShadowQuota => "shadow_quota",
    }
}

const fn operation(operation: Operation) -> &'static str {
    match operation {
        Operation::Check => "check",
        Operation::Peek => "peek",
        Operation::Report => "report",
        Operation::Refund => "refund",
    }
}

/// What the script saw.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its clock.
    pub now: Time,
    /// For each charge the state before it was asked, as text.
    pub before: Vec<Option<Vec<u8>>>,
}

/// Reads the script's answer; none if it is not one.
pub fn read(answer: Value, charges: usize) -> Option<Seen> {
    let Value::Array(values) = answer else { return None };
    let mut values = values.into_iter();
    let Value::Int(now) = values.next()? else { return None };
    let now = u64::try_from(now).ok()?;
    let Value::Int(_) = values.next()? else { return None };
    let before: Vec<Option<Vec<u8>>> = values.map(redis::from_redis_value).collect::<Result<_, _>>().ok()?;
    (before.len() == charges).then_some(Seen { now: Time::new(now), before })
}

/// A batch decided.
#[derive(Debug)]
pub struct Outcome {
    /// One for each charge.
    pub decisions: Decisions,
    states: SmallVec<[Option<State>; CHARGES_USUAL]>,
    same_as: SmallVec<[usize; CHARGES_USUAL]>,
}

impl Outcome {
    /// The state that a charge's key has now, taken out of here. A key that
    /// comes twice is told at its first charge.
    pub fn take_state(&mut self, charge: usize) -> Option<Option<State>> {
        (self.same_as.get(charge) == Some(&charge)).then(|| self.states.get_mut(charge)?.take())
    }
}

/// The decisions of a batch, from what the script saw.
///
/// # Errors
/// Which charges have a state that no script of ours has written.
pub fn decide(batch: &Batch<'_>, seen: &Seen, names: &[String]) -> Result<Outcome, Vec<usize>> {
    let mut states = SmallVec::new();
    let mut unreadable = Vec::new();
    for (index, (charge, text)) in batch.charges.iter().zip(&seen.before).enumerate() {
        let state = text.as_ref().map(|text| State::read_text(text, charge.limit()));
        if state == Some(None) {
            unreadable.push(index);
        }
        states.push(state.flatten());
    }
    if !unreadable.is_empty() {
        return Err(unreadable);
    }
    let first = |name: &String| names.iter().position(|other| other == name).unwrap_or_default();
    let mut replay = Replay { states, same_as: names.iter().map(first).collect() };
    let decisions = decide_together(batch, &mut replay, seen.now);
    Ok(Outcome { decisions, states: replay.states, same_as: replay.same_as })
}

/// The states that the script saw, changed as it changed them.
struct Replay {
    states: SmallVec<[Option<State>; CHARGES_USUAL]>,
    same_as: SmallVec<[usize; CHARGES_USUAL]>,
}

impl Replay {
    fn place(&self, charge: usize) -> usize {
        self.same_as.get(charge).copied().unwrap_or(charge)
    }
}

impl States for Replay {
    fn get(&self, charge: usize) -> Option<StateRef<'_>> {
        self.states.get(self.place(charge))?.as_ref().map(State::as_ref)
    }

    fn change(&mut self, charge: usize, change: Change, _: Time) -> Option<State> {
        let place = self.place(charge);
        let state = self.states.get_mut(place)?;
        match change {
            Change::Keep => None,
            Change::Put(put) => state.replace(put),
            Change::Remove => state.take(),
        }
    }
}
