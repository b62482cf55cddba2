//! At most L per window aligned to the epoch. Page: `spec/algorithms/fixed_window.md`.
//!
//! State: the end of the window and what was used in it.

use super::{Ask, USED_MAX, UsageStep};
use crate::algorithm::Change;
use crate::decision::{Decision, Verdict};
use crate::limit::Limit;
use crate::state::Cell;
use crate::time::{Micros, Time};

pub(super) fn decide<S: From<Cell>>(cell: Option<Cell>, ask: &Ask<'_>) -> (Decision, Change<S>) {
    let window = ask.limit.window();
    let hard = ask.limit.hard_capacity();
    let live = cell.filter(|cell| cell.deadline() > ask.now);
    let used = live.map_or(0, Cell::low);
    // A window that ends later than now's own was opened before the clock
    // stepped back: it stays open until its end, or until nothing is used in it.
    let own_end = || window_end(ask.now, window);
    let end = live.map_or_else(own_end, Cell::deadline);

    let fits = used.saturating_add(ask.cost) <= hard;
    let step = ask.step(fits);
    let used = match step {
        UsageStep::Take | UsageStep::CountDenied => (used + ask.cost).min(USED_MAX),
        UsageStep::GiveBack => used.saturating_sub(ask.cost),
        UsageStep::Deny => used,
    };
    let verdict = match step {
        UsageStep::Take | UsageStep::GiveBack => Verdict::Allow,
        UsageStep::Deny | UsageStep::CountDenied => {
            Verdict::Deny { retry_after: ask.can_ever_fit().then_some(end.since(ask.now)) }
        }
    };
    let reset_at = if used == 0 { own_end() } else { end };
    let decision = Decision { reset_after: reset_at.since(ask.now), ..ask.decision(verdict, used) };
    (decision, change(ask, step, end, used))
}

fn change<S: From<Cell>>(ask: &Ask<'_>, step: UsageStep, end: Time, used: u64) -> Change<S> {
    match step {
        _ if ask.is_peek() => Change::Keep,
        UsageStep::Deny => Change::Keep,
        UsageStep::GiveBack if used == 0 => Change::Remove,
        UsageStep::Take | UsageStep::CountDenied | UsageStep::GiveBack => {
            Change::Put(Cell::new(end, used).into())
        }
    }
}

/// What was used while the clock was ahead is used in the window of `now`.
pub(super) fn rewound(cell: Cell, limit: &Limit, now: Time) -> Cell {
    Cell::new(window_end(now, limit.window()), cell.low())
}

/// The end of the window that holds `now`.
pub(super) fn window_end(now: Time, window: Micros) -> Time {
    Time::new(now.get() - now.get() % window.get()) + window
}
