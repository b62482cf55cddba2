//! States that were written while the clock was ahead.
//!
//! [`super::decide`] looks here first. A state lives no longer than its usage
//! takes to fade, so one whose deadline is further away was written by a clock
//! that has since stepped back. It is rewound: what it counts, counts as taken
//! now. The twins in Lua do the same within each algorithm.
//!
//! Invariants: a rewound state denies no longer than a limit that is used up
//! now, debts aside, and forgets nothing that it counts, up to what the limit
//! holds. A step back of up to a second rewinds nothing, because threads may
//! read the clock in one order and decide in another.
//!
//! Deliberately not here: what was dropped because the clock had passed its
//! deadline. That is gone, and its key begins again.

use super::{fixed_window, sliding_counter, token_bucket, window_log};
use crate::limit::{Limit, Refill, Shape};
use crate::pace;
use crate::state::{Cell, State, StateRef};
use crate::time::{Micros, STEP_BACK_MAX, Time};

/// Whether a state is from a clock that was ahead.
#[inline]
pub(super) fn is_ahead(state: StateRef<'_>, limit: &Limit, now: Time) -> bool {
    match state {
        StateRef::Cell(cell) => is_cell_ahead(cell, limit, now),
        StateRef::Log(log) => log.deadline() > now + log_life(limit) + STEP_BACK_MAX,
    }
}

/// The same for a cell.
#[inline]
pub(super) fn is_cell_ahead(cell: Cell, limit: &Limit, now: Time) -> bool {
    // No live state is from the future if it ends before its life could.
    cell.deadline() > now + STEP_BACK_MAX && cell.deadline() > now + cell_life(cell, limit) + STEP_BACK_MAX
}

/// Such a state as if it had been written now.
pub(super) fn rewound(state: StateRef<'_>, limit: &Limit, now: Time) -> State {
    match state {
        StateRef::Cell(cell) => State::Cell(rewound_cell(cell, limit, now)),
        StateRef::Log(log) => State::Log(window_log::rewound(log, limit, now)),
    }
}

/// The same for a cell.
pub(super) fn rewound_cell(cell: Cell, limit: &Limit, now: Time) -> Cell {
    match limit.shape() {
        Shape::SlidingCounter => sliding_counter::rewound(cell, limit, now),
        Shape::TokenBucket { refill: Refill::Interval, .. } => {
            token_bucket::rewound(cell, cell_life(cell, limit), now)
        }
        Shape::TokenBucket { .. } | Shape::LeakyBucket { .. } => pace::rewound(cell, limit.full_span, now),
        Shape::FixedWindow | Shape::SlidingLog | Shape::SlidingBuckets { .. } => {
            fixed_window::rewound(cell, limit, now)
        }
    }
}

/// How long a log lives at most.
fn log_life(limit: &Limit) -> Micros {
    limit.window() + Micros::new(limit.tick_us - 1)
}

/// How long a cell with this usage lives at most.
fn cell_life(cell: Cell, limit: &Limit) -> Micros {
    let window = limit.window();
    match limit.shape() {
        Shape::SlidingCounter => window.times(2),
        Shape::TokenBucket { refill: Refill::Interval, .. } => {
            window.times(token_bucket::refills(cell, limit))
        }
        Shape::TokenBucket { .. } | Shape::LeakyBucket { .. } => pace::life(cell),
        Shape::FixedWindow | Shape::SlidingLog | Shape::SlidingBuckets { .. } => window,
    }
}
