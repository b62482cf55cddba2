//! What holds for every single decision, and which ones are soft.

use tollgate_core::{Algorithm, Decision, Limit, Operation, Verdict};

use crate::engine::Engine;
use crate::scenario::{Failure, Scenario, Step, count};

/// `remaining` never exceeds the limit, waits are not empty, a report is always
/// allowed, a refund never fills above full, and soft is what is above the base.
pub(super) fn a_decision_stays_within_the_limit<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    let limit = &scenario.limit;
    let mut engine = engines(*limit);
    let most = engines(*limit).decide(tollgate_core::Time::EPOCH, Operation::Peek, 0).remaining;
    for (done, step) in (1..).zip(&scenario.steps) {
        let before = engine.decide(step.at, Operation::Peek, 0);
        let decision = step.run(&mut engine);
        let wrong = if decision.remaining > most {
            Some("more remains than of a new key")
        } else {
            stray(limit, *step, before, decision)
        };
        if let Some(promise) = wrong {
            return Err(scenario.failure(done, promise, format!("{decision:?}")));
        }
    }
    Ok(count(scenario.steps.len()))
}

/// The promise that a decision breaks.
fn stray(limit: &Limit, step: Step, before: Decision, decision: Decision) -> Option<&'static str> {
    let denied = decision.verdict.is_deny();
    let takes = !denied && step.cost > 0 && step.operation != Operation::Refund;
    let is_soft = takes && limit.exceed_percent() > 0 && decision.used > limit.capacity();
    let ever_fits = step.cost <= limit.hard_capacity();
    let fixed = limit.algorithm() == Algorithm::FixedWindow;
    let rules = [
        (decision.limit == limit.capacity(), "the limit is the capacity"),
        (decision.remaining <= decision.limit, "remaining never exceeds the limit"),
        (decision.soft == is_soft, "soft is what was taken above the base limit"),
        (
            !takes || step.operation == Operation::Report || decision.used <= limit.hard_capacity(),
            "no check passes the hard limit",
        ),
        (
            fixed || (decision.used > 0) == (decision.reset_after.get() > 0),
            "a key is new when nothing is used",
        ),
        (
            step.operation != Operation::Report || decision.verdict == Verdict::Allow,
            "a report is always allowed",
        ),
        (
            step.operation != Operation::Report || decision.remaining <= before.remaining,
            "a report never gives",
        ),
        (
            step.operation != Operation::Refund || decision.verdict == Verdict::Allow,
            "a refund is always allowed",
        ),
        (
            step.operation != Operation::Refund || decision.used.saturating_add(step.cost) >= before.used,
            "a refund gives back no more than its cost",
        ),
        (step.operation != Operation::Refund || decision.used <= before.used, "a refund never takes"),
        (
            !denied || (decision.verdict == Verdict::Deny { retry_after: None }) != ever_fits,
            "never is for costs above the hard limit, and only for them",
        ),
        (decision.verdict != Verdict::Delay { wait: tollgate_core::Micros::ZERO }, "a wait is not empty"),
        (
            !matches!(decision.verdict, Verdict::Delay { .. }) || limit.algorithm() == Algorithm::LeakyBucket,
            "only a queue delays",
        ),
    ];
    rules.into_iter().find_map(|(holds, promise)| (!holds).then_some(promise))
}

/// Up to the first mark a soft limit lets through what the base limit does, and
/// the base limit denies the marked one. What is rewound may count for all that
/// a limit holds, which is not the same for both.
pub(super) fn a_soft_limit_marks_what_the_base_limit_denies<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    let limit = scenario.limit.counting_rejected(false);
    let Ok(base) = Limit::new(limit.count(), limit.window(), limit.shape()) else { return Ok(0) };
    let checks = Scenario { limit, ..scenario.with_small_steps_back().only(Step::is_check) };
    let soft = checks.run(&mut engines(limit));
    let hard = checks.run(&mut engines(base));
    for (done, (soft, hard)) in (1..).zip(soft.iter().zip(&hard)) {
        // A cost between the two limits never passes the one, and waits for the other.
        let same = soft.verdict.is_deny() == hard.verdict.is_deny();
        if same == soft.soft {
            let detail = format!("soft {soft:?}\nbase {hard:?}");
            return Err(checks.failure(done, "a soft limit marks what the base limit denies", detail));
        }
        if soft.soft {
            break;
        }
    }
    Ok(count(soft.len()))
}
