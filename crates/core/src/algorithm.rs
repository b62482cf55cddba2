//! The maths: `(state, limit, now, cost) → (decision, state')`, pure.
//!
//! A store calls [`decide`] with the state it holds, and puts back what
//! [`Change`] says. One file per algorithm; `pace` and `window_log` hold
//! what two of them share. Each has its page in `spec/algorithms/`.
//!
//! Invariants, held by tests for every algorithm: a denial changes nothing
//! unless rejected requests count; cost 0 changes nothing; `retry_after` is
//! exact; a state past its deadline equals no state; a clock that steps back by
//! up to a second admits nothing extra, and one that steps back further denies
//! nobody longer than a limit that is used up; `remaining` never exceeds the
//! limit.
//!
//! Deliberately not here: maps, locks, clocks, and what to do with several
//! charges at once.

mod fixed_window;
mod leaky_bucket;
mod rewind;
mod sliding_buckets;
mod sliding_counter;
mod sliding_log;
mod token_bucket;
pub(crate) mod window_log;

use crate::decision::{Decision, Verdict};
use crate::limit::{Limit, Shape};
use crate::state::{Cell, State, StateRef};
use crate::time::Time;

/// No cost counts for more than this. It is above every capacity, so that a
/// larger one is denied all the same.
pub const COST_MAX: u64 = (1 << 36) - 1;
/// No counter goes higher, so that a double holds it.
pub(crate) const USED_MAX: u64 = (1 << 53) - 1;

pub use crate::time::NOW_MAX;

/// What to do with the cost.
///
/// ```
/// use tollgate_core::{Limit, Micros, Operation, Shape, Time, Verdict, decide};
/// let limit = Limit::new(1, Micros::SECOND, Shape::FixedWindow)?;
/// let (decision, _) = decide(None, &limit, Time::EPOCH, Operation::Report, 5);
/// assert_eq!((decision.verdict, decision.used), (Verdict::Allow, 5));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Operation {
    /// Take it if it fits.
    #[default]
    Check,
    /// Say what taking it would do, and change nothing.
    Peek,
    /// Take it whether it fits or not: it has already happened.
    Report,
    /// Give it back, never above full.
    Refund,
}

/// What becomes of the state. Peeks, denials and costs of 0 keep it, unless it
/// had to be [`rewound`].
///
/// ```
/// use tollgate_core::{Change, Limit, Micros, Operation, Shape, Time, decide};
/// let limit = Limit::new(1, Micros::SECOND, Shape::FixedWindow)?;
/// let (_, change) = decide(None, &limit, Time::EPOCH, Operation::Check, 0);
/// assert_eq!(change, Change::Keep, "a cost of 0 changes nothing");
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<S = State> {
    /// It stays as it is.
    Keep,
    /// This is kept from now on.
    Put(S),
    /// Nothing is kept: the key is as good as new.
    Remove,
}

impl<S> Change<S> {
    #[inline]
    fn map<T>(self, put: impl FnOnce(S) -> T) -> Change<T> {
        match self {
            Self::Keep => Change::Keep,
            Self::Put(state) => Change::Put(put(state)),
            Self::Remove => Change::Remove,
        }
    }
}

/// Decides one charge.
///
/// ```
/// use tollgate_core::{Change, Limit, Micros, Operation, Shape, Time, Verdict, decide};
/// let limit = Limit::new(1, Micros::from_secs(60), Shape::FixedWindow)?;
/// let now = Time::from_secs(40);
/// let (first, change) = decide(None, &limit, now, Operation::Check, 1);
/// assert_eq!(first.verdict, Verdict::Allow);
/// let Change::Put(state) = change else { panic!("a taken request is remembered") };
/// let (second, _) = decide(Some(state.as_ref()), &limit, now, Operation::Check, 1);
/// assert_eq!(second.verdict, Verdict::Deny { retry_after: Some(Micros::from_secs(20)) });
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[inline]
pub fn decide(
    state: Option<StateRef<'_>>,
    limit: &Limit,
    now: Time,
    operation: Operation,
    cost: u64,
) -> (Decision, Change) {
    let ask = Ask::new(limit, now, operation, cost);
    match state.filter(|state| rewind::is_ahead(*state, limit, ask.now)) {
        None => decide_by_shape(state, &ask),
        Some(ahead) => decide_rewound(ahead, &ask),
    }
}

/// Decides one charge by a limit that [keeps a cell](Limit::keeps_cell). It is [`decide`] without what only
/// logs need: a state that is sixteen bytes in registers, and never on the heap.
///
/// ```
/// use tollgate_core::{Change, Limit, Micros, Operation, Shape, Time, decide_cell};
/// let limit = Limit::new(2, Micros::from_secs(60), Shape::FixedWindow)?;
/// assert!(limit.keeps_cell());
/// let (_, change) = decide_cell(None, &limit, Time::EPOCH, Operation::Check, 1);
/// let Change::Put(cell) = change else { panic!("a taken request is remembered") };
/// let (second, _) = decide_cell(Some(cell), &limit, Time::EPOCH, Operation::Check, 1);
/// assert_eq!(second.remaining, 0);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[inline]
pub fn decide_cell(
    cell: Option<Cell>,
    limit: &Limit,
    now: Time,
    operation: Operation,
    cost: u64,
) -> (Decision, Change<Cell>) {
    debug_assert!(limit.keeps_cell(), "the state of this limit is a log");
    let ask = Ask::new(limit, now, operation, cost);
    match cell.filter(|cell| rewind::is_cell_ahead(*cell, limit, ask.now)) {
        None => decide_cell_by_shape(cell, &ask),
        Some(ahead) => decide_cell_rewound(ahead, &ask),
    }
}

/// Decides over a state that was written while the clock was ahead.
#[cold]
fn decide_rewound(ahead: StateRef<'_>, ask: &Ask<'_>) -> (Decision, Change) {
    let rewound = rewind::rewound(ahead, ask.limit, ask.now);
    match decide_by_shape(Some(rewound.as_ref()), ask) {
        // Kept as it was, it would deny at any later time, too.
        (decision, Change::Keep) => (decision, Change::Put(rewound)),
        changed => changed,
    }
}

/// The same for what keeps a cell.
#[cold]
fn decide_cell_rewound(ahead: Cell, ask: &Ask<'_>) -> (Decision, Change<Cell>) {
    let rewound = rewind::rewound_cell(ahead, ask.limit, ask.now);
    match decide_cell_by_shape(Some(rewound), ask) {
        (decision, Change::Keep) => (decision, Change::Put(rewound)),
        changed => changed,
    }
}

fn decide_by_shape(state: Option<StateRef<'_>>, ask: &Ask<'_>) -> (Decision, Change) {
    let cell = || state.and_then(StateRef::cell);
    let log = || state.and_then(StateRef::log);
    let (decision, change) = match ask.limit.shape() {
        Shape::SlidingLog => sliding_log::decide(log(), ask),
        Shape::SlidingBuckets { .. } => sliding_buckets::decide(log(), ask),
        Shape::FixedWindow => return fixed_window::decide(cell(), ask),
        Shape::SlidingCounter => return sliding_counter::decide(cell(), ask),
        Shape::TokenBucket { refill, .. } => return token_bucket::decide(cell(), ask, refill),
        Shape::LeakyBucket { max_wait, .. } => return leaky_bucket::decide(cell(), ask, max_wait),
    };
    (decision, change.map(State::Log))
}

fn decide_cell_by_shape(cell: Option<Cell>, ask: &Ask<'_>) -> (Decision, Change<Cell>) {
    match ask.limit.shape() {
        Shape::SlidingCounter => sliding_counter::decide(cell, ask),
        Shape::TokenBucket { refill, .. } => token_bucket::decide(cell, ask, refill),
        Shape::LeakyBucket { max_wait, .. } => leaky_bucket::decide(cell, ask, max_wait),
        // The other two keep logs and are never asked for here.
        Shape::FixedWindow | Shape::SlidingLog | Shape::SlidingBuckets { .. } => {
            fixed_window::decide(cell, ask)
        }
    }
}

/// The state that a decision at `now` begins with, if it is another one than
/// this: a state that was written while the clock was ahead is rewound, so that
/// what it counts counts as taken now. [`decide`] does it by itself; whoever
/// decides several charges over one state and may undo them does it first.
pub fn rewound(state: StateRef<'_>, limit: &Limit, now: Time) -> Option<State> {
    let now = now.min(NOW_MAX);
    rewind::is_ahead(state, limit, now).then(|| rewind::rewound(state, limit, now))
}

/// The arguments of a decision besides the state.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) limit: &'a Limit,
    pub(crate) now: Time,
    pub(crate) operation: Operation,
    pub(crate) cost: u64,
}

/// What becomes of the usage of a key.
///
/// Every algorithm keeps some usage; they differ in how it fades. What an
/// operation does to it is the same for all, and decided here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageStep {
    /// The cost is added.
    Take,
    /// The cost does not fit and is not added.
    Deny,
    /// The cost does not fit and counts all the same.
    CountDenied,
    /// The cost is taken off.
    GiveBack,
}

impl<'a> Ask<'a> {
    #[inline]
    fn new(limit: &'a Limit, now: Time, operation: Operation, cost: u64) -> Self {
        Self { limit, now: now.min(NOW_MAX), operation, cost: cost.min(COST_MAX) }
    }
}

impl Ask<'_> {
    /// What to do with the cost, given whether it fits.
    pub(crate) fn step(&self, fits: bool) -> UsageStep {
        match self.operation {
            Operation::Refund => UsageStep::GiveBack,
            Operation::Report => UsageStep::Take,
            Operation::Check | Operation::Peek if fits => UsageStep::Take,
            Operation::Check if self.limit.counts_rejected() => UsageStep::CountDenied,
            Operation::Check | Operation::Peek => UsageStep::Deny,
        }
    }

    /// Whether the state must stay as it is.
    pub(crate) fn is_peek(&self) -> bool {
        self.cost == 0 || self.operation == Operation::Peek
    }

    /// Whether this cost could ever fit.
    pub(crate) fn can_ever_fit(&self) -> bool {
        self.cost <= self.limit.hard_capacity()
    }

    /// Whether an allowed request may be marked as taking what only a soft limit gives.
    pub(crate) fn may_be_soft(&self, verdict: Verdict) -> bool {
        self.limit.exceed_percent() > 0
            && !verdict.is_deny()
            && self.cost > 0
            && self.operation != Operation::Refund
    }

    /// A decision of a limit that counts whole units, `used` after the step.
    pub(crate) fn decision(&self, verdict: Verdict, used: u64) -> Decision {
        let limit = self.limit.capacity();
        Decision {
            verdict,
            limit,
            used,
            remaining: limit.saturating_sub(used),
            reset_after: crate::time::Micros::ZERO,
            soft: used > limit && self.may_be_soft(verdict),
            blocked_for: verdict.blocked_for(),
        }
    }
}
