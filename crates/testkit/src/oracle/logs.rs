//! The sliding log and the sliding buckets, by counting what is in view.
//!
//! A take is moved to the last microsecond of its tick, which is a microsecond
//! for the log and a sub-window for the buckets, and counts while that instant
//! is in `(now − window, now]`. A clock that steps back a little waits at the start of
//! the newest take's tick. Once the newest takes alone reach the hard limit,
//! everything older is forgotten.

use super::{COST_MAX, Model, Numbers, STEP_BACK_MAX};

#[derive(Debug, Clone)]
pub(super) struct Trailing {
    numbers: Numbers,
    tick: u64,
    /// The first instant of a tick and what was taken in it, oldest first.
    takes: Vec<(u64, u64)>,
}

impl Trailing {
    /// The log: a tick is a microsecond.
    pub(super) const fn log(numbers: Numbers) -> Self {
        Self { numbers, tick: 1, takes: Vec::new() }
    }

    /// The buckets: a tick is the window over their number, rounded up.
    pub(super) fn buckets(numbers: Numbers, buckets: u64) -> Self {
        let tick = numbers.window / buckets + u64::from(!numbers.window.is_multiple_of(buckets));
        Self { numbers, tick, takes: Vec::new() }
    }

    fn clock(&self, at: u64) -> u64 {
        at.max(self.takes.last().map_or(0, |(start, _)| *start))
    }

    fn in_view(&self, at: u64) -> impl Fn(&(u64, u64)) -> bool + use<> {
        let (now, window, tick) = (self.clock(at), self.numbers.window, self.tick);
        move |(start, _)| start + (tick - 1) + window > now
    }
}

impl Model for Trailing {
    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn set_numbers(&mut self, numbers: Numbers) {
        self.numbers = numbers;
    }

    fn rewind(&mut self, at: u64) {
        if self.takes.last().is_some_and(|(newest, _)| *newest > at + STEP_BACK_MAX) {
            let start = at / self.tick * self.tick;
            let ahead: u64 = self.takes.iter().filter(|take| take.0 >= start).map(|(_, cost)| cost).sum();
            self.takes.retain(|take| take.0 < start);
            self.takes.push((start, ahead.min(COST_MAX)));
        }
    }

    fn fits(&self, at: u64, cost: u64) -> bool {
        self.used(at) + cost <= self.numbers.hard
    }

    fn is_new(&self, at: u64) -> bool {
        self.used(at) == 0
    }

    fn used(&self, at: u64) -> u64 {
        let in_view = self.in_view(at);
        self.takes.iter().filter(|take| in_view(take)).map(|(_, cost)| cost).sum()
    }

    fn has_room(&self, at: u64, n: u64) -> bool {
        self.used(at) + n <= self.numbers.base
    }

    fn take(&mut self, at: u64, cost: u64) {
        let in_view = self.in_view(at);
        let start = self.clock(at) / self.tick * self.tick;
        self.takes.retain(in_view);
        match self.takes.last_mut() {
            Some((newest, taken)) if *newest == start => *taken = (*taken + cost).min(COST_MAX),
            _ => self.takes.push((start, cost)),
        }
        let mut newer: u64 = self.takes.iter().skip(1).map(|(_, cost)| cost).sum();
        while self.takes.len() > 1 && newer >= self.numbers.hard {
            self.takes.remove(0);
            newer -= self.takes.first().map_or(0, |(_, cost)| *cost);
        }
    }

    fn give_back(&mut self, at: u64, mut cost: u64) {
        let in_view = self.in_view(at);
        self.takes.retain(in_view);
        while let Some((start, newest)) = self.takes.pop() {
            if newest > cost {
                self.takes.push((start, newest - cost));
                return;
            }
            cost -= newest;
        }
    }
}
