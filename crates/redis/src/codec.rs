//! What a script saw, as decisions.
//!
//! Invariant: a decision told here is the one that the script took: both take
//! the same steps from the same states at the same time.
//!
//! Deliberately not here: what a script is asked (`question`), and how it is
//! sent (`round`).

use smallvec::SmallVec;
use tollgate_core::{Change, State, StateRef, Time};
use tollgate_limiter::store::{CHARGES_USUAL, ChargeSet, Decisions, States, decide_together};

/// What a script saw of one request.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its clock.
    pub now: Time,
    /// For each charge the state before it was asked.
    pub before: SmallVec<[Before; 1]>,
}

/// A state before it was asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Before {
    /// There was none.
    Nothing,
    /// As text.
    Text(Vec<u8>),
    /// What no script of ours has written; nothing was done to it.
    Foreign,
}

/// A batch decided.
#[derive(Debug)]
pub struct Outcome {
    /// One for each charge.
    pub decisions: Decisions,
    states: SmallVec<[Option<State>; CHARGES_USUAL]>,
    same_as: SmallVec<[usize; CHARGES_USUAL]>,
}

impl Outcome {
    /// The state that a charge's key has now, taken out of here. A key that
    /// comes twice is told at its first charge.
    pub fn take_state(&mut self, charge: usize) -> Option<Option<State>> {
        (self.same_as.get(charge) == Some(&charge)).then(|| self.states.get_mut(charge)?.take())
    }
}

/// The decisions of a batch, from what the script saw.
///
/// # Errors
/// Which charges have a state that no script of ours has written.
pub fn decide(batch: &ChargeSet<'_>, seen: &Seen, names: &[String]) -> Result<Outcome, Vec<usize>> {
    let mut states = SmallVec::new();
    let mut unreadable = Vec::new();
    for (index, (charge, before)) in batch.charges.iter().zip(&seen.before).enumerate() {
        let state = match before {
            Before::Nothing => Some(None),
            Before::Text(text) => State::read_text(text, charge.limit()).map(Some),
            Before::Foreign => None,
        };
        if state.is_none() {
            unreadable.push(index);
        }
        states.push(state.flatten());
    }
    if !unreadable.is_empty() {
        return Err(unreadable);
    }
    let first = |name: &String| names.iter().position(|other| other == name).unwrap_or_default();
    let mut replay = Replay { states, same_as: names.iter().map(first).collect() };
    let decisions = decide_together(batch, &mut replay, seen.now);
    Ok(Outcome { decisions, states: replay.states, same_as: replay.same_as })
}

/// The states that the script saw, changed as it changed them.
struct Replay {
    states: SmallVec<[Option<State>; CHARGES_USUAL]>,
    same_as: SmallVec<[usize; CHARGES_USUAL]>,
}

impl Replay {
    fn place(&self, charge: usize) -> usize {
        self.same_as.get(charge).copied().unwrap_or(charge)
    }
}

impl States for Replay {
    fn get(&self, charge: usize) -> Option<StateRef<'_>> {
        self.states.get(self.place(charge))?.as_ref().map(State::as_ref)
    }

    fn change(&mut self, charge: usize, change: Change, _: Time) -> Option<State> {
        let place = self.place(charge);
        let state = self.states.get_mut(place)?;
        match change {
            Change::Keep => None,
            Change::Put(put) => state.replace(put),
            Change::Remove => state.take(),
        }
    }
}
