//! Two windows, the older weighted by how much of it is still in view.
//! Page: `spec/algorithms/sliding_counter.md`.
//!
//! State: what was used in the previous and in the current window, and the
//! end of the window after the current one, when nothing of either is in view.

use super::fixed_window::window_end;
use super::{Ask, UsageStep};
use crate::algorithm::Change;
use crate::decision::{Decision, Verdict};
use crate::limit::Limit;
use crate::state::Cell;
use crate::time::{Micros, Time};

/// A window counts up to here, fifteen times the largest limit; more counts as this.
const WINDOW_USE_MAX: u64 = super::COST_MAX;

/// The two windows at some instant.
#[derive(Clone, Copy)]
struct Windows {
    previous: u64,
    current: u64,
    /// The end of the current window.
    end: Time,
    window: Micros,
}

pub(super) fn decide<S: From<Cell>>(cell: Option<Cell>, ask: &Ask<'_>) -> (Decision, Change<S>) {
    let hard = ask.limit.hard_capacity();
    let mut windows = Windows::at(cell, ask.now, ask.limit.window());
    let fits = windows.used(ask.now).saturating_add(ask.cost) <= hard;
    let step = ask.step(fits);
    match step {
        UsageStep::Take | UsageStep::CountDenied => {
            windows.current = (windows.current + ask.cost).min(WINDOW_USE_MAX);
        }
        UsageStep::GiveBack => windows.give_back(ask.cost),
        UsageStep::Deny => {}
    }
    let verdict = match step {
        UsageStep::Take | UsageStep::GiveBack => Verdict::Allow,
        UsageStep::Deny | UsageStep::CountDenied if !ask.can_ever_fit() => {
            Verdict::Deny { retry_after: None }
        }
        UsageStep::Deny | UsageStep::CountDenied => {
            Verdict::Deny { retry_after: Some(windows.when_at_most(hard - ask.cost, ask.now).since(ask.now)) }
        }
    };
    let decision = Decision {
        reset_after: windows.when_at_most(0, ask.now).since(ask.now),
        ..ask.decision(verdict, windows.used(ask.now))
    };
    let change = match step {
        _ if ask.is_peek() => Change::Keep,
        UsageStep::Deny => Change::Keep,
        _ if windows.previous == 0 && windows.current == 0 => Change::Remove,
        UsageStep::Take | UsageStep::CountDenied | UsageStep::GiveBack => Change::Put(windows.cell().into()),
    };
    (decision, change)
}

/// What was used while the clock was ahead, which may have been in two of its
/// windows, is used in the window of `now`, up to what the limit holds.
pub(super) fn rewound(cell: Cell, limit: &Limit, now: Time) -> Cell {
    let (previous, current) = cell.pair();
    let used = (previous + current).min(limit.hard_capacity()).max(current);
    Cell::of_pair(window_end(now, limit.window()) + limit.window(), 0, used)
}

impl Windows {
    fn at(cell: Option<Cell>, now: Time, window: Micros) -> Self {
        let end = window_end(now, window);
        let fresh = Self { previous: 0, current: 0, end, window };
        let Some(cell) = cell.filter(|cell| cell.deadline() > now) else { return fresh };
        let (previous, current) = cell.pair();
        let cell_end = cell.deadline().before(window);
        // A window that ends later than now's own was opened before the clock
        // stepped back: it stays the current one until its end.
        if cell_end >= end {
            Self { previous, current, end: cell_end, window }
        } else {
            Self { previous: current, ..fresh }
        }
    }

    fn cell(self) -> Cell {
        Cell::of_pair(self.end + self.window, self.previous, self.current)
    }

    /// `⌊current + previous × overlap⌋`.
    fn used(self, now: Time) -> u64 {
        let window = self.window.get();
        let in_view = self.end.since(now).get().min(window);
        let weighted = u128::from(self.previous) * u128::from(in_view) / u128::from(window);
        self.current + u64::try_from(weighted).unwrap_or(u64::MAX)
    }

    /// The earliest instant from `now` on at which no more than `most` is used,
    /// nothing else happening.
    fn when_at_most(self, most: u64, now: Time) -> Time {
        match most.checked_sub(self.current) {
            Some(room) => fades_to(self.previous, room, self.end, self.window).max(now),
            // From the end on, the current window is the previous one.
            None => fades_to(self.current, most, self.end + self.window, self.window),
        }
    }

    /// Takes `cost` off the current window first, then off the previous one.
    fn give_back(&mut self, cost: u64) {
        let from_current = cost.min(self.current);
        self.current -= from_current;
        self.previous = self.previous.saturating_sub(cost - from_current);
    }
}

/// From when on `previous`, in view until `end`, weighs at most `most`:
/// `⌊previous × view / window⌋ ≤ most` for the longest `view`.
fn fades_to(previous: u64, most: u64, end: Time, window: Micros) -> Time {
    if previous <= most {
        return Time::EPOCH;
    }
    let view = ((u128::from(most) + 1) * u128::from(window.get())).div_ceil(u128::from(previous)) - 1;
    end.before(Micros::new(u64::try_from(view).unwrap_or(u64::MAX)))
}
