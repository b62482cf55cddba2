//! A bucket of `burst` tokens that refills at a rate. Page: `spec/algorithms/token_bucket.md`.
//!
//! State, smooth: the instant at which the bucket is full again, to the
//! fraction of a microsecond; see `pace`.
//! State, by interval: that instant and how many tokens are missing. Refills
//! come one period apart, the first one a period after the bucket was full.

use super::{Ask, USED_MAX, UsageStep};
use crate::algorithm::Change;
use crate::decision::{Decision, Verdict};
use crate::limit::{Limit, Refill};
use crate::pace::Span;
use crate::state::Cell;
use crate::time::{Micros, Time};

pub(super) fn decide<S: From<Cell>>(
    cell: Option<Cell>,
    ask: &Ask<'_>,
    refill: Refill,
) -> (Decision, Change<S>) {
    match refill {
        Refill::Smooth => smooth(cell, ask),
        Refill::Interval => interval(cell, ask),
    }
}

fn smooth<S: From<Cell>>(cell: Option<Cell>, ask: &Ask<'_>) -> (Decision, Change<S>) {
    let pace = ask.limit.pace;
    let take = ask.limit.cost_span(ask.cost);
    let missing = pace.until(cell, ask.now);
    // The most that may be missing for the cost to fit.
    let most = ask.limit.most_missing(take);
    let step = ask.step(missing <= most && ask.can_ever_fit());
    let missing = step_missing(ask, step, missing, take);
    let verdict = match step {
        UsageStep::Take | UsageStep::GiveBack => Verdict::Allow,
        UsageStep::Deny | UsageStep::CountDenied => {
            let wait = pace.sub(missing, most).ceil();
            Verdict::Deny { retry_after: ask.can_ever_fit().then_some(wait) }
        }
    };
    // What is left is what fits less what is missing, because what fits is a whole number of tokens.
    let decision = Decision {
        reset_after: missing.ceil(),
        soft: is_soft(ask, verdict, missing),
        ..ask.decision(verdict, ask.limit.missing_tokens(missing))
    };
    (decision, span_change(ask, step, missing))
}

/// What is missing from a bucket after the step. A denied request that counts
/// takes what is left, but never leaves a debt. A debt ends with time itself.
#[inline]
pub(super) fn step_missing(ask: &Ask<'_>, step: UsageStep, missing: Span, take: Span) -> Span {
    let limit = ask.limit;
    match step {
        UsageStep::Take => limit.missing_with(missing, take).min(Span::of(Time::MAX.since(ask.now))),
        UsageStep::CountDenied => missing.max(limit.full_span),
        UsageStep::GiveBack => limit.missing_without(missing, take),
        UsageStep::Deny => missing,
    }
}

/// Whether an allowed request took what only a soft limit gives.
pub(super) fn is_soft(ask: &Ask<'_>, verdict: Verdict, missing: Span) -> bool {
    missing > ask.limit.base_span && ask.may_be_soft(verdict)
}

/// The change to a state that is one instant, `missing` from now.
pub(super) fn span_change<S: From<Cell>>(ask: &Ask<'_>, step: UsageStep, missing: Span) -> Change<S> {
    if ask.is_peek() || step == UsageStep::Deny {
        return Change::Keep;
    }
    ask.limit.pace.cell(ask.now, missing).map_or(Change::Remove, |cell| Change::Put(cell.into()))
}

fn interval<S: From<Cell>>(cell: Option<Cell>, ask: &Ask<'_>) -> (Decision, Change<S>) {
    let hard = ask.limit.hard_capacity();
    let mut bucket = Refills::at(cell, ask);
    let step = ask.step(bucket.missing.saturating_add(ask.cost) <= hard);
    bucket.missing = match step {
        UsageStep::Take => (bucket.missing + ask.cost).min(bucket.most()),
        UsageStep::CountDenied => bucket.missing.max(hard),
        UsageStep::GiveBack => bucket.missing.saturating_sub(ask.cost),
        UsageStep::Deny => bucket.missing,
    };
    let verdict = match step {
        UsageStep::Take | UsageStep::GiveBack => Verdict::Allow,
        UsageStep::Deny | UsageStep::CountDenied => {
            let excess = (bucket.missing + ask.cost).saturating_sub(hard);
            let wait = bucket.after(excess).since(ask.now);
            Verdict::Deny { retry_after: ask.can_ever_fit().then_some(wait) }
        }
    };
    let full_at = bucket.after(bucket.missing);
    let decision = Decision { reset_after: full_at.since(ask.now), ..ask.decision(verdict, bucket.missing) };
    let change = match step {
        _ if ask.is_peek() => Change::Keep,
        UsageStep::Deny => Change::Keep,
        _ if bucket.missing == 0 => Change::Remove,
        UsageStep::Take | UsageStep::CountDenied | UsageStep::GiveBack => {
            Change::Put(Cell::new(full_at, bucket.missing).into())
        }
    };
    (decision, change)
}

/// How many refills make the bucket of a cell full.
pub(super) fn refills(cell: Cell, limit: &Limit) -> u64 {
    cell.low().div_ceil(u64::from(limit.count().max(1)))
}

/// The refills of a bucket, which take `life`, begin anew.
pub(super) fn rewound(cell: Cell, life: Micros, now: Time) -> Cell {
    Cell::new(now + life, cell.low())
}

/// A bucket that refills all at once, at some instant.
struct Refills {
    missing: u64,
    now: Time,
    /// When the next refill comes.
    next: Time,
    /// What each refill brings; never zero.
    count: u64,
    period: Micros,
}

impl Refills {
    fn at(cell: Option<Cell>, ask: &Ask<'_>) -> Self {
        let (count, period) = (u64::from(ask.limit.count().max(1)), ask.limit.window());
        let full = Self { missing: 0, now: ask.now, next: ask.now + period, count, period };
        let Some(cell) = cell.filter(|cell| cell.deadline() > ask.now) else { return full };
        let refills = refills(cell, ask.limit);
        // A clock that stepped back sees more periods than there are refills.
        let to_come = cell.deadline().since(ask.now).get().div_ceil(period.get()).min(refills);
        Self {
            missing: cell.low() - (refills - to_come) * count,
            next: cell.deadline().before(period.times(to_come.saturating_sub(1))),
            ..full
        }
    }

    /// The most that can be missing: it is back by the end of time.
    fn most(&self) -> u64 {
        let refills = Time::MAX.since(self.next).get() / self.period.get() + 1;
        refills.saturating_mul(self.count).min(USED_MAX)
    }

    /// When `tokens` of the missing ones are back.
    fn after(&self, tokens: u64) -> Time {
        match tokens.div_ceil(self.count) {
            0 => self.now,
            refills => self.next + self.period.times(refills - 1),
        }
    }
}
