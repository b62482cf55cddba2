//! Time at which tokens flow, exact to the fraction of a microsecond.
//!
//! Used by the token bucket and the leaky bucket. Their state is one instant
//! (when the bucket is full again, when the queue is empty), so a cost is a
//! [`Span`] of time. One token takes `window / count` microseconds, which is
//! seldom whole: 1,000,003 a day is one per 86,399.74… µs. A span therefore is
//! a whole number of microseconds and a fraction over `parts`, with
//! `count / window` reduced: nothing is ever rounded, and deciding needs only
//! sums and comparisons of numbers below 2^53.
//!
//! Deliberately not here: what the instant means.

use crate::state::Cell;
use crate::time::{Micros, NOW_MAX, Time};

/// A cell tells its life in units of 262 ms, of which all of time has less than
/// 2^36.
const LIFE_UNIT: u64 = 1 << 18;

/// The longest life that [`near_words`] can tell: two years and some weeks.
pub(crate) const NEAR_MAX: Micros = Micros::new((Cell::NEAR_MAX - 1) * LIFE_UNIT);

/// Parts of a microsecond that are fine enough for any rounding.
const FINE_PARTS: u32 = 1 << 20;

/// A span of `whole + part / parts` microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    whole: u64,
    part: u32,
}

impl Span {
    pub(crate) const ZERO: Self = Self { whole: 0, part: 0 };
    const MAX: Self = Self { whole: Micros::MAX.get(), part: 0 };

    pub(crate) const fn of(whole: Micros) -> Self {
        Self { whole: whole.get(), part: 0 }
    }

    /// Whole microseconds and parts of one.
    pub(crate) fn pair(self) -> (u64, u64) {
        (self.whole, u64::from(self.part))
    }

    /// Whole microseconds, rounded up: after them the span is over.
    pub(crate) fn ceil(self) -> Micros {
        Micros::new(self.whole + u64::from(self.part > 0))
    }
}

/// The rate `parts / per_token` in tokens a microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    parts: u32,
    per_token: u64,
}

impl Pace {
    /// `count` tokens per `window`; neither is zero.
    pub(crate) fn new(count: u32, window: Micros) -> Self {
        let divisor = gcd(u64::from(count), window.get());
        let parts = u32::try_from(u64::from(count) / divisor).unwrap_or(count);
        Self { parts, per_token: window.get() / divisor }
    }

    /// The same rate in finer parts, of which `times / over` of a token's time has
    /// a whole number, unless there would be more of them than 32 bits tell; and
    /// then of `over` times as many as long as that is below [`FINE_PARTS`], so
    /// that most fractions of such fractions are whole, too.
    pub(crate) fn finer(self, times: u64, over: u64) -> Self {
        let over = over / gcd(times, over);
        let by = |pace: Self, factor: u64| {
            let parts = u64::from(pace.parts).checked_mul(factor)?;
            let per_token = pace.per_token.checked_mul(factor).filter(|n| *n < 1 << 60)?;
            Some(Self { parts: u32::try_from(parts).ok()?, per_token })
        };
        let whole = by(self, over / gcd(over, self.per_token)).unwrap_or(self);
        let finer = |pace: &Self| by(*pace, over).filter(|finer| finer.parts < FINE_PARTS);
        std::iter::successors(Some(whole), finer).last().unwrap_or(whole)
    }

    /// Whether a fraction of a token's time that is rounded to a part is exact to
    /// a fiftieth, even if it is a small fraction.
    pub(crate) const fn is_fine(self) -> bool {
        self.per_token >= 512
    }

    /// `span × times / over`, rounded up to a part; `times` is at most `over`,
    /// and neither is above 2^11.
    pub(crate) fn times_ceil(self, span: Span, times: u64, over: u64) -> Span {
        self.fraction(span, times, over, over - 1)
    }

    /// `span × times / over`, rounded down to a part; at most [`Span::MAX`].
    pub(crate) fn times_floor(self, span: Span, times: u64, over: u64) -> Span {
        self.fraction(span, times, over, 0)
    }

    /// Whole microseconds by whole `over`s first, so that in Lua every product
    /// stays below 2^53.
    fn fraction(self, span: Span, times: u64, over: u64, rounding: u64) -> Span {
        let parts = u64::from(self.parts);
        let (overs, rest) = (span.whole / over, span.whole % over * times);
        let part = (rest % over * parts + u64::from(span.part) * times + rounding) / over;
        let whole = overs.saturating_mul(times).saturating_add(rest / over + part / parts);
        Span { whole, part: u32::try_from(part % parts).unwrap_or(0) }.min(Span::MAX)
    }

    /// How many parts a microsecond has.
    pub(crate) fn parts(self) -> u64 {
        u64::from(self.parts)
    }

    /// How many parts a token takes.
    pub(crate) const fn token_parts(self) -> u64 {
        self.per_token
    }

    /// The time that `tokens` take, exactly; at most [`Span::MAX`].
    pub(crate) fn span(self, tokens: u64) -> Span {
        let (whole, part) = match tokens.checked_mul(self.per_token) {
            Some(units) => {
                let parts = u64::from(self.parts);
                (Ok(units / parts), u32::try_from(units % parts))
            }
            None => {
                let (units, parts) =
                    (u128::from(tokens) * u128::from(self.per_token), u128::from(self.parts));
                (u64::try_from(units / parts), u32::try_from(units % parts))
            }
        };
        match (whole, part) {
            (Ok(whole), Ok(part)) if whole < Span::MAX.whole => Span { whole, part },
            _ => Span::MAX,
        }
    }

    /// How many whole tokens flow in `span`.
    pub(crate) fn tokens(self, span: Span) -> u64 {
        self.divided(span, 0)
    }

    /// How many tokens `span` touches, the last one perhaps only in part.
    pub(crate) fn tokens_ceil(self, span: Span) -> u64 {
        self.divided(span, self.per_token - 1)
    }

    /// `⌊(span + extra) / per_token⌋`, in 64 bits where that is enough: a
    /// division in 128 bits costs more than all the rest of a decision.
    fn divided(self, span: Span, extra: u64) -> u64 {
        let parts = u64::from(self.parts);
        let narrow = span.whole.checked_mul(parts).and_then(|n| n.checked_add(u64::from(span.part) + extra));
        match narrow {
            Some(units) => units / self.per_token,
            None => {
                let units =
                    u128::from(span.whole) * u128::from(parts) + u128::from(span.part) + u128::from(extra);
                u64::try_from(units / u128::from(self.per_token)).unwrap_or(u64::MAX)
            }
        }
    }

    pub(crate) fn add(self, a: Span, b: Span) -> Span {
        let (part, parts) = (u64::from(a.part) + u64::from(b.part), u64::from(self.parts));
        // Each part is less than a whole, so that both together hold at most one.
        let carry = part >= parts;
        let rest = if carry { part - parts } else { part };
        let whole = a.whole + b.whole + u64::from(carry);
        Span { whole, part: u32::try_from(rest).unwrap_or(0) }.min(Span::MAX)
    }

    /// `a − b`, zero if `b` is longer.
    pub(crate) fn sub(self, a: Span, b: Span) -> Span {
        if a <= b {
            return Span::ZERO;
        }
        match a.part.checked_sub(b.part) {
            Some(part) => Span { whole: a.whole - b.whole, part },
            None => Span { whole: a.whole - b.whole - 1, part: self.parts - (b.part - a.part) },
        }
    }

    /// How long from `now` until the instant that `cell` holds.
    ///
    /// A cell holds the instant rounded up to its deadline, how far away that
    /// was in [`LIFE_UNIT`]s, and by how many parts the instant comes before it.
    pub(crate) fn until(self, cell: Option<Cell>, now: Time) -> Span {
        let Some(cell) = cell.filter(|cell| cell.deadline() > now) else { return Span::ZERO };
        let early = u32::try_from(early_parts(cell.pair().1, self.parts())).unwrap_or(0);
        let up_to_deadline = Span::of(cell.deadline().since(now));
        self.sub(up_to_deadline, Span { whole: 0, part: early })
    }

    /// The cell for the instant `span` after `now`; none if that is now.
    pub(crate) fn cell(self, now: Time, span: Span) -> Option<Cell> {
        if span == Span::ZERO {
            return None;
        }
        let early = if span.part == 0 { 0 } else { self.parts - span.part };
        Some(cell_at(now, span.ceil(), u64::from(early)))
    }
}

/// The cell for the instant that comes `early` parts before `whole` microseconds from `now`.
#[inline]
pub(crate) fn cell_at(now: Time, whole: Micros, early: u64) -> Cell {
    let deadline = now + whole;
    let life = deadline.since(now).get().div_ceil(LIFE_UNIT);
    Cell::of_pair(deadline, life, early)
}

/// The packed words of the same cell where `now` is below [`NOW_MAX`] and `whole` at most [`NEAR_MAX`], so that
/// nothing comes near the end of time and the life of the cell is in its second word.
#[inline(always)]
pub(crate) fn near_words(now: Time, whole: Micros, early: u64) -> [u64; 2] {
    debug_assert!(now < NOW_MAX && whole <= NEAR_MAX, "an instant that can be told");
    let deadline = Time::in_range(now.get() + whole.get());
    Cell::pack_near(deadline, whole.get().div_ceil(LIFE_UNIT), early)
}

/// Whether a cell with a life of so many units is as far away as it was when it was written, or further: only where a
/// clock stepped back. To the unit, so that a cell that is not has not been [`rewound`] either.
#[inline(always)]
pub(crate) const fn is_past_life(units: u64, span: u64) -> bool {
    span / LIFE_UNIT > units
}

/// By how many parts the instant of a cell that says `early` comes before its deadline. A state of before a reload may
/// count in other parts: at worst the instant moves by less than a microsecond, to the later side.
#[inline]
pub(crate) const fn early_parts(early: u64, parts: u64) -> u64 {
    if early < parts { early } else { 0 }
}

/// How far away the deadline of a cell was when it was written.
#[inline]
pub(crate) fn life(cell: Cell) -> Micros {
    Micros::new(cell.pair().0 * LIFE_UNIT)
}

/// As much is missing as when the cell was written. That is known to the unit:
/// what may have been a bucket used up, `hard`, is one.
pub(crate) fn rewound(cell: Cell, hard: Span, now: Time) -> Cell {
    let (units, _) = cell.pair();
    let (life, hard) = (life(cell), hard.ceil());
    let missing = if life < hard + Micros::new(LIFE_UNIT) { life.min(hard) } else { life };
    Cell::of_pair(now + missing, units, 0)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Micros = Micros::from_secs(86_400);

    #[test]
    fn a_million_and_three_a_day_is_not_rounded() {
        let pace = Pace::new(1_000_003, DAY);
        let one = pace.span(1);
        assert_eq!((one.whole, one.part), (86_399, 740_803));
        let mut sum = Span::ZERO;
        for _ in 0..1_000_003 {
            sum = pace.add(sum, one);
        }
        assert_eq!(sum, Span::of(DAY));
        assert_eq!(pace.tokens(sum), 1_000_003);
    }

    #[test]
    fn a_span_survives_the_cell() {
        let pace = Pace::new(7, Micros::from_secs(1));
        let now = Time::from_secs(1_000);
        for tokens in 1..30 {
            let span = pace.span(tokens);
            let cell = pace.cell(now, span);
            assert_eq!(pace.until(cell, now), span);
            assert_eq!(pace.tokens(span), tokens);
            assert_eq!(pace.tokens_ceil(span), tokens);
        }
    }

    #[test]
    fn more_than_time_can_tell_is_the_end_of_time() {
        let pace = Pace::new(1, crate::limit::WINDOW_MAX);
        assert_eq!(pace.span(u64::MAX), Span::MAX);
        assert_eq!(pace.add(Span::MAX, Span::MAX), Span::MAX);
    }
}
