//! A batch of charges as the script's arguments, and its answer as decisions.
//!
//! What Lua could only do slowly is worked out here, once per charge: the time
//! that a cost takes, exact to the fraction of a microsecond.
//!
//! Invariant: a decision told here is the one that the script took: both take
//! the same steps from the same states at the same time.

use tollgate_core::{Change, Charge, Limit, Mode, Operation, Refill, Shape, State, StateRef, Time};
use tollgate_limiter::store::{Batch, Decisions, States, decide_together};

/// Arguments of one charge; `lua/check.lua` reads them in this order.
pub const FIELDS: usize = 15;

/// The arguments of the script for a batch, `now` being the server's own if none.
pub fn arguments(batch: &Batch<'_>, now: Option<Time>) -> Vec<String> {
    let mut arguments = Vec::with_capacity(2 + batch.charges.len() * FIELDS);
    arguments.push(now.map_or_else(String::new, |now| now.get().to_string()));
    arguments.push(u8::from(batch.quota_passes).to_string());
    for charge in &batch.charges {
        charge_arguments(charge, &mut arguments);
    }
    arguments
}

fn charge_arguments(charge: &Charge<'_>, out: &mut Vec<String>) {
    let limit = charge.limit();
    let cost = charge.cost.min(tollgate_core::algorithm::COST_MAX);
    let (hard, take) = (limit.hard_span_parts(), limit.cost_span_parts(cost));
    out.push(algorithm(limit).into());
    out.push(mode(charge.mode).into());
    out.push(operation(charge.operation).into());
    out.push(u8::from(limit.counts_rejected()).to_string());
    let max_wait = match limit.shape() {
        Shape::LeakyBucket { max_wait: Some(wait), .. } => wait.get().to_string(),
        _ => "-1".into(),
    };
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
    out.extend(numbers.map(|number| number.to_string()));
    out.push(max_wait);
}

fn algorithm(limit: &Limit) -> &'static str {
    match limit.shape() {
        Shape::TokenBucket { refill: Refill::Interval, .. } => "token_bucket_interval",
        shape => shape.algorithm().name(),
    }
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

/// The decisions of a batch, from the states that the script saw at `now`.
///
/// `same_as` tells for each charge the first one with the same key.
pub fn decisions(batch: &Batch<'_>, before: &[Option<Vec<u8>>], same_as: &[usize], now: Time) -> Decisions {
    let states = batch
        .charges
        .iter()
        .zip(before)
        .map(|(charge, text)| text.as_deref().and_then(|text| State::read_text(text, charge.limit())));
    let mut replay = Replay { states: states.collect(), same_as };
    decide_together(batch, &mut replay, now)
}

/// The states that the script saw, changed as it changed them.
struct Replay<'a> {
    states: Vec<Option<State>>,
    same_as: &'a [usize],
}

impl Replay<'_> {
    fn place(&self, charge: usize) -> usize {
        self.same_as.get(charge).copied().unwrap_or(charge)
    }
}

impl States for Replay<'_> {
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
