//! A clock that steps back admits nothing extra.
//!
//! What was admitted is stamped with the latest instant at which anything was
//! admitted before it, as if the clock had stood still instead.

use tollgate_core::{Limit, Time};

use super::promise::{admitted, kept};
use crate::engine::Engine;
use crate::scenario::{Failure, Scenario, Step, count};

/// The promise holds for the stamps.
pub(super) fn a_clock_that_steps_back_keeps_the_promise<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    let checks = scenario.only(Step::is_check);
    let decisions = checks.run(&mut engines(checks.limit));
    let mut all = admitted(&checks.steps, &decisions);
    let mut latest = 0;
    for one in &mut all {
        latest = one.at.max(latest);
        one.at = latest;
    }
    kept(&checks.limit, &all)
        .map_err(|detail| checks.failure(usize::MAX, "a clock that steps back keeps the promise", detail))?;
    Ok(count(decisions.len()))
}

/// Of requests of cost 1, no more pass than if the clock had stood still.
pub(super) fn a_clock_that_steps_back_admits_no_more<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    let limit = scenario.limit.counting_rejected(false);
    let ones = scenario.only(Step::is_check).steps.into_iter().map(|step| Step { cost: 1, ..step });
    let raw = Scenario { limit, steps: ones.collect() };
    let (mut engine, mut reference) = (engines(limit), engines(limit));
    let (mut passed, mut most) = (0, 0);
    let mut latest = Time::EPOCH;
    for (done, step) in (1..).zip(&raw.steps) {
        latest = latest.max(step.at);
        most += u64::from(!Step { at: latest, ..*step }.run(&mut reference).verdict.is_deny());
        passed += u64::from(!step.run(&mut engine).verdict.is_deny());
        if passed > most {
            let detail = format!("{passed} passed where {most} would");
            return Err(raw.failure(done, "a clock that steps back admits no more", detail));
        }
    }
    Ok(count(raw.steps.len()))
}
