//! What every algorithm promises, asked of an engine alone, without an oracle.
//!
//! A property takes any [`Scenario`], keeps the part of it that it speaks of,
//! and runs it on engines of its own; where it asks "and what if", it plays the
//! same steps again on a fresh engine. [`run`] asks all of them.
//!
//! Deliberately not here: where scenarios come from.

mod bounds;
mod promise;
mod replay;
mod step_back;

use tollgate_core::Limit;

use crate::engine::Engine;
use crate::scenario::{Failure, Scenario};

/// Asks every property of one scenario; the number of decisions looked at.
///
/// # Errors
/// The first property that does not hold.
pub fn run<E: Engine>(engines: &impl Fn(Limit) -> E, scenario: &Scenario) -> Result<u64, Failure> {
    let looked_at = [
        bounds::a_decision_stays_within_the_limit(engines, scenario)?,
        bounds::a_soft_limit_marks_what_the_base_limit_denies(engines, scenario)?,
        promise::holds_over_any_interval(engines, scenario)?,
        promise::a_bucket_denies_at_most_one_sub_window_early(engines, scenario)?,
        replay::what_is_not_taken_changes_nothing(engines, scenario)?,
        replay::a_peek_tells_what_a_check_would(engines, scenario)?,
        replay::retry_after_is_exact(engines, scenario)?,
        replay::a_reset_leaves_a_new_key(engines, scenario)?,
        replay::a_refund_undoes_its_check(engines, scenario)?,
        step_back::a_clock_that_steps_back_keeps_the_promise(engines, scenario)?,
        step_back::a_clock_that_steps_back_admits_no_more(engines, scenario)?,
        step_back::nobody_waits_longer_than_for_a_limit_that_is_used_up(engines, scenario)?,
    ];
    Ok(looked_at.iter().sum())
}
