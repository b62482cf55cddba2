//! Whose turn it is: first in, first out by key.
//!
//! Filled with what a queue gives out, and asked by the worker that sends. Each key has a line. The
//! first of a line is asked for, and if the limiter has no room the whole line waits; an attempt that
//! failed goes back to its place, and the line waits for its pause.
//!
//! Invariants: of one key only one request is being asked for, and at most [`IN_FLIGHT_MAX`] are on
//! their way; they start in the order in which they came. Time is an argument, the calendar's; if that
//! is set back, a pause takes as long as it would have taken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tollgate_core::{Micros, Time};

use crate::config::BACKOFF_MAX;
use crate::id::DeferredId;
use crate::line_index::LineIndex;
use crate::request::{DeferredRequest, SendProgress};

/// Requests of one key that may be on their way at once, so that a slow upstream does not keep a
/// line below its limit.
pub const IN_FLIGHT_MAX: usize = 8;

/// A request whose turn it is.
#[derive(Debug, Clone)]
pub struct DeferredTurn {
    /// The request.
    pub request: Arc<DeferredRequest>,
    /// How often it was tried.
    pub progress: SendProgress,
    number: u64,
}

/// The lines of all keys.
#[derive(Debug, Default)]
pub struct DeferredLines {
    lines: HashMap<String, KeyLine>,
    /// The lines that may be asked for, by when.
    due: BTreeSet<(Time, String)>,
    /// Everything that is here or on its way.
    known: HashMap<DeferredId, u64>,
    next: u64,
    index: Arc<LineIndex>,
    /// When a turn was last asked for.
    latest: Time,
}

#[derive(Debug, Default)]
struct KeyLine {
    waiting: BTreeMap<u64, (Arc<DeferredRequest>, SendProgress)>,
    in_flight: usize,
    is_asking: bool,
    /// The limiter has no room before that, or an attempt failed.
    paused_until: Time,
}

impl KeyLine {
    /// When its first request may be asked for; none if it may not be.
    fn due(&self) -> Option<Time> {
        let (_, (first, progress)) = self.waiting.first_key_value()?;
        let is_free = !self.is_asking && self.in_flight < IN_FLIGHT_MAX;
        // What expires is dropped in time.
        is_free.then(|| self.paused_until.max(progress.not_before).min(first.expires))
    }
}

impl DeferredLines {
    /// Without requests as yet; which lines wait is told to `index`.
    pub fn new(index: Arc<LineIndex>) -> Self {
        Self { index, ..Self::default() }
    }

    /// Adds a request at the end of its line; one that is known already is left out.
    pub fn add(&mut self, request: DeferredRequest, progress: SendProgress) {
        if self.known.contains_key(&request.id) {
            return;
        }
        self.known.insert(request.id, self.next);
        let (number, key) = (self.next, request.key.clone());
        self.next = self.next.saturating_add(1);
        self.change(&key, |line| drop(line.waiting.insert(number, (Arc::new(request), progress))));
    }

    /// A request whose turn it is to be asked for. One of the four below must follow.
    pub fn turn(&mut self, now: Time) -> Option<DeferredTurn> {
        if now < self.latest {
            self.set_back(self.latest.since(now));
        }
        self.latest = now;
        let (at, key) = self.due.first()?;
        if *at > now {
            return None;
        }
        let key = key.clone();
        let mut turn = None;
        self.change(&key, |line| {
            line.is_asking = true;
            let first = line.waiting.first_key_value();
            turn = first.map(|(number, (request, progress))| DeferredTurn {
                request: Arc::clone(request),
                progress: *progress,
                number: *number,
            });
        });
        turn
    }

    /// The clock was set back by so much, and everything that was to come comes as much earlier.
    fn set_back(&mut self, by: Micros) {
        let keys: Vec<String> = self.lines.keys().cloned().collect();
        for key in keys {
            self.change(&key, |line| {
                line.paused_until = line.paused_until.before(by);
                for (_, progress) in line.waiting.values_mut() {
                    progress.not_before = progress.not_before.before(by);
                }
            });
        }
    }

    /// An instant of an attempt that may have looked at the clock before it was set back.
    fn pause_end(&self, until: Time) -> Time {
        until.min(self.latest + BACKOFF_MAX)
    }

    /// There is no room before `until`.
    pub fn pause(&mut self, turn: &DeferredTurn, until: Time) {
        let until = self.pause_end(until);
        self.change(&turn.request.key, |line| {
            line.is_asking = false;
            line.paused_until = until;
        });
    }

    /// It is on its way; the next of its line may be asked for.
    pub fn start(&mut self, turn: &DeferredTurn) {
        self.change(&turn.request.key, |line| {
            line.is_asking = false;
            line.in_flight += 1;
            line.waiting.remove(&turn.number);
        });
    }

    /// It is done with before it was on its way.
    pub fn remove(&mut self, turn: &DeferredTurn) {
        self.known.remove(&turn.request.id);
        self.change(&turn.request.key, |line| {
            line.is_asking = false;
            line.waiting.remove(&turn.number);
        });
    }

    /// What was on its way is done with.
    pub fn end(&mut self, turn: &DeferredTurn) {
        self.known.remove(&turn.request.id);
        self.change(&turn.request.key, |line| line.in_flight = line.in_flight.saturating_sub(1));
    }

    /// An attempt failed: it goes back to its place, and its line waits.
    pub fn retry(&mut self, turn: DeferredTurn, progress: SendProgress) {
        let progress = SendProgress { not_before: self.pause_end(progress.not_before), ..progress };
        let DeferredTurn { request, number, .. } = turn;
        let key = request.key.clone();
        self.change(&key, |line| {
            line.in_flight = line.in_flight.saturating_sub(1);
            line.paused_until = line.paused_until.max(progress.not_before);
            line.waiting.insert(number, (request, progress));
        });
    }

    /// Another process sends what waits here; what is on its way goes on.
    pub fn forget_waiting(&mut self) {
        for line in self.lines.values_mut() {
            let asking = if line.is_asking { line.waiting.pop_first() } else { None };
            for (request, _) in std::mem::take(&mut line.waiting).into_values() {
                self.known.remove(&request.id);
            }
            line.waiting.extend(asking);
        }
        self.due.clear();
        self.index.clear();
        self.lines.retain(|_, line| line.is_asking || line.in_flight > 0);
    }

    /// When the next turn is.
    pub fn next_turn(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Changes a line, and finds out when it is due.
    fn change(&mut self, key: &str, change: impl FnOnce(&mut KeyLine)) {
        let line = self.lines.entry(key.to_owned()).or_default();
        if let Some(at) = line.due() {
            self.due.remove(&(at, key.to_owned()));
        }
        let was_empty = line.waiting.is_empty();
        change(line);
        if line.waiting.is_empty() != was_empty {
            self.index.set(key, was_empty);
        }
        match line.due() {
            Some(at) => drop(self.due.insert((at, key.to_owned()))),
            None if line.waiting.is_empty() && line.in_flight == 0 && !line.is_asking => {
                self.lines.remove(key);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
