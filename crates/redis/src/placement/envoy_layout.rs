//! Counters exactly as envoyproxy/ratelimit keeps them, to share a Redis with it.
//!
//! Only for limits that it knows: fixed windows that count rejected requests.
//! The key is `domain_key_value_…_` and the start of the window in seconds, by
//! this process's clock. A charge is `INCRBY` and `EXPIRE` in one pipeline; the
//! count before it is the reply less the cost.
//!
//! Invariant: keys are not escaped, although two counters may then share one:
//! both services must use the same keys.
//!
//! Deliberately not here: refunds because another limit denied. Limits that
//! count rejected requests count anyway.

use redis::{Pipeline, Value};
use tollgate_core::algorithm::COST_MAX;
use tollgate_core::{Algorithm, Change, Charge, Decision, Key, Operation, State, Time};

const SECOND_US: u64 = 1_000_000;

/// Whether envoyproxy/ratelimit knows limits like this.
pub(crate) fn fits(key: &Key<'_>) -> bool {
    let limit = key.limit;
    limit.algorithm() == Algorithm::FixedWindow
        && limit.counts_rejected()
        && limit.exceed_percent() == 0
        && limit.penalty().is_none()
        && limit.window().get().is_multiple_of(SECOND_US)
        && key.ordinal == 0
}

/// The key of the counter for the window that `now` is in.
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

/// What a charge does to its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CounterCommand {
    Add(i64),
    Get,
}

fn command(charge: &Charge<'_>) -> CounterCommand {
    let cost = i64::try_from(charge.cost.min(COST_MAX)).unwrap_or(i64::MAX);
    match charge.operation {
        Operation::Check | Operation::Report if cost > 0 => CounterCommand::Add(cost),
        Operation::Refund if cost > 0 => CounterCommand::Add(-cost),
        Operation::Check | Operation::Report | Operation::Refund | Operation::Peek => CounterCommand::Get,
    }
}

/// The commands for charges with these keys.
pub(crate) fn commands(charges: &[Charge<'_>], keys: &[String], jitter_max_s: u32) -> Pipeline {
    let mut commands = Pipeline::new();
    for (charge, key) in charges.iter().zip(keys) {
        match command(charge) {
            CounterCommand::Get => {
                commands.cmd("GET").arg(key);
            }
            CounterCommand::Add(amount) => {
                let window_s = charge.limit().window().get() / SECOND_US;
                let jitter_s = if jitter_max_s == 0 { 0 } else { fastrand::u64(0..u64::from(jitter_max_s)) };
                commands.cmd("INCRBY").arg(key).arg(amount);
                commands.cmd("EXPIRE").arg(key).arg(window_s + jitter_s);
            }
        }
    }
    commands
}

/// A decision and the state after it for each charge, from the replies to
/// [`commands`]; none if they are not replies to them.
pub(crate) fn decisions(
    charges: &[Charge<'_>],
    replies: Vec<Value>,
    now: Time,
) -> Option<Vec<(Decision, Option<State>)>> {
    let mut replies = replies.into_iter();
    let mut decided = Vec::with_capacity(charges.len());
    for charge in charges {
        let count: Option<i64> = redis::from_redis_value(replies.next()?).ok()?;
        let before = match command(charge) {
            CounterCommand::Get => count.unwrap_or(0),
            CounterCommand::Add(amount) => {
                replies.next()?;
                count?.saturating_sub(amount)
            }
        };
        decided.push(decide_from(charge, u64::try_from(before).unwrap_or(0), now)?);
    }
    Some(decided)
}

fn decide_from(charge: &Charge<'_>, before: u64, now: Time) -> Option<(Decision, Option<State>)> {
    let window = charge.limit().window().get();
    let end = now.get() - now.get() % window + window;
    let state = State::read_text(format!("{end} {before}").as_bytes(), charge.limit())?;
    let state = (before > 0).then_some(state);
    let (decision, change) = charge.decide(state.as_ref().map(State::as_ref), now);
    let after = match change {
        Change::Keep => state,
        Change::Put(state) => Some(state),
        Change::Remove => None,
    };
    // These counters count what is denied, so that the next one may have to wait
    // although this one would have passed.
    let again = Charge { operation: Operation::Peek, ..*charge };
    let (again, _) = again.decide(after.as_ref().map(State::as_ref), now);
    Some((Decision { blocked_for: again.blocked_for, ..decision }, after))
}

/// Raises counters to zero that a refund of more than was taken left below it;
/// none if there are none.
pub(crate) fn undo_excess_refunds(
    charges: &[Charge<'_>],
    keys: &[String],
    replies: &[Value],
) -> Option<Pipeline> {
    let mut commands = Pipeline::new();
    let mut at = 0;
    for (charge, key) in charges.iter().zip(keys) {
        let command = command(charge);
        match (command, replies.get(at)) {
            (CounterCommand::Add(amount), Some(Value::Int(count))) if amount < 0 && *count < 0 => {
                commands.cmd("INCRBY").arg(key).arg(-count);
            }
            (CounterCommand::Add(_) | CounterCommand::Get, _) => {}
        }
        at += if command == CounterCommand::Get { 1 } else { 2 };
    }
    (!commands.is_empty()).then_some(commands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::{Entry, Limit, Micros, Shape};

    #[test]
    fn keys_are_those_of_envoys_service() {
        let entries = [Entry { key: "key2", value: "value2" }, Entry { key: "subkey2", value: "subvalue2" }];
        let limit =
            |s| Limit::new(1, Micros::from_secs(s), Shape::FixedWindow).unwrap().counting_rejected(true);
        let (second, minute) = (limit(1), limit(60));
        let key = |limit| Key { domain: "domain", entries: &entries, shared: &[], limit, ordinal: 0 };
        let now = Time::from_secs(1234);
        assert_eq!(name("", &key(&second), now), "domain_key2_value2_subkey2_subvalue2_1234");
        assert_eq!(name("p:", &key(&minute), now), "p:domain_key2_value2_subkey2_subvalue2_1200");
        assert!(fits(&key(&minute)));
        assert!(!fits(&key(&minute.counting_rejected(false))));
    }
}
