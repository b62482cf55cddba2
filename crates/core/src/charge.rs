//! What a request takes from one counter.
//!
//! [`crate::RuleSet::charges`] makes them; a store decides them together, all
//! or nothing.

use crate::algorithm::{Change, Operation, decide, decide_cell, rewound};
use crate::decision::{Decision, Verdict};
use crate::key::Key;
use crate::limit::Limit;
use crate::plain_bucket::PlainBucket;
use crate::rule::{Mode, RuleId};
use crate::state::{Cell, State, StateRef};
use crate::strikes::{self, PenaltyStep};
use crate::time::{Micros, Time};

/// Rule + key + limit + cost to apply.
///
/// ```
/// use tollgate_core::ruleset::Found;
/// use tollgate_core::rule::{DescriptorSpec, DomainSpec, LimitsSpec, RuleSpec};
/// use tollgate_core::{Descriptor, Entry, Limit, Operation, Request, RuleSet, Shape, Unit};
///
/// let limit = Limit::new(10, Unit::Minute.length(), Shape::FixedWindow)?;
/// let limits = LimitsSpec::Limits(vec![RuleSpec::new(limit, Unit::Minute)]);
/// let descriptors = vec![DescriptorSpec { key: "user_id".into(), limits, ..Default::default() }];
/// let rules = RuleSet::new(vec![DomainSpec { name: "shop".into(), descriptors, ..Default::default() }])?;
///
/// let entries = [Entry::from(("user_id", "42"))];
/// let descriptors = [Descriptor::new(&entries)];
/// rules.charges(&Request::new("shop", &descriptors), Operation::Check, |found| {
///     let Found::Charge(charge) = found else { panic!("a rule matches") };
///     assert_eq!((charge.cost, charge.limit().count()), (1, 10));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Charge<'a> {
    /// Which descriptor of the request it is for.
    pub descriptor: usize,
    /// The rule; none if the caller brought the limit.
    pub rule: Option<RuleId>,
    /// The counter.
    pub key: Key<'a>,
    /// How a denial bears on the request.
    pub mode: Mode,
    /// What to do with the cost.
    pub operation: Operation,
    /// What to take; 0 changes nothing.
    pub cost: u64,
}

impl<'a> Charge<'a> {
    /// The limit to decide by.
    pub const fn limit(&self) -> &'a Limit {
        self.key.limit
    }

    /// What the maths is asked for. A postpaid limit records every cost, and
    /// where there is none it is asked whether one more would fit.
    pub const fn step(&self) -> (Operation, u64) {
        match self.operation {
            Operation::Check if self.limit().is_postpaid() && self.cost > 0 => (Operation::Report, self.cost),
            Operation::Check | Operation::Peek if self.limit().is_postpaid() => (Operation::Peek, 1),
            Operation::Check | Operation::Peek | Operation::Report | Operation::Refund => {
                (self.operation, self.cost)
            }
        }
    }

    /// The charge of the penalty of this charge's limit, if it has one.
    /// `operation` is that of the whole request: a question whose cost follows
    /// later may be denied as any other request.
    pub const fn penalty(self, operation: Operation) -> Option<Self> {
        if self.key.limit.penalty().is_none() {
            return None;
        }
        let operation = match (operation, self.operation) {
            (Operation::Check, Operation::Check | Operation::Peek) => Operation::Check,
            (_, own) => own,
        };
        Some(Self { key: self.key.penalty(), operation, ..self })
    }

    /// Whether it is the charge of a penalty. It follows that of its limit.
    pub const fn is_penalty(&self) -> bool {
        self.key.is_penalty()
    }

    /// Whether it stands behind the charge of its limit and denies as one with it:
    /// that of a penalty, or of a node's share. In shadow mode a share stands for its
    /// limit: both would not take or leave together, because neither denies.
    pub const fn follows_its_limit(&self) -> bool {
        self.key.is_penalty() || self.key.is_share() && !self.mode.is_shadow()
    }

    /// Whether a denial by its limit is a strike: a request was denied, and not
    /// a question, nor what takes nothing.
    pub fn may_strike(&self) -> bool {
        let takes = self.cost > 0 || self.limit().is_postpaid();
        self.is_penalty() && self.operation == Operation::Check && takes
    }

    /// Notes a strike on the key of a penalty.
    pub fn strike(&self, state: Option<StateRef<'_>>, now: Time) -> (Decision, Change) {
        self.decide_penalty(state, now, PenaltyStep::Strike)
    }

    /// The state that a decision at `now` begins with, if it is another one.
    pub fn rewound(&self, state: StateRef<'_>, now: Time) -> Option<State> {
        if self.is_penalty() { None } else { rewound(state, self.limit(), now) }
    }

    /// Reads the written form of its key's state; none if it is not one.
    pub fn read_state(&self, text: &[u8]) -> Option<State> {
        if self.is_penalty() { strikes::read_text(text) } else { State::read_text(text, self.limit()) }
    }

    /// Appends the written form of its key's state.
    pub fn write_state(&self, state: &State, out: &mut Vec<u8>) {
        if self.is_penalty() {
            out.extend_from_slice(strikes::write_text(state).as_bytes());
        } else {
            state.write_text(self.limit(), out);
        }
    }

    fn decide_penalty(
        &self,
        state: Option<StateRef<'_>>,
        now: Time,
        step: PenaltyStep,
    ) -> (Decision, Change) {
        let penalty = self.limit().penalty().expect("only a limit with a penalty has such a charge");
        let (decision, change) = strikes::decide(state, penalty, now, step);
        // What was reported or given back has happened, blocked or not.
        match self.operation {
            Operation::Check | Operation::Peek => (decision, change),
            Operation::Report | Operation::Refund => {
                (Decision { verdict: Verdict::Allow, blocked_for: Micros::ZERO, ..decision }, change)
            }
        }
    }

    /// Decides it over the state of its key. That of a penalty only asks
    /// whether the key is blocked.
    #[inline]
    pub fn decide(&self, state: Option<StateRef<'_>>, now: Time) -> (Decision, Change) {
        if self.is_penalty() || self.limit().is_postpaid() {
            return self.decide_rare(state, now);
        }
        decide(state, self.limit(), now, self.operation, self.cost)
    }

    /// Whether [`Charge::decide_cell`] decides it, as nearly every charge.
    #[inline]
    pub fn keeps_cell(&self) -> bool {
        self.limit().keeps_cell() && !self.is_penalty() && !self.limit().is_postpaid()
    }

    /// [`Charge::decide`] for one that [keeps a cell](Charge::keeps_cell).
    #[inline]
    pub fn decide_cell(&self, cell: Option<Cell>, now: Time) -> (Decision, Change<Cell>) {
        decide_cell(cell, self.limit(), now, self.operation, self.cost)
    }

    /// The short way to decide it, if it has one: [`PlainBucket::check_one`].
    #[inline]
    pub fn plain_bucket(&self) -> Option<&'a PlainBucket> {
        let is_plain = self.cost == 1 && self.operation == Operation::Check && !self.is_penalty();
        if is_plain { self.limit().plain_bucket() } else { None }
    }

    /// The same for the charges that ask for something else than what they are.
    fn decide_rare(&self, state: Option<StateRef<'_>>, now: Time) -> (Decision, Change) {
        if self.is_penalty() {
            return self.decide_penalty(state, now, PenaltyStep::Look);
        }
        let (operation, cost) = self.step();
        let (decision, change) = decide(state, self.limit(), now, operation, cost);
        if cost == self.cost {
            return (decision, change);
        }
        // It was asked about one more and takes nothing: tell what is there.
        let (as_it_is, change) = decide(state, self.limit(), now, Operation::Peek, 0);
        let Decision { verdict, blocked_for, soft, .. } = decision;
        (Decision { verdict, blocked_for, soft, ..as_it_is }, change)
    }
}
