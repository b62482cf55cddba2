//! What a script is asked: each charge of a request as a line of words.
//!
//! What Lua could only do slowly is worked out here, once per charge: the time
//! that a cost takes, exact to the fraction of a microsecond.
//!
//! A line has no more than the script reads, and is the same for every key that
//! the same is asked of, so that a script reads it once for a whole round.

use smallvec::SmallVec;
use tollgate_core::algorithm::COST_MAX;
use tollgate_core::{Charge, Mode, Operation, Shape, Time};
use tollgate_limiter::ChargeSet;

use crate::script::Script;

/// Most requests have one charge that must be asked for.
pub type Texts = SmallVec<[String; 1]>;

/// What a request asks of a script.
#[derive(Debug, Clone)]
pub struct Question {
    /// Which script.
    pub script: Script,
    /// A key for each charge.
    pub keys: Texts,
    /// What is asked of each.
    pub asks: Texts,
    /// How they belong together; none for a charge that is alone.
    pub together: Option<String>,
}

impl Question {
    /// What `batch`, whose charges are under `keys`, asks; from a time later
    /// than `not_after` on it must not change anything.
    pub fn new(batch: &ChargeSet<'_>, keys: Texts, not_after: Option<Time>) -> Self {
        match batch.charges.as_slice() {
            [charge] if !batch.is_denied_elsewhere && not_after.is_none() => {
                let script = Script::single(charge);
                Self { script, keys, asks: smallvec::smallvec![line(charge, script)], together: None }
            }
            _ => Self::together(batch, keys, not_after),
        }
    }

    /// The same for the script that decides together, however many they are.
    pub fn together(batch: &ChargeSet<'_>, keys: Texts, not_after: Option<Time>) -> Self {
        let script = Script::TOGETHER;
        let asks = batch.charges.iter().map(|charge| line(charge, script)).collect();
        let flag = match (batch.is_denied_elsewhere, batch.quota_passes) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        };
        let not_after = not_after.map_or_else(String::new, |time| time.get().to_string());
        let together = Some(format!("{} {flag} {not_after}", batch.charges.len()));
        Self { script, keys, asks, together }
    }
}

/// What is asked of the key of a charge.
fn line(charge: &Charge<'_>, script: Script) -> String {
    let mut line = String::with_capacity(96);
    if script == Script::TOGETHER {
        line.push_str(Script::single(charge).algorithm().unwrap_or_default());
        line.push(' ');
        line.push_str(mode(charge.mode));
        line.push(' ');
    }
    line.push_str(operation(charge.operation));
    line.push_str(if charge.limit().counts_rejected() { " 1" } else { " 0" });
    let mut digits = itoa::Buffer::new();
    for number in script.numbers() {
        line.push(' ');
        line.push_str(number.of(charge).map_or("-1", |number| digits.format(number)));
    }
    line
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

/// A number of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// What it costs.
    Cost,
    /// The window, in microseconds.
    Window,
    /// How much fits, the soft part included.
    Hard,
    /// The length of a sub-window.
    Tick,
    /// How much comes back in a window.
    Count,
    /// Into how many parts a microsecond is divided in the spans.
    Parts,
    /// In which time a bucket fills from empty: whole microseconds,
    HardSpan,
    /// and parts of one.
    HardSpanPart,
    /// Which time the cost takes: whole microseconds,
    Take,
    /// and parts of one.
    TakePart,
    /// The longest wait.
    MaxWait,
}

impl Number {
    /// All, in the order in which they are sent.
    pub const ALL: [Self; 11] = [
        Self::Cost,
        Self::Window,
        Self::Hard,
        Self::Tick,
        Self::Count,
        Self::Parts,
        Self::HardSpan,
        Self::HardSpanPart,
        Self::Take,
        Self::TakePart,
        Self::MaxWait,
    ];

    /// What `lua/ask.lua` calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Window => "window",
            Self::Hard => "hard",
            Self::Tick => "tick",
            Self::Count => "count",
            Self::Parts => "parts",
            Self::HardSpan => "hard_span",
            Self::HardSpanPart => "hard_span_part",
            Self::Take => "take",
            Self::TakePart => "take_part",
            Self::MaxWait => "max_wait",
        }
    }

    /// Its value, if the charge has it.
    fn of(self, charge: &Charge<'_>) -> Option<u64> {
        let (limit, cost) = (charge.limit(), charge.cost.min(COST_MAX));
        Some(match self {
            Self::Cost => cost,
            Self::Window => limit.window().get(),
            Self::Hard => limit.hard_capacity(),
            Self::Tick => limit.tick().get(),
            Self::Count => u64::from(limit.count().max(1)),
            Self::Parts => limit.span_parts(),
            Self::HardSpan => limit.hard_span_parts().0,
            Self::HardSpanPart => limit.hard_span_parts().1,
            Self::Take => limit.cost_span_parts(cost).0,
            Self::TakePart => limit.cost_span_parts(cost).1,
            Self::MaxWait => match limit.shape() {
                Shape::LeakyBucket { max_wait, .. } => max_wait?.get(),
                Shape::FixedWindow
                | Shape::SlidingLog
                | Shape::SlidingCounter
                | Shape::SlidingBuckets { .. }
                | Shape::TokenBucket { .. } => return None,
            },
        })
    }
}
