//! Never more than L in any trailing window, told by sub-windows.
//! Page: `spec/algorithms/sliding_buckets.md`.
//!
//! State: how much was taken in each sub-window that is still in view. It is
//! the sliding log with every request moved to the last instant of its
//! sub-window: requests leave the view late, never early, and by less than one
//! sub-window.

use super::{Ask, window_log};
use crate::algorithm::Change;
use crate::decision::Decision;
use crate::state::Log;

pub(super) fn decide(log: Option<&Log>, ask: &Ask<'_>) -> (Decision, Change<Log>) {
    window_log::decide(log, ask, ask.limit.tick_us)
}
