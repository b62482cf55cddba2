//! The reply of a script, as decisions.
//!
//! A script replies with its clock and the states that it read. [`Replay`] takes
//! the script's steps again over these states, in Rust, and so gets the
//! decisions with all their details and the states that the keys have now.
//!
//! Invariant: the decisions are those of the script, because both take the same
//! steps from the same states at the same time.
//!
//! Deliberately not here: how a reply is read from the wire (`batch_call`).

use smallvec::SmallVec;
use tollgate_core::{Change, State, StateRef, Time};
use tollgate_limiter::charge_set::{CHARGES_USUAL, ChargeSet, Decisions, States, decide_together};

/// What a script replied for one request.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptReply {
    /// The clock that it decided by.
    pub now: Time,
    /// For each charge the state that it read.
    pub before: SmallVec<[StateBefore; 1]>,
}

impl ScriptReply {
    /// Whether nothing was done because another server has some of the keys.
    pub fn is_elsewhere(&self) -> bool {
        self.before.contains(&StateBefore::Elsewhere)
    }
}

/// The state under a key before a script ran.
#[derive(Debug, PartialEq, Eq)]
pub enum StateBefore {
    /// There was none.
    Missing,
    /// As text.
    Text(Vec<u8>),
    /// A value that no script of ours has written. The script left it alone.
    Foreign,
    /// The server cannot read it, most likely because its slot has moved or is
    /// moving. The script did nothing for the request.
    Elsewhere,
}

/// A charge set decided again from the states that a script read.
#[derive(Debug)]
pub struct Replay {
    /// The clock that it was decided by.
    pub now: Time,
    /// One for each charge.
    pub decisions: Decisions,
    states: SmallVec<[Option<State>; CHARGES_USUAL]>,
    /// For each charge the first one with the same key.
    same_as: SmallVec<[usize; CHARGES_USUAL]>,
}

impl Replay {
    /// Decides a charge set under these keys.
    ///
    /// # Errors
    /// The charges whose state cannot be read.
    pub fn new(charge_set: &ChargeSet<'_>, reply: &ScriptReply, keys: &[String]) -> Result<Self, Vec<usize>> {
        let mut states = SmallVec::new();
        let mut unreadable = Vec::new();
        for (index, (charge, before)) in charge_set.charges.iter().zip(&reply.before).enumerate() {
            let state = match before {
                StateBefore::Missing => Some(None),
                StateBefore::Text(text) => charge.read_state(text).map(Some),
                StateBefore::Foreign | StateBefore::Elsewhere => None,
            };
            if state.is_none() {
                unreadable.push(index);
            }
            states.push(state.flatten());
        }
        if !unreadable.is_empty() {
            return Err(unreadable);
        }
        let first = |key: &String| keys.iter().position(|other| other == key).unwrap_or_default();
        let same_as = keys.iter().map(first).collect();
        let mut replay = Self { now: reply.now, decisions: Decisions::new(), states, same_as };
        replay.decisions = decide_together(charge_set, &mut replay, reply.now);
        Ok(replay)
    }

    /// Takes the state that a charge's key has now. A key that comes twice has
    /// it at its first charge, and nothing at the others.
    pub fn take_state(&mut self, charge: usize) -> Option<Option<State>> {
        (self.same_as.get(charge) == Some(&charge)).then(|| self.states.get_mut(charge)?.take())
    }

    fn first_with_key_of(&self, charge: usize) -> usize {
        self.same_as.get(charge).copied().unwrap_or(charge)
    }
}

impl States for Replay {
    fn get(&self, charge: usize) -> Option<StateRef<'_>> {
        self.states.get(self.first_with_key_of(charge))?.as_ref().map(State::as_ref)
    }

    fn change(&mut self, charge: usize, change: Change, _: Time) -> Option<State> {
        let first = self.first_with_key_of(charge);
        let state = self.states.get_mut(first)?;
        match change {
            Change::Keep => None,
            Change::Put(put) => state.replace(put),
            Change::Remove => state.take(),
        }
    }
}
