//! What a script is sent: for each charge of a request its key and a line of
//! words.
//!
//! What Lua could only do slowly is worked out here once per charge: the time
//! that a cost takes, exact to the fraction of a microsecond.
//!
//! Invariant: equal charges of different keys have equal lines, so that a script
//! reads a line once for a whole batch call. A line holds no more than the
//! script reads.

use smallvec::SmallVec;
use tollgate_core::algorithm::COST_MAX;
use tollgate_core::{Charge, Micros, Mode, Operation, Penalty, Time};
use tollgate_limiter::ChargeSet;

use super::script::{ChargeField, Script};
use crate::placement::keys::RedisKeys;

/// The arguments of a script for one request.
#[derive(Debug, Clone)]
pub struct ScriptArgs {
    /// Which script.
    pub script: Script,
    /// A key for each charge.
    pub keys: RedisKeys,
    /// What is asked of each key.
    pub charges: SmallVec<[String; 1]>,
    /// How the charges belong together; none for a script of single charges.
    pub charge_set: Option<String>,
}

impl ScriptArgs {
    /// The arguments for a charge set under these keys. If it is later than
    /// `not_after`, the script changes nothing.
    pub fn new(charge_set: &ChargeSet<'_>, keys: RedisKeys, not_after: Option<Time>) -> Self {
        match charge_set.charges.as_slice() {
            [charge] if !charge_set.is_denied_elsewhere && not_after.is_none() && !charge.is_penalty() => {
                let script = Script::for_single(charge);
                Self { script, keys, charges: smallvec::smallvec![line(charge, script)], charge_set: None }
            }
            _ => Self::for_charge_set(charge_set, keys, not_after),
        }
    }

    /// The same for the script of charge sets, even if there is a single charge.
    pub fn for_charge_set(charge_set: &ChargeSet<'_>, keys: RedisKeys, not_after: Option<Time>) -> Self {
        let script = Script::ChargeSets;
        let charges = charge_set.charges.iter().map(|charge| line(charge, script)).collect();
        let flag = match (charge_set.is_denied_elsewhere, charge_set.quota_passes) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        };
        let not_after = not_after.map_or_else(String::new, |time| time.get().to_string());
        let charge_set = Some(format!("{} {flag} {not_after}", charge_set.charges.len()));
        Self { script, keys, charges, charge_set }
    }
}

/// What is asked of the key of a charge.
fn line(charge: &Charge<'_>, script: Script) -> String {
    if let Some(penalty) = charge.limit().penalty().filter(|_| charge.is_penalty()) {
        return penalty_line(charge, penalty);
    }
    let mut line = String::with_capacity(96);
    if script == Script::ChargeSets {
        line.push_str(Script::for_single(charge).algorithm_name().unwrap_or_default());
        line.push(' ');
        line.push_str(mode(charge.mode));
        line.push(' ');
    }
    line.push_str(operation(charge.step().0));
    line.push_str(if charge.limit().counts_rejected() { " 1" } else { " 0" });
    let mut digits = itoa::Buffer::new();
    for field in script.fields() {
        line.push(' ');
        if *field == ChargeField::Allowance {
            push_allowance(&mut line, charge);
            continue;
        }
        line.push_str(value(*field, charge).map_or("-1", |value| digits.format(value)));
    }
    line
}

/// What only a soft limit has, in one word, because most limits have none.
fn push_allowance(line: &mut String, charge: &Charge<'_>) {
    let cost = charge.step().1.min(COST_MAX);
    let Some(parts) = charge.limit().allowance_parts(cost) else { return line.push('0') };
    let mut digits = itoa::Buffer::new();
    for (index, part) in parts.into_iter().enumerate() {
        line.push_str(if index > 0 { "," } else { "" });
        line.push_str(digits.format(part));
    }
}

/// What is asked of the key of a penalty: a check may end in a strike, a peek only
/// looks.
fn penalty_line(charge: &Charge<'_>, penalty: &Penalty) -> String {
    let step = match charge.operation {
        Operation::Check if !charge.may_strike() => Operation::Peek,
        Operation::Check | Operation::Peek | Operation::Report | Operation::Refund => charge.operation,
    };
    let numbers = [penalty.within(), penalty.block(), penalty.max()].map(Micros::get);
    let [within, block, max] = numbers;
    let (after, factor) = (penalty.after(), penalty.factor());
    format!("penalty {} {} {after} {within} {block} {factor} {max}", mode(charge.mode), operation(step))
}

const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
        Mode::Quota => "quota",
        Mode::ShadowQuota => "shadow_quota",
    }
}

const fn operation(operation: Operation) -> &'static str {
    match operation {
        Operation::Check => "check",
        Operation::Peek => "peek",
        Operation::Report => "report",
        Operation::Refund => "refund",
    }
}

/// The value of a field, if the charge has it.
fn value(field: ChargeField, charge: &Charge<'_>) -> Option<u64> {
    let (limit, cost) = (charge.limit(), charge.step().1.min(COST_MAX));
    Some(match field {
        ChargeField::Cost => cost,
        ChargeField::Window => limit.window().get(),
        ChargeField::Hard => limit.hard_capacity(),
        ChargeField::Tick => limit.tick().get(),
        ChargeField::Count => u64::from(limit.count().max(1)),
        ChargeField::Parts => limit.span_parts(),
        ChargeField::FullSpan => limit.full_span_parts().0,
        ChargeField::FullSpanPart => limit.full_span_parts().1,
        ChargeField::Take => limit.cost_span_parts(cost).0,
        ChargeField::TakePart => limit.cost_span_parts(cost).1,
        ChargeField::MaxWait => limit.shape().parameters().max_wait??.get(),
        ChargeField::Allowance => return None,
    })
}
