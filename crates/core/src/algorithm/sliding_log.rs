//! At most L in any trailing window `(now − window, now]`, exactly.
//! Page: `spec/algorithms/sliding_log.md`.
//!
//! State: when what was taken, to the microsecond.

use super::{Ask, window_log};
use crate::algorithm::Change;
use crate::decision::Decision;
use crate::state::Log;

pub(super) fn decide(log: Option<&Log>, ask: &Ask<'_>) -> (Decision, Change<Log>) {
    window_log::decide(log, ask, 1)
}
