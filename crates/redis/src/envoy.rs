//! Counters exactly as envoyproxy/ratelimit keeps them, to share a Redis with it.
//!
//! For limits that it knows: a fixed window that counts rejected requests. The
//! name is `domain_key_value_…_` and the start of the window in seconds, by this
//! process's clock; a charge is `INCRBY` and `EXPIRE` in one pipeline; what was
//! there before is the new count less the cost.
//!
//! Invariant: nothing here escapes anything, although two counters may so meet:
//! both services must meet in the same ones.
//!
//! Deliberately not here: giving back because another limit denied. Limits that
//! count rejected requests count anyway.

use redis::{Pipeline, Value};
use tollgate_core::algorithm::COST_MAX;
use tollgate_core::{Algorithm, Change, Charge, Decision, Key, Operation, State, Time, decide};

const SECOND_US: u64 = 1_000_000;

/// Whether the reference knows limits like this.
pub(crate) fn suits(key: &Key<'_>) -> bool {
    let limit = key.limit;
    limit.algorithm() == Algorithm::FixedWindow
        && limit.counts_rejected()
        && limit.exceed_percent() == 0
        && limit.window().get().is_multiple_of(SECOND_US)
        && key.ordinal == 0
}

/// The name of the counter of the window that `now` is in.
pub(crate) fn name(prefix: &str, key: &Key<'_>, now: Time) -> String {
    let mut name = format!("{prefix}{}_", key.domain);
    for entry in key.entries() {
        name.push_str(entry.key);
        name.push('_');
        name.push_str(entry.value);
        name.push('_');
    }
    let window = key.limit.window().get();
    name.push_str(&((now.get() - now.get() % window) / SECOND_US).to_string());
    name
}

/// What to do about a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Add(i64),
    Look,
}

fn deed(charge: &Charge<'_>) -> Deed {
    let cost = i64::try_from(charge.cost.min(COST_MAX)).unwrap_or(i64::MAX);
    match charge.operation {
        Operation::Check | Operation::Report if cost > 0 => Deed::Add(cost),
        Operation::Refund if cost > 0 => Deed::Add(-cost),
        Operation::Check | Operation::Report | Operation::Refund | Operation::Peek => Deed::Look,
    }
}

/// The commands for charges with these names.
pub(crate) fn commands(charges: &[Charge<'_>], names: &[String], jitter_max_s: u32) -> Pipeline {
    let mut commands = Pipeline::new();
    for (charge, name) in charges.iter().zip(names) {
        match deed(charge) {
            Deed::Look => {
                commands.cmd("GET").arg(name);
            }
            Deed::Add(amount) => {
                let window_s = charge.limit().window().get() / SECOND_US;
                let jitter_s = if jitter_max_s == 0 { 0 } else { fastrand::u64(0..u64::from(jitter_max_s)) };
                commands.cmd("INCRBY").arg(name).arg(amount);
                commands.cmd("EXPIRE").arg(name).arg(window_s + jitter_s);
            }
        }
    }
    commands
}

/// What the answers to [`commands`] mean: a decision and the state from then
/// on for each charge; none if they are not answers to them.
pub(crate) fn decisions(
    charges: &[Charge<'_>],
    answers: Vec<Value>,
    now: Time,
) -> Option<Vec<(Decision, Option<State>)>> {
    let mut answers = answers.into_iter();
    let mut decided = Vec::with_capacity(charges.len());
    for charge in charges {
        let count: Option<i64> = redis::from_redis_value(answers.next()?).ok()?;
        let before = match deed(charge) {
            Deed::Look => count.unwrap_or(0),
            Deed::Add(amount) => {
                answers.next()?;
                count?.saturating_sub(amount)
            }
        };
        decided.push(decided_at(charge, u64::try_from(before).unwrap_or(0), now)?);
    }
    Some(decided)
}

fn decided_at(charge: &Charge<'_>, before: u64, now: Time) -> Option<(Decision, Option<State>)> {
    let window = charge.limit().window().get();
    let end = now.get() - now.get() % window + window;
    let state = State::read_text(format!("{end} {before}").as_bytes(), charge.limit())?;
    let state = (before > 0).then_some(state);
    let (decision, change) =
        decide(state.as_ref().map(State::as_ref), charge.limit(), now, charge.operation, charge.cost);
    let after = match change {
        Change::Keep => state,
        Change::Put(state) => Some(state),
        Change::Remove => None,
    };
    Some((decision, after))
}

/// How much of what was given back was never taken: counters that went below
/// zero, and by how much.
pub(crate) fn overdrawn(charges: &[Charge<'_>], names: &[String], answers: &[Value]) -> Option<Pipeline> {
    let mut commands = Pipeline::new();
    let mut at = 0;
    for (charge, name) in charges.iter().zip(names) {
        let deed = deed(charge);
        match (deed, answers.get(at)) {
            (Deed::Add(amount), Some(Value::Int(count))) if amount < 0 && *count < 0 => {
                commands.cmd("INCRBY").arg(name).arg(-count);
            }
            (Deed::Add(_) | Deed::Look, _) => {}
        }
        at += if deed == Deed::Look { 1 } else { 2 };
    }
    (!commands.is_empty()).then_some(commands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::{Entry, Limit, Micros, Shape};

    #[test]
    fn names_are_those_of_the_reference() {
        let entries = [Entry { key: "key2", value: "value2" }, Entry { key: "subkey2", value: "subvalue2" }];
        let limit =
            |s| Limit::new(1, Micros::from_secs(s), Shape::FixedWindow).unwrap().counting_rejected(true);
        let (second, minute) = (limit(1), limit(60));
        let key = |limit| Key { domain: "domain", entries: &entries, shared: &[], limit, ordinal: 0 };
        let now = Time::from_secs(1234);
        assert_eq!(name("", &key(&second), now), "domain_key2_value2_subkey2_subvalue2_1234");
        assert_eq!(name("p:", &key(&minute), now), "p:domain_key2_value2_subkey2_subvalue2_1200");
        assert!(suits(&key(&minute)));
        assert!(!suits(&key(&minute.counting_rejected(false))));
    }
}
