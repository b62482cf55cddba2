//! "And what if": the same steps again on a fresh engine, with one difference.

use tollgate_core::algorithm::NOW_MAX;
use tollgate_core::{Algorithm, Decision, Limit, Operation, Refill, Time, Verdict};

use crate::engine::Engine;
use crate::scenario::{Failure, Scenario, Step, agree, count};

/// The last decision, after some steps of a scenario and then these.
fn after<E: Engine>(engines: &impl Fn(Limit) -> E, scenario: &Scenario, done: usize, step: Step) -> Decision {
    let mut engine = engines(scenario.limit);
    for step in scenario.steps.iter().take(done) {
        step.run(&mut engine);
    }
    step.run(&mut engine)
}

/// Without the peeks, the costs of 0 and the denied, everything else is the same,
/// unless they rewind what was taken while the clock was far ahead.
pub(super) fn what_is_not_taken_changes_nothing<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    let scenario = &scenario.with_small_steps_back();
    let all = scenario.run(&mut engines(scenario.limit));
    let counts = scenario.limit.counts_rejected();
    let matters = |step: &Step, decision: &Decision| {
        let denied = decision.verdict.is_deny() && !counts;
        step.operation != Operation::Peek && step.cost > 0 && !denied
    };
    let kept = scenario.steps.iter().zip(&all).filter(|(step, decision)| matters(step, decision));
    let (steps, expected): (Vec<Step>, Vec<Decision>) = kept.unzip();
    let rest = scenario.with(steps);
    let actual = rest.run(&mut engines(rest.limit));
    for (expected, actual) in expected.iter().zip(&actual) {
        agree(*expected, *actual)
            .map_err(|detail| scenario.failure(usize::MAX, "what is not taken changes nothing", detail))?;
    }
    Ok(count(all.len()))
}

/// A peek in the place of a check says the same; of a denial that would count
/// it says when to come if nothing is counted.
pub(super) fn a_peek_tells_what_a_check_would<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    let decisions = scenario.run(&mut engines(scenario.limit));
    for (done, (step, check)) in scenario.steps.iter().zip(&decisions).enumerate() {
        if step.operation != Operation::Check {
            continue;
        }
        let peek = after(engines, scenario, done, Step { operation: Operation::Peek, ..*step });
        let counted = check.verdict.is_deny() && scenario.limit.counts_rejected();
        if counted && peek.verdict.is_deny() {
            continue;
        }
        agree(*check, peek)
            .map_err(|detail| scenario.failure(done + 1, "a peek tells what a check would", detail))?;
    }
    Ok(count(decisions.len()))
}

/// The same request is denied one microsecond before, and passes at that instant.
pub(super) fn retry_after_is_exact<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    let decisions = scenario.run(&mut engines(scenario.limit));
    for (done, (step, decision)) in (1..).zip(scenario.steps.iter().zip(&decisions)) {
        let Verdict::Deny { retry_after: Some(retry_after) } = decision.verdict else { continue };
        let retry_at = step.at.min(NOW_MAX).get() + retry_after.get();
        // Past its last instant the clock stands still.
        if retry_at > NOW_MAX.get() {
            continue;
        }
        let ask = |at: u64| after(engines, scenario, done, Step { at: Time::new(at), ..*step });
        let (early, there) = (ask(retry_at - 1), ask(retry_at));
        if !early.verdict.is_deny() || there.verdict.is_deny() {
            let detail = format!("{decision:?}\none before: {early:?}\nat it: {there:?}");
            return Err(scenario.failure(done, "retry_after is exact", detail));
        }
    }
    Ok(count(decisions.len()))
}

/// Once `reset_after` has passed, everything goes on as for a key never seen.
pub(super) fn a_reset_leaves_a_new_key<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    let decisions = scenario.run(&mut engines(scenario.limit));
    for (done, (step, decision)) in (1..).zip(scenario.steps.iter().zip(&decisions)) {
        let reset_at = Time::new(step.at.min(NOW_MAX).get() + decision.reset_after.get());
        if reset_at > NOW_MAX {
            continue;
        }
        let rest = scenario.steps.iter().skip(done).map(|step| Step { at: step.at.max(reset_at), ..*step });
        let rest = scenario.with(rest.collect()).monotone();
        let fresh = rest.run(&mut engines(rest.limit));
        let mut engine = engines(scenario.limit);
        for step in scenario.steps.iter().take(done) {
            step.run(&mut engine);
        }
        for (step, expected) in rest.steps.iter().zip(&fresh) {
            agree(*expected, step.run(&mut engine)).map_err(|detail| {
                let detail = format!("after the reset at {}us, at {step}:\n{detail}", reset_at.get());
                scenario.failure(done, "a reset leaves a new key", detail)
            })?;
        }
    }
    Ok(count(decisions.len()))
}

/// A check that passed and is refunded at once has never happened; with a bucket
/// that flows and may be exceeded, but for what was rounded up to a part.
pub(super) fn a_refund_undoes_its_check<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    let scenario = scenario.monotone();
    let decisions = scenario.run(&mut engines(scenario.limit));
    for (done, (step, decision)) in scenario.steps.iter().zip(&decisions).enumerate() {
        if !step.is_check() || decision.verdict.is_deny() {
            continue;
        }
        if limit_rounds(&scenario.limit) {
            a_refund_leaves_no_more_than_a_part(engines, &scenario, done)?;
            continue;
        }
        let mut without = scenario.steps.clone();
        without.remove(done);
        let mut with = scenario.steps.clone();
        with.insert(done + 1, Step { operation: Operation::Refund, ..*step });
        let without = scenario.with(without).run(&mut engines(scenario.limit));
        let with = scenario.with(with).run(&mut engines(scenario.limit));
        for (expected, actual) in without.iter().skip(done).zip(with.iter().skip(done + 2)) {
            agree(*expected, *actual)
                .map_err(|detail| scenario.failure(done + 1, "a refund undoes its check", detail))?;
        }
    }
    Ok(count(decisions.len()))
}

/// Whether the price of what is beyond the base may have to be rounded up.
fn limit_rounds(limit: &Limit) -> bool {
    let is_smooth = limit.shape().parameters().refill != Some(Refill::Interval);
    limit.exceed_percent() > 0 && limit.algorithm() >= Algorithm::TokenBucket && is_smooth
}

fn a_refund_leaves_no_more_than_a_part<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
    done: usize,
) -> Result<(), Failure> {
    let Some((step, before)) = scenario.steps.get(done).zip(scenario.steps.get(..done)) else {
        return Ok(());
    };
    let mut engine = engines(scenario.limit);
    for earlier in before {
        earlier.run(&mut engine);
    }
    let asked = Step { operation: Operation::Peek, cost: 0, ..*step }.run(&mut engine);
    step.run(&mut engine);
    let after = Step { operation: Operation::Refund, ..*step }.run(&mut engine);
    let grown = after.reset_after.get().checked_sub(asked.reset_after.get());
    if grown.is_some_and(|grown| grown <= 1) && (asked.used..=asked.used + 1).contains(&after.used) {
        return Ok(());
    }
    Err(scenario.failure(done + 1, "a refund undoes its check", format!("{asked:?}\n{after:?}")))
}
