//! What is under test: something that keeps the state of one key and decides.
//!
//! Suites make one engine per limit with a factory, `Fn(Limit) -> impl Engine`,
//! and call [`Engine::reset`] to begin again.
//!
//! Deliberately not here: engines over Lua and Redis; their crates bring them.

use tollgate_core::algorithm::NOW_MAX;
use tollgate_core::{Change, Decision, Limit, Operation, State, Time, decide};

/// Keeps the state of one key under one limit, and decides.
pub trait Engine {
    /// Decides one step and remembers what it says to remember.
    fn decide(&mut self, now: Time, operation: Operation, cost: u64) -> Decision;

    /// Forgets everything: the key is new again.
    fn reset(&mut self);
}

/// The maths of `tollgate-core` over a state in memory.
#[derive(Debug, Clone)]
pub struct CoreEngine {
    limit: Limit,
    state: Option<State>,
    eviction: Eviction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Eviction {
    Never,
    AtDeadline,
}

impl CoreEngine {
    /// Keeps a state until the maths replaces it.
    pub const fn new(limit: Limit) -> Self {
        Self { limit, state: None, eviction: Eviction::Never }
    }

    /// Drops a state as soon as its deadline is reached, and keeps it packed
    /// between two decisions, as a store may.
    pub const fn evicting(limit: Limit) -> Self {
        Self { limit, state: None, eviction: Eviction::AtDeadline }
    }

    fn evict(&mut self, now: Time) {
        if self.eviction == Eviction::Never {
            return;
        }
        self.state = self.state.take().filter(|state| state.deadline() > now).map(|state| match state {
            State::Cell(cell) => State::Cell(tollgate_core::Cell::unpack(cell.pack())),
            State::Log(log) => State::Log(log),
        });
    }
}

impl Engine for CoreEngine {
    fn decide(&mut self, now: Time, operation: Operation, cost: u64) -> Decision {
        // A store reads its clock no further than the maths does.
        self.evict(now.min(NOW_MAX));
        let (decision, change) =
            decide(self.state.as_ref().map(State::as_ref), &self.limit, now, operation, cost);
        match change {
            Change::Keep => {}
            Change::Put(state) => self.state = Some(state),
            Change::Remove => self.state = None,
        }
        decision
    }

    fn reset(&mut self) {
        self.state = None;
    }
}
