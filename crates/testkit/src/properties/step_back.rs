//! A clock that steps back a little admits nothing extra, and one that was far
//! ahead denies no longer than a limit that is used up.
//!
//! What was admitted is stamped with the latest instant at which anything was
//! admitted before it, as if the clock had stood still instead.

use tollgate_core::{Limit, Micros, Operation, Time, Verdict};

use super::promise::{admitted, kept};
use crate::engine::Engine;
use crate::scenario::{Failure, Scenario, Step, count};

/// The promise holds for the stamps.
pub(super) fn a_clock_that_steps_back_keeps_the_promise<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    let checks = scenario.with_small_steps_back().only(Step::is_check);
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
    let checks = scenario.with_small_steps_back().only(Step::is_check);
    let ones = checks.steps.into_iter().map(|step| Step { cost: 1, ..step });
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

/// How long a small step back is waited for; buckets know their life to 262 ms.
const STEP_BACK_WAIT: Micros = Micros::from_millis(1_263);

/// Whatever the clock did, nobody waits longer than for a limit that was used up
/// at once, and for a small step back.
pub(super) fn nobody_waits_longer_than_for_a_limit_that_is_used_up<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    let limit = scenario.limit.counting_rejected(false);
    let checks = Scenario { limit, ..scenario.only(Step::is_check) };
    let mut engine = engines(limit);
    for (done, step) in (1..).zip(&checks.steps) {
        let Verdict::Deny { retry_after: Some(wait) } = step.run(&mut engine).verdict else { continue };
        let mut used_up = engines(limit);
        used_up.decide(Time::EPOCH, Operation::Report, limit.hard_capacity());
        let longest = used_up.decide(Time::EPOCH, Operation::Check, step.cost).verdict.blocked_for();
        if wait > longest + STEP_BACK_WAIT {
            let detail = format!("waits {wait}, and {longest} for one that is used up");
            return Err(checks.failure(done, "nobody waits longer than for a limit that is used up", detail));
        }
    }
    Ok(count(checks.steps.len()))
}
