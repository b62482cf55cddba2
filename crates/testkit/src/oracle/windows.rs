//! The fixed window and the sliding counter, by adding up every take.
//!
//! Both look at windows aligned to the epoch. A clock that steps back a little
//! stays in the newest window in which something was recorded.

use super::{COST_MAX, LAST, Model, Numbers, STEP_BACK_MAX};

/// What was taken when, oldest first; a refund takes off the newest.
#[derive(Debug, Clone, Default)]
struct Takes(Vec<(u64, u64)>);

impl Takes {
    fn sum(&self, window: u64, index: Option<u64>) -> u64 {
        let here = self.0.iter().filter(|(at, _)| Some(at / window) == index);
        here.map(|(_, cost)| cost).sum()
    }

    fn give_back(&mut self, mut cost: u64) {
        while let Some((at, newest)) = self.0.pop() {
            if newest > cost {
                self.0.push((at, newest - cost));
                return;
            }
            cost -= newest;
        }
    }
}

/// At most L per window.
#[derive(Debug, Clone)]
pub(super) struct Fixed {
    numbers: Numbers,
    takes: Takes,
}

impl Fixed {
    pub(super) fn new(numbers: Numbers) -> Self {
        Self { numbers, takes: Takes::default() }
    }

    /// The window in which a request at `at` is counted.
    fn index(&self, at: u64) -> u64 {
        let newest = self.takes.0.last().map_or(0, |(at, _)| *at);
        at.max(newest) / self.numbers.window
    }

    /// Forgets the windows before the one of `at`.
    fn settle(&mut self, at: u64) -> u64 {
        let (index, window) = (self.index(at), self.numbers.window);
        self.takes.0.retain(|(at, _)| at / window == index);
        index
    }
}

impl Model for Fixed {
    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn set_numbers(&mut self, numbers: Numbers) {
        self.numbers = numbers;
    }

    fn rewind(&mut self, at: u64) {
        let window = self.numbers.window;
        let newest = self.takes.0.last().map_or(0, |(at, _)| *at);
        if newest > at + STEP_BACK_MAX {
            self.takes.0.retain(|(at, _)| *at == newest);
            self.takes.0.iter_mut().for_each(|take| take.0 = at / window * window);
        }
    }

    fn fits(&self, at: u64, cost: u64) -> bool {
        self.used(at) + cost <= self.numbers.hard
    }

    fn is_new(&self, at: u64) -> bool {
        self.used(at) == 0
    }

    fn used(&self, at: u64) -> u64 {
        self.takes.sum(self.numbers.window, Some(self.index(at)))
    }

    fn has_room(&self, at: u64, n: u64) -> bool {
        self.used(at) + n <= self.numbers.base
    }

    fn take(&mut self, at: u64, cost: u64) {
        let index = self.settle(at);
        let cost = cost.min(LAST - self.used(at));
        self.takes.0.push((index * self.numbers.window, cost));
    }

    fn give_back(&mut self, at: u64, cost: u64) {
        self.settle(at);
        self.takes.give_back(cost);
    }

    /// The end of the window, used or not.
    fn reset_at(&self, at: u64) -> u64 {
        (self.index(at) + 1) * self.numbers.window
    }
}

/// `⌊current + previous × overlap⌋`.
#[derive(Debug, Clone)]
pub(super) struct Counter {
    numbers: Numbers,
    takes: Takes,
    /// The start of the newest window that something was recorded in.
    opened: u64,
}

impl Counter {
    pub(super) fn new(numbers: Numbers) -> Self {
        Self { numbers, takes: Takes::default(), opened: 0 }
    }

    fn settle(&mut self, at: u64) {
        let window = self.numbers.window;
        let index = at.max(self.opened) / window;
        self.takes.0.retain(|(at, _)| at / window + 1 >= index);
        self.opened = index * window;
    }
}

impl Model for Counter {
    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn set_numbers(&mut self, numbers: Numbers) {
        self.numbers = numbers;
    }

    fn rewind(&mut self, at: u64) {
        if self.opened > at + STEP_BACK_MAX {
            let (window, index) = (self.numbers.window, self.opened / self.numbers.window);
            let current = self.takes.sum(window, Some(index));
            let both = current + self.takes.sum(window, index.checked_sub(1));
            self.opened = at / window * window;
            self.takes = Takes(vec![(self.opened, both.min(self.numbers.hard).max(current))]);
        }
    }

    fn fits(&self, at: u64, cost: u64) -> bool {
        self.used(at) + cost <= self.numbers.hard
    }

    fn is_new(&self, at: u64) -> bool {
        self.used(at) == 0 && self.used(at + 2 * self.numbers.window) == 0 && {
            // Nothing may come back into weight when the window changes.
            let next = (at / self.numbers.window + 1) * self.numbers.window;
            self.used(next) == 0
        }
    }

    fn used(&self, at: u64) -> u64 {
        let window = self.numbers.window;
        let at = at.max(self.opened);
        let index = at / window;
        let current = u128::from(self.takes.sum(window, Some(index)));
        let previous = u128::from(self.takes.sum(window, index.checked_sub(1)));
        let in_view = u128::from((index + 1) * window - at);
        let window = u128::from(window);
        u64::try_from((current * window + previous * in_view) / window).unwrap_or(u64::MAX)
    }

    fn has_room(&self, at: u64, n: u64) -> bool {
        self.used(at) + n <= self.numbers.base
    }

    fn take(&mut self, at: u64, cost: u64) {
        self.settle(at);
        let current = self.takes.sum(self.numbers.window, Some(self.opened / self.numbers.window));
        self.takes.0.push((self.opened, cost.min(COST_MAX - current)));
    }

    fn give_back(&mut self, at: u64, cost: u64) {
        self.settle(at);
        self.takes.give_back(cost);
        if self.takes.0.is_empty() {
            self.opened = 0;
        }
    }
}
