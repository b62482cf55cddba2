//! What each algorithm lets through at most, over any interval.
//!
//! Looks only at what was admitted and when, adds up all pairs of instants, and
//! compares in exact fractions. An instant is an interval too.

use tollgate_core::{Algorithm, Decision, Limit, Refill, Shape, Verdict};

use crate::engine::Engine;
use crate::scenario::{Failure, Scenario, Step, count};

/// A check that was let through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admitted {
    /// What its promise is held against.
    pub(super) at: u64,
    cost: u64,
    /// When it asked, and how long it was held.
    asked: u64,
    wait: u64,
    found_new: bool,
}

pub(super) fn admitted(steps: &[Step], decisions: &[Decision]) -> Vec<Admitted> {
    let each =
        steps.iter().zip(decisions).filter(|(step, decision)| step.is_check() && !decision.verdict.is_deny());
    let admit = |(step, decision): (&Step, &Decision)| {
        let at = step.at.min(tollgate_core::algorithm::NOW_MAX).get();
        let wait = match decision.verdict {
            Verdict::Delay { wait } => wait.get(),
            Verdict::Allow | Verdict::Deny { .. } => 0,
        };
        Admitted { at, cost: step.cost, asked: at, wait, found_new: decision.used == step.cost }
    };
    each.map(admit).collect()
}

/// With a clock that does not step back, what was admitted keeps the promise.
pub(super) fn holds_over_any_interval<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    let checks = scenario.monotone().only(Step::is_check);
    let decisions = checks.run(&mut engines(checks.limit));
    kept(&checks.limit, &admitted(&checks.steps, &decisions))
        .map_err(|detail| checks.failure(usize::MAX, "the promise holds over any interval", detail))?;
    Ok(count(decisions.len()))
}

/// Whether what was admitted, in this order, keeps the promise of the limit.
pub(super) fn kept(limit: &Limit, admitted: &[Admitted]) -> Result<(), String> {
    if limit.algorithm() == Algorithm::LeakyBucket && limit.exceed_percent() > 0 {
        soft_departures(limit, admitted)?;
    } else if limit.algorithm() == Algorithm::LeakyBucket {
        departures(limit, admitted)?;
    }
    let ends = admitted.iter().enumerate();
    for (end, last) in ends {
        let mut sum: u128 = 0;
        for first in admitted.iter().take(end + 1).rev() {
            sum += u128::from(first.cost);
            if let Some(most) = most_between(limit, *first, *last)
                && sum > most
            {
                return Err(format!("{sum} from {first:?} to {last:?} where {most} is the most"));
            }
        }
        if limit.algorithm() == Algorithm::SlidingCounter && !limit.counts_rejected() {
            weighted(limit, admitted.get(..=end).unwrap_or(admitted))?;
        }
    }
    Ok(())
}

/// The most that may be admitted from the one to the other, both included;
/// `None` where the promise does not speak of that interval.
fn most_between(limit: &Limit, first: Admitted, last: Admitted) -> Option<u128> {
    let (window, rate) = (limit.window().get(), u128::from(limit.count()));
    let (hard, percent) = (u128::from(limit.hard_capacity()), 100 + u128::from(limit.exceed_percent()));
    let elapsed = last.at - first.at;
    match limit.shape() {
        Shape::FixedWindow | Shape::SlidingCounter => (first.at / window == last.at / window).then_some(hard),
        Shape::SlidingLog | Shape::SlidingBuckets { .. } => (elapsed < window).then_some(hard),
        Shape::TokenBucket { refill: Refill::Smooth, .. } | Shape::LeakyBucket { .. } => {
            Some(hard + u128::from(elapsed) * rate * percent / (u128::from(window) * 100))
        }
        Shape::TokenBucket { refill: Refill::Interval, .. } => {
            // From the take that found it full, refills come every window; from
            // another one the first comes sooner.
            let refills = elapsed / window + u64::from(!first.found_new);
            Some(hard + u128::from(refills) * rate)
        }
    }
}

/// `⌊current + previous × overlap⌋` is within the limit at the last one.
fn weighted(limit: &Limit, admitted: &[Admitted]) -> Result<(), String> {
    let Some(last) = admitted.last() else { return Ok(()) };
    let window = limit.window().get();
    let index = last.at / window;
    let sum = |of: u64| -> u128 {
        admitted.iter().filter(|one| one.at / window == of).map(|one| u128::from(one.cost)).sum()
    };
    let in_view = u128::from((index + 1) * window - last.at);
    let previous = index.checked_sub(1).map_or(0, sum) * in_view / u128::from(window);
    let used = sum(index) + previous;
    if used > u128::from(limit.hard_capacity()) { Err(format!("{used} weigh at {last:?}")) } else { Ok(()) }
}

/// Departures come in the order of asking, one token's time apart for each unit
/// of cost, and not a microsecond later than they must.
fn departures(limit: &Limit, admitted: &[Admitted]) -> Result<(), String> {
    let (window, rate) = (u128::from(limit.window().get()), u128::from(limit.count()));
    // In units of which a microsecond has `rate`.
    let mut free_at: u128 = 0;
    for one in admitted {
        let asked = u128::from(one.asked) * rate;
        let leaves = free_at.max(asked);
        let wait = (leaves - asked).div_ceil(rate);
        let in_order =
            if limit.counts_rejected() { u128::from(one.wait) >= wait } else { u128::from(one.wait) == wait };
        if !in_order {
            return Err(format!("{one:?} should wait {wait}us"));
        }
        // Where rejected requests take places too, only the reply tells where this one stands.
        let leaves = if limit.counts_rejected() && u128::from(one.wait) > wait {
            asked + u128::from(one.wait - 1) * rate
        } else {
            leaves
        };
        free_at = leaves + u128::from(one.cost) * window;
    }
    Ok(())
}

/// Under a soft limit departures come in the order of asking, for each unit of
/// cost no closer than one token's time at the larger rate.
fn soft_departures(limit: &Limit, admitted: &[Admitted]) -> Result<(), String> {
    let (window, rate) = (u128::from(limit.window().get()) * 100, u128::from(limit.count()));
    let rate = rate * (100 + u128::from(limit.exceed_percent()));
    for (one, next) in
        admitted.iter().zip(admitted.iter().skip(1)).filter(|(one, next)| one.cost.min(next.cost) > 0)
    {
        let [left, leaves] = [one, next].map(|one| u128::from(one.asked + one.wait));
        // What is told is rounded up, by less than a microsecond.
        if (leaves + 1) * rate <= left * rate + u128::from(one.cost) * window {
            return Err(format!("{next:?} leaves too soon after {one:?}"));
        }
    }
    Ok(())
}

/// Sub-windows deny a request only if the window, longer by one of them, is full.
pub(super) fn a_bucket_denies_at_most_one_sub_window_early<E: Engine>(
    engines: &impl Fn(Limit) -> E,
    scenario: &Scenario,
) -> Result<u64, Failure> {
    if scenario.limit.algorithm() != Algorithm::SlidingBuckets || scenario.limit.counts_rejected() {
        return Ok(0);
    }
    let checks = scenario.monotone().only(Step::is_check);
    let decisions = checks.run(&mut engines(checks.limit));
    let all = admitted(&checks.steps, &decisions);
    let reach = checks.limit.window().get() + checks.limit.tick().get();
    for (done, (step, decision)) in (1..).zip(checks.steps.iter().zip(&decisions)) {
        let now = step.at.min(tollgate_core::algorithm::NOW_MAX).get();
        let near = all.iter().filter(|one| one.at <= now && now - one.at < reach);
        let sum: u128 = near.map(|one| u128::from(one.cost)).sum();
        let full = sum + u128::from(step.cost) > u128::from(checks.limit.hard_capacity());
        if decision.verdict.is_deny() && !full {
            let detail = format!("{sum} used, {decision:?}");
            return Err(checks.failure(done, "denies at most one sub-window early", detail));
        }
    }
    Ok(count(decisions.len()))
}
