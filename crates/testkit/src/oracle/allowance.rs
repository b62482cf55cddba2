//! A bucket that flows under a soft limit: beyond the base a token takes less time.
//!
//! The instant at which nothing is missing, in parts of a microsecond, and every
//! step of `spec/algorithms/token_bucket.md` on whole numbers of parts.

use super::{LAST, Model, Numbers, STEP_BACK_MAX};

/// A state says how long it was to live in units of so many microseconds.
const LIFE_UNIT: i128 = 262_144;

/// A smooth token bucket, or a queue, with an allowance.
#[derive(Debug, Clone)]
pub(super) struct Stretching {
    numbers: Numbers,
    is_queue: bool,
    max_wait: Option<u64>,
    /// How many parts a microsecond has, and how many a token takes.
    parts: i128,
    per_token: i128,
    /// When nothing is missing any more, in parts, and the life that its state
    /// had until then, in microseconds.
    end: i128,
    life: i128,
}

impl Stretching {
    pub(super) fn tokens(numbers: Numbers) -> Self {
        let (count, window) = (i128::from(numbers.count), i128::from(numbers.window));
        let divisor = common_divisor(count, window);
        let (parts, per_token) = (count / divisor, window / divisor);
        let more = 100 + i128::from(numbers.percent);
        let factor = (1..=more).find(|n| per_token * n * 100 % more == 0).unwrap_or(more);
        let fits = |factor: i128| parts * factor < 1 << 32 && per_token * factor < 1 << 60;
        let mut factor = if fits(factor) { factor } else { 1 };
        let more = more / common_divisor(more, 100);
        while parts * factor * more < 1 << 20 && fits(factor * more) {
            factor *= more;
        }
        let (parts, per_token) = (parts * factor, per_token * factor);
        Self { numbers, is_queue: false, max_wait: None, parts, per_token, end: 0, life: 0 }
    }

    pub(super) fn queue(numbers: Numbers, max_wait: Option<u64>) -> Self {
        Self { is_queue: true, max_wait, ..Self::tokens(numbers) }
    }

    /// The parts of an instant, or of a span in microseconds.
    fn parts_of(&self, micros: u64) -> i128 {
        i128::from(micros) * self.parts
    }

    fn micros(&self, span: i128) -> i128 {
        ceiling(span, self.parts)
    }

    fn missing(&self, at: u64) -> i128 {
        (self.end - self.parts_of(at)).max(0)
    }

    /// The parts that so many tokens take at the rate of the limit.
    fn price(&self, tokens: u64) -> i128 {
        (i128::from(tokens) * self.per_token).min(self.parts_of(LAST))
    }

    fn base(&self) -> i128 {
        self.price(self.numbers.base)
    }

    /// What that price is beyond the base.
    fn reduced(&self, price: i128) -> i128 {
        ceiling(price * 100, 100 + i128::from(self.numbers.percent))
    }

    /// The price that is reduced to so much.
    fn full_price(&self, reduced: i128) -> i128 {
        reduced * (100 + i128::from(self.numbers.percent)) / 100
    }

    /// How long an empty bucket takes to fill.
    fn most(&self) -> i128 {
        self.base() + self.reduced(self.price(self.numbers.hard) - self.base())
    }

    fn with(&self, missing: i128, cost: u64) -> i128 {
        let price = self.price(cost);
        if missing > self.base() {
            return missing + self.reduced(price);
        }
        let sum = (missing + price).min(self.parts_of(LAST));
        sum.min(self.base()) + self.reduced((sum - self.base()).max(0))
    }

    fn in_time(&self, missing: i128) -> bool {
        self.max_wait.is_none_or(|most| missing <= self.parts_of(most))
    }

    fn put(&mut self, at: u64, missing: i128) {
        // A debt ends with time itself.
        let missing = missing.clamp(0, self.parts_of(LAST - at));
        self.end = if missing == 0 { 0 } else { self.parts_of(at) + missing };
        self.life = ceiling(self.micros(missing), LIFE_UNIT) * LIFE_UNIT;
    }
}

fn common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

fn ceiling(a: i128, b: i128) -> i128 {
    a / b + i128::from(a % b > 0)
}

impl Model for Stretching {
    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }

    fn set_numbers(&mut self, numbers: Numbers) {
        self.numbers = numbers;
    }

    fn rewind(&mut self, at: u64) {
        let ahead = self.micros(self.end) - i128::from(at);
        if ahead <= self.life + i128::from(STEP_BACK_MAX) {
            return;
        }
        let most = self.micros(self.most());
        let wait = if self.life < most + LIFE_UNIT { self.life.min(most) } else { self.life };
        self.end = self.parts_of(at) + (wait * self.parts).min(self.parts_of(LAST - at));
    }

    fn fits(&self, at: u64, cost: u64) -> bool {
        let missing = self.missing(at);
        let is_room = self.with(missing, cost) <= self.most()
            && (missing > self.base() || missing + self.price(cost) <= self.price(self.numbers.hard));
        is_room && cost <= self.numbers.hard && (cost == 0 || self.in_time(missing))
    }

    fn is_new(&self, at: u64) -> bool {
        self.missing(at) == 0
    }

    fn used(&self, at: u64) -> u64 {
        let (missing, base) = (self.missing(at), self.base());
        let price = missing.min(base) + self.full_price((missing - base).max(0));
        let hard = self.price(self.numbers.hard);
        let price = if missing <= self.most() { price.min(hard) } else { price.min(self.parts_of(LAST)) };
        u64::try_from(ceiling(price, self.per_token)).unwrap_or(u64::MAX)
    }

    fn has_room(&self, at: u64, n: u64) -> bool {
        let before_last = self.missing(at) + self.price(n - 1);
        before_last + self.price(1) <= self.base() && self.in_time(before_last)
    }

    fn wait(&self, at: u64) -> u64 {
        if self.is_queue { u64::try_from(self.micros(self.missing(at))).unwrap_or(LAST) } else { 0 }
    }

    fn take(&mut self, at: u64, cost: u64) {
        self.put(at, self.with(self.missing(at), cost));
    }

    /// Takes what is left, and leaves no debt.
    fn count_rejected(&mut self, at: u64, _cost: u64) {
        self.put(at, self.missing(at).max(self.most()));
    }

    fn give_back(&mut self, at: u64, cost: u64) {
        let (missing, base) = (self.missing(at), self.base());
        let beyond = (missing - base).max(0);
        let price = self.price(cost);
        let given = price * 100 / (100 + i128::from(self.numbers.percent));
        let left = match beyond >= given && beyond > 0 {
            true => missing - given,
            false => missing.min(base) - (price - self.full_price(beyond)),
        };
        self.put(at, left);
    }
}
