//! Reference models: what each algorithm is, by brute force.
//!
//! An [`Oracle`] is an [`Engine`] that suites run beside the one under test.
//! A model keeps every take in a `Vec`, adds them up anew for each question in
//! exact fractions, and finds `retry_after`, `reset_after` and `remaining` by
//! searching for the first instant or the last number that passes.
//!
//! Invariant: written from the pages in `spec/algorithms/`, and sharing no line
//! with `tollgate-core` but its vocabulary.
//!
//! Deliberately not here: speed, packing, and anything worked out in advance.

mod allowance;
mod buckets;
mod logs;
mod windows;

use tollgate_core::{Decision, Limit, Micros, Operation, Refill, Shape, Time, Verdict};

use crate::engine::Engine;

/// The clock is read up to here.
const NOW_MAX: u64 = 1 << 52;
/// No cost counts for more.
const COST_MAX: u64 = (1 << 36) - 1;
/// A clock that steps back by no more is waited for.
const STEP_BACK_MAX: u64 = 1_000_000;
/// The last instant, and the most that a counter holds.
const LAST: u64 = (1 << 53) - 1;

/// The numbers of a limit, worked out from the definitions.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    /// Per window, 1 where it is 0: a limit of 0 lets nothing through, and what
    /// is reported against it has to fade all the same.
    count: u64,
    window: u64,
    base: u64,
    hard: u64,
    percent: u64,
}

impl Numbers {
    fn of(limit: &Limit) -> Self {
        let count = u64::from(limit.count());
        let base = match limit.shape() {
            Shape::TokenBucket { burst, .. } => u64::from(burst),
            Shape::LeakyBucket { burst, .. } => (u64::from(burst) + 1) * count.min(1),
            Shape::FixedWindow | Shape::SlidingLog | Shape::SlidingCounter | Shape::SlidingBuckets { .. } => {
                count
            }
        };
        let percent = u64::from(limit.exceed_percent());
        let hard = base + base * percent / 100;
        Self { count: count.max(1), window: limit.window().get(), base, hard, percent }
    }
}

/// What a key has used, and how that fades.
///
/// Invariant: as time goes by and nothing happens, `fits` and `is_new` only
/// ever turn from false to true.
trait Model {
    fn boxed_clone(&self) -> Box<dyn Model>;
    /// An allowance is granted or withdrawn: the same usage by these numbers.
    fn set_numbers(&mut self, numbers: Numbers);
    /// What was recorded while the clock was ahead, by more than
    /// [`STEP_BACK_MAX`], counts as taken at that instant.
    fn rewind(&mut self, at: u64);
    /// Whether `cost` would be let through at that instant.
    fn fits(&self, at: u64, cost: u64) -> bool;
    /// Whether the key is as good as one never seen.
    fn is_new(&self, at: u64) -> bool;
    /// What is used, a started unit counting as a whole one.
    fn used(&self, at: u64) -> u64;
    /// Whether `n` further requests of cost 1 would pass below the base limit.
    fn has_room(&self, at: u64, n: u64) -> bool;
    /// How long a request that passes is held.
    fn wait(&self, _at: u64) -> u64 {
        0
    }
    fn take(&mut self, at: u64, cost: u64);
    /// What a denied request does where rejected requests count.
    fn count_rejected(&mut self, at: u64, cost: u64) {
        self.take(at, cost);
    }
    fn give_back(&mut self, at: u64, cost: u64);
    /// When the reply says that the key starts afresh.
    fn reset_at(&self, at: u64) -> u64 {
        earliest(at, |at| self.is_new(at))
    }
}

/// The first instant from `from` on at which `holds`; it goes on to hold.
fn earliest(from: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if holds(from) {
        return from;
    }
    let mut step = 1;
    while !holds(from + step) {
        step *= 2;
        if step > 1 << 60 {
            return u64::MAX;
        }
    }
    // It does not hold at `before`, and does at `at`.
    let (mut before, mut at) = (from + step / 2, from + step);
    if step == 1 {
        before = from;
    }
    while at - before > 1 {
        let middle = before + (at - before) / 2;
        if holds(middle) {
            at = middle;
        } else {
            before = middle;
        }
    }
    at
}

/// The largest number up to `most` that `holds`, which 0 does.
fn largest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if holds(most) {
        return most;
    }
    let (mut good, mut bad) = (0, most);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

/// The reference for one limit.
pub struct Oracle {
    limit: Limit,
    numbers: Numbers,
    model: Box<dyn Model>,
}

impl Clone for Oracle {
    fn clone(&self) -> Self {
        Self { limit: self.limit, numbers: self.numbers, model: self.model.boxed_clone() }
    }
}

impl Oracle {
    /// The reference for `limit`, over a key never seen.
    pub fn new(limit: Limit) -> Self {
        let numbers = Numbers::of(&limit);
        Self { limit, numbers, model: model(&limit, numbers) }
    }

    /// From now on this limit is in force, over the same usage: the one that the
    /// oracle was made for, which has an allowance, or the same without it.
    pub fn put_in_force(&mut self, limit: Limit) {
        self.limit = limit;
        self.numbers = Numbers::of(&limit);
        self.model.set_numbers(self.numbers);
    }
}

fn model(limit: &Limit, numbers: Numbers) -> Box<dyn Model> {
    let is_soft = limit.exceed_percent() > 0;
    match limit.shape() {
        Shape::TokenBucket { refill: Refill::Smooth, .. } if is_soft => {
            Box::new(allowance::Stretching::tokens(numbers))
        }
        Shape::LeakyBucket { max_wait, .. } if is_soft => {
            Box::new(allowance::Stretching::queue(numbers, max_wait.map(Micros::get)))
        }
        Shape::FixedWindow => Box::new(windows::Fixed::new(numbers)),
        Shape::SlidingCounter => Box::new(windows::Counter::new(numbers)),
        Shape::SlidingLog => Box::new(logs::Trailing::log(numbers)),
        Shape::SlidingBuckets { buckets } => Box::new(logs::Trailing::buckets(numbers, u64::from(buckets))),
        Shape::TokenBucket { refill: Refill::Smooth, .. } => Box::new(buckets::Flowing::tokens(numbers)),
        Shape::TokenBucket { refill: Refill::Interval, .. } => Box::new(buckets::Refilled::new(numbers)),
        Shape::LeakyBucket { max_wait, .. } => {
            Box::new(buckets::Flowing::queue(numbers, max_wait.map(Micros::get)))
        }
    }
}

impl Engine for Oracle {
    fn decide(&mut self, now: Time, operation: Operation, cost: u64) -> Decision {
        let (at, cost) = (now.get().min(NOW_MAX), cost.min(COST_MAX));
        self.model.rewind(at);
        let fits = self.model.fits(at, cost);
        let wait = self.model.wait(at);
        let asks = matches!(operation, Operation::Check | Operation::Peek);
        let denied = asks && !fits;
        let counts = self.limit.counts_rejected() && operation == Operation::Check;

        let mut after = self.model.boxed_clone();
        match operation {
            _ if cost == 0 => {}
            Operation::Refund => after.give_back(at, cost),
            _ if denied && counts => after.count_rejected(at, cost),
            _ if denied => {}
            Operation::Check | Operation::Peek | Operation::Report => after.take(at, cost),
        }
        let verdict = if denied {
            let possible = cost <= self.numbers.hard;
            let retry_at = || earliest(at, |at| after.fits(at, cost));
            Verdict::Deny { retry_after: possible.then(|| Micros::new(retry_at() - at)) }
        } else if asks && cost > 0 && wait > 0 {
            Verdict::Delay { wait: Micros::new(wait) }
        } else {
            Verdict::Allow
        };
        let used = after.used(at);
        let takes = !denied && cost > 0 && operation != Operation::Refund;
        let decision = Decision {
            verdict,
            limit: self.numbers.base,
            used,
            remaining: largest(self.numbers.base, |n| n == 0 || after.has_room(at, n)),
            reset_after: Micros::new(after.reset_at(at) - at),
            soft: takes && self.limit.exceed_percent() > 0 && used > self.numbers.base,
            blocked_for: verdict.blocked_for(),
        };
        if operation != Operation::Peek {
            self.model = after;
        }
        decision
    }

    fn reset(&mut self) {
        self.model = model(&self.limit, self.numbers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_searches_find_every_edge() {
        for edge in 0..70 {
            assert_eq!(earliest(0, |at| at >= edge), edge);
            assert_eq!(earliest(7, |at| at >= edge), edge.max(7));
            assert_eq!(largest(70, |n| n <= edge), edge);
        }
    }
}
