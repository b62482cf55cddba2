//! The token bucket and the leaky bucket, by every take and every refill.
//!
//! A bucket that flows is asked for what is missing: over all takes `j`, the
//! most of `Σ cost of j and later − rate × (now − time of j)`, at least zero.
//! A bucket that is refilled is walked from refill to refill.

use super::{LAST, Model, Numbers, STEP_BACK_MAX, largest};

/// A state says how long it was to live in units of so many microseconds.
const LIFE_UNIT: u64 = 262_144;

/// A smooth token bucket, or a queue: what is missing there waits here.
#[derive(Debug, Clone)]
pub(super) struct Flowing {
    numbers: Numbers,
    is_queue: bool,
    max_wait: Option<u64>,
    /// When what was taken, in units of which a token has `window`, and of
    /// which `count` flow in a microsecond; a refund is negative.
    takes: Vec<(u64, i128)>,
    /// When nothing would be missing after the last take, and the life that
    /// its state had until then, in whole units.
    end: u64,
    life: u64,
}

impl Flowing {
    pub(super) fn tokens(numbers: Numbers) -> Self {
        Self { numbers, is_queue: false, max_wait: None, takes: Vec::new(), end: 0, life: 0 }
    }

    pub(super) fn queue(numbers: Numbers, max_wait: Option<u64>) -> Self {
        Self { is_queue: true, max_wait, ..Self::tokens(numbers) }
    }

    /// The whole microseconds in which so many units flow.
    fn micros(&self, units: i128) -> u64 {
        let whole = units / self.rate() + i128::from(units % self.rate() > 0);
        u64::try_from(whole).unwrap_or(LAST)
    }

    fn units(&self, tokens: u64) -> i128 {
        i128::from(tokens) * i128::from(self.numbers.window)
    }

    fn rate(&self) -> i128 {
        i128::from(self.numbers.count)
    }

    fn missing(&self, at: u64) -> i128 {
        let (mut sum, mut most) = (0, 0);
        for (taken_at, units) in self.takes.iter().rev() {
            sum += units;
            most = most.max(sum - self.rate() * (i128::from(at) - i128::from(*taken_at)));
        }
        most
    }

    /// Whether a request of cost 1 or more that finds this missing leaves in time.
    fn in_time(&self, missing: i128) -> bool {
        self.max_wait.is_none_or(|most| missing <= i128::from(most) * self.rate())
    }

    fn add(&mut self, at: u64, units: i128) {
        let missing = self.missing(at);
        if missing == 0 {
            self.takes.clear();
        }
        // A debt ends with time itself.
        let most = (i128::from(LAST) - i128::from(at)) * self.rate();
        self.takes.push((at, units.min(most - missing)));
        let wait = self.micros(self.missing(at));
        if wait == 0 {
            self.takes.clear();
        }
        self.end = (at + wait).min(LAST);
        self.life = (self.end - at).div_ceil(LIFE_UNIT) * LIFE_UNIT;
    }
}

impl Model for Flowing {
    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn set_numbers(&mut self, numbers: Numbers) {
        self.numbers = numbers;
    }

    fn rewind(&mut self, at: u64) {
        if self.takes.is_empty() || self.end <= at + self.life + STEP_BACK_MAX {
            return;
        }
        let hard = self.micros(self.units(self.numbers.hard));
        let wait = if self.life < hard + LIFE_UNIT { self.life.min(hard) } else { self.life };
        self.end = (at + wait).min(LAST);
        self.takes = vec![(at, i128::from(self.end - at) * self.rate())];
    }

    fn fits(&self, at: u64, cost: u64) -> bool {
        let missing = self.missing(at);
        missing + self.units(cost) <= self.units(self.numbers.hard) && (cost == 0 || self.in_time(missing))
    }

    fn is_new(&self, at: u64) -> bool {
        self.missing(at) == 0
    }

    fn used(&self, at: u64) -> u64 {
        let (missing, token) = (self.missing(at), self.units(1));
        u64::try_from(missing / token + i128::from(missing % token > 0)).unwrap_or(u64::MAX)
    }

    fn has_room(&self, at: u64, n: u64) -> bool {
        let before_last = self.missing(at) + self.units(n - 1);
        before_last + self.units(1) <= self.units(self.numbers.base) && self.in_time(before_last)
    }

    fn wait(&self, at: u64) -> u64 {
        if !self.is_queue {
            return 0;
        }
        super::earliest(at, |at| self.missing(at) == 0) - at
    }

    fn take(&mut self, at: u64, cost: u64) {
        self.add(at, self.units(cost));
    }

    /// Takes what is left, and leaves no debt.
    fn count_rejected(&mut self, at: u64, _cost: u64) {
        let left = self.units(self.numbers.hard) - self.missing(at);
        self.add(at, left.max(0));
    }

    fn give_back(&mut self, at: u64, cost: u64) {
        let units = self.units(cost).min(self.missing(at));
        self.add(at, -units);
    }
}

/// A token bucket that gets all tokens of a period at once, one period after
/// the take that found it full and then every period.
#[derive(Debug, Clone)]
pub(super) struct Refilled {
    numbers: Numbers,
    /// When what was taken, the first by a take that found the bucket full; a
    /// refund is negative. Times never run back.
    takes: Vec<(u64, i128)>,
}

impl Refilled {
    pub(super) fn new(numbers: Numbers) -> Self {
        Self { numbers, takes: Vec::new() }
    }

    /// A clock that steps back waits at what was last recorded.
    fn clock(&self, at: u64) -> u64 {
        at.max(self.takes.last().map_or(0, |(at, _)| *at))
    }

    /// How many refills have come up to `at`, full or not.
    fn refills(&self, at: u64) -> u64 {
        let anchor = self.takes.first().map_or(at, |(at, _)| *at);
        (at - anchor) / self.numbers.window
    }

    fn missing(&self, at: u64) -> i128 {
        let (mut missing, mut refills) = (0, 0);
        let refill =
            |missing: i128, n: u64| (missing - i128::from(n) * i128::from(self.numbers.count)).max(0);
        for (at, cost) in &self.takes {
            missing = refill(missing, self.refills(*at) - refills) + cost;
            refills = self.refills(*at);
        }
        refill(missing, self.refills(self.clock(at)) - refills)
    }

    fn add(&mut self, at: u64, cost: i128) {
        let (at, missing) = (self.clock(at), self.missing(at));
        if missing == 0 {
            self.takes.clear();
        }
        // A debt ends with time itself: the most that is back by then.
        let anchor = self.takes.first().map_or(at, |(at, _)| *at);
        let back = largest(LAST, |n| {
            let refills = i128::from(self.refills(at)) + i128::from(n);
            i128::from(anchor) + refills * i128::from(self.numbers.window) <= i128::from(LAST)
        });
        let most = (i128::from(back) * i128::from(self.numbers.count)).min(i128::from(LAST));
        self.takes.push((at, cost.min(most - missing)));
        if self.missing(at) == 0 {
            self.takes.clear();
        }
    }
}

impl Model for Refilled {
    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn set_numbers(&mut self, numbers: Numbers) {
        self.numbers = numbers;
    }

    fn rewind(&mut self, at: u64) {
        let Some((last, _)) = self.takes.last() else { return };
        let (anchor, missing) = (self.takes.first().map_or(0, |(at, _)| *at), self.missing(*last));
        let to_come = u64::try_from(missing).unwrap_or(LAST).div_ceil(self.numbers.count);
        let full_at =
            u128::from(anchor) + u128::from(self.refills(*last) + to_come) * u128::from(self.numbers.window);
        let life = u128::from(to_come) * u128::from(self.numbers.window);
        if full_at > u128::from(at) + life + u128::from(STEP_BACK_MAX) {
            self.takes = vec![(at, missing)];
        }
    }

    fn fits(&self, at: u64, cost: u64) -> bool {
        self.missing(at) + i128::from(cost) <= i128::from(self.numbers.hard)
    }

    fn is_new(&self, at: u64) -> bool {
        self.missing(at) == 0
    }

    fn used(&self, at: u64) -> u64 {
        u64::try_from(self.missing(at)).unwrap_or(u64::MAX)
    }

    fn has_room(&self, at: u64, n: u64) -> bool {
        self.missing(at) + i128::from(n) <= i128::from(self.numbers.base)
    }

    fn take(&mut self, at: u64, cost: u64) {
        self.add(at, i128::from(cost));
    }

    fn count_rejected(&mut self, at: u64, _cost: u64) {
        let left = i128::from(self.numbers.hard) - self.missing(at);
        self.add(at, left.max(0));
    }

    fn give_back(&mut self, at: u64, cost: u64) {
        let cost = i128::from(cost).min(self.missing(at));
        self.add(at, -cost);
    }
}
