//! The short way through the smooth token bucket: what nearly every check of one asks.
//!
//! [`crate::algorithm`] decides any operation of any cost, soft limits, limits that count what they reject, and
//! buckets whose fractions of a microsecond need more than a word. A check of cost 1 by a plain limit needs none
//! of it: everything is counted in one unit, parts of a microsecond, in one word; what a token takes and how
//! much may be missing is worked out when the limit is made; and its two divisions are multiplications
//! ([`Reciprocal`]). That is a fifth of the instructions.
//!
//! Invariant: where it decides, it decides exactly as the long way does, the new state included; a property holds both
//! beside each other. Where it cannot, it says so, and the long way decides.
//!
//! Deliberately not here: keys without a state, and what is rare, such as a state from a clock that was ahead.

use crate::decision::{Decision, Verdict};
use crate::pace::{self, Pace};
use crate::reciprocal::Reciprocal;
use crate::state::Cell;
use crate::time::{Micros, NOW_MAX, Time};

/// No number of parts is as large, so that sums of two are numerators of a [`Reciprocal`].
const PARTS_MAX: u64 = 1 << 52;

/// What a check of cost 1 has to know of a smooth bucket; all spans are in parts of a microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainBucket {
    /// How many parts a microsecond has.
    parts: u64,
    /// What one token takes.
    token: u64,
    /// The most that may be missing for one more token to fit.
    most: u64,
    capacity: u64,
    by_parts: Reciprocal,
    by_token: Reciprocal,
    /// What a bucket used up takes to fill, rounded down, so that no state is counted in more parts than a
    /// [`Reciprocal`] divides, and no more than leaves room for a token below [`pace::NEAR_MAX`]: a state that
    /// ends later is decided by the long way.
    span_max: u64,
}

/// What a check by a [`PlainBucket`] came to, from which that makes the decision. A decision is eight words: it is
/// made once, where it is wanted, and not handed from one function to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainCheck {
    /// How much is missing now, in parts of a microsecond.
    missing: u64,
    reset_after: Micros,
    is_denied: bool,
}

impl PlainCheck {
    /// Whether no token was there.
    pub const fn is_denied(&self) -> bool {
        self.is_denied
    }
}

impl PlainBucket {
    /// The short way for a bucket of this size, if it has one.
    pub(crate) fn new(pace: Pace, capacity: u64) -> Option<Self> {
        let (parts, token) = (pace.parts(), pace.token_parts());
        let full = token.checked_mul(capacity).filter(|full| *full < PARTS_MAX && capacity > 0)?;
        let span_max = pace::NEAR_MAX.get().checked_sub(token / parts + 1)?.min(full / parts);
        (parts < PARTS_MAX).then(|| Self {
            parts,
            token,
            most: full - token,
            capacity,
            by_parts: Reciprocal::new(parts),
            by_token: Reciprocal::new(token),
            span_max,
        })
    }

    /// Checks for one token over the packed words of a cell: what came of it, and the new words if it is taken. None
    /// if the long way has to decide, as it has where one of [`Cell::FREE_BITS`] is set.
    #[inline(always)]
    pub fn check_one(&self, words: [u64; 2], now: Time) -> Option<(PlainCheck, Option<[u64; 2]>)> {
        let (deadline, life, early) = Cell::unpack_near(words);
        let span = deadline.saturating_sub(now.get());
        if now >= NOW_MAX || span > self.span_max || pace::is_past_life(life, span) {
            return None;
        }
        let missing = self.parts_of(span, early);
        if missing > self.most {
            return Some((
                PlainCheck { missing, reset_after: Micros::in_range(span), is_denied: true },
                None,
            ));
        }
        let missing = missing + self.token;
        let reset_after = self.micros_ceil(missing);
        let early = if self.parts == 1 { 0 } else { reset_after.get() * self.parts - missing };
        let words = pace::near_words(now, reset_after, early);
        Some((PlainCheck { missing, reset_after, is_denied: false }, Some(words)))
    }

    /// How many parts it is to an instant that comes `early` parts before a deadline which is `span` away.
    #[inline(always)]
    const fn parts_of(&self, span: u64, early: u64) -> u64 {
        match span {
            // Where a token takes whole microseconds, as nearly always, these are the parts. A branch that is foreseen
            // takes no time; a product that all else waits for does.
            whole if self.parts == 1 => whole,
            0 => 0,
            whole => whole * self.parts - pace::early_parts(early, self.parts),
        }
    }

    /// The decision of a check by this bucket.
    #[inline(always)]
    pub fn decision(&self, check: PlainCheck) -> Decision {
        let PlainCheck { missing, reset_after, is_denied } = check;
        let verdict = match is_denied {
            true => Verdict::Deny { retry_after: Some(self.micros_ceil(missing - self.most)) },
            false => Verdict::Allow,
        };
        let used = self.by_token.divide(missing + self.token - 1);
        Decision {
            verdict,
            limit: self.capacity,
            used,
            remaining: self.capacity.saturating_sub(used),
            reset_after,
            soft: false,
            blocked_for: verdict.blocked_for(),
        }
    }

    /// Whole microseconds, rounded up.
    #[inline]
    fn micros_ceil(&self, parts: u64) -> Micros {
        let whole = if self.parts == 1 { parts } else { self.by_parts.divide(parts + self.parts - 1) };
        // There are no more parts than PARTS_MAX.
        Micros::in_range(whole)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::{Change, Operation, decide};
    use crate::limit::{Limit, Refill, Shape};
    use crate::state::{State, StateRef};

    const NOW: Time = Time::from_secs(1_800_000_000);

    /// Whole microseconds a token, fractions of one, several tokens in one, and numbers near the bounds.
    fn limits() -> impl Strategy<Value = Limit> {
        let counts = prop_oneof![1_u32..20, Just(1_000_003), 1_u32..=u32::MAX];
        let windows = prop_oneof![
            Just(Micros::SECOND),
            Just(Micros::from_secs(60)),
            Just(Micros::from_secs(86_400)),
            (1_u64..10_000_000_000).prop_map(Micros::new),
            Just(crate::limit::WINDOW_MAX),
        ];
        let bursts = prop_oneof![1_u32..5, 1_u32..1_000_000, 1_u32..=u32::MAX];
        let limit = |(count, window, burst)| {
            Limit::new(count, window, Shape::TokenBucket { burst, refill: Refill::Smooth }).ok()
        };
        (counts, windows, bursts).prop_filter_map("a limit that can be kept exactly", limit)
    }

    /// What the short way says.
    fn short_way(bucket: &PlainBucket, cell: Cell, now: Time) -> Option<(Decision, Option<Cell>)> {
        let (check, words) = bucket.check_one(cell.pack(), now)?;
        Some((bucket.decision(check), words.map(Cell::unpack)))
    }

    /// What the long way says, in the words of the short one.
    fn long_way(limit: &Limit, cell: Cell, now: Time) -> (Decision, Option<Cell>) {
        let (decision, change) = decide(Some(StateRef::Cell(cell)), limit, now, Operation::Check, 1);
        match change {
            Change::Put(State::Cell(cell)) => (decision, Some(cell)),
            Change::Keep => (decision, None),
            Change::Put(State::Log(_)) | Change::Remove => {
                panic!("a check of cost 1 takes a cell, or nothing")
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

        /// Time goes on and steps back, some requests are reported into debt, and states of before a reload are met.
        #[test]
        fn it_decides_as_the_long_way_does(
            limit in limits(),
            before in limits(),
            steps in prop::collection::vec((0_u64..4, any::<u32>(), 0_u8..8), 1..30),
        ) {
            let mut now = NOW;
            let mut cell = None;
            for (scale, wait, what) in steps {
                let wait = Micros::new(u64::from(wait) >> (scale * 8));
                now = if what == 0 { now.before(wait) } else { now + wait };
                let maker = if what == 1 { &before } else { &limit };
                let (operation, cost) = if what == 2 { (Operation::Report, 1_000) } else { (Operation::Check, 1) };
                if let (Some(cell), Some(bucket)) = (cell, limit.plain_bucket())
                    && let Some(short) = short_way(bucket, cell, now)
                {
                    prop_assert_eq!(short, long_way(&limit, cell, now));
                }
                match decide(cell.map(StateRef::Cell), maker, now, operation, cost).1 {
                    Change::Put(State::Cell(put)) => cell = Some(put),
                    Change::Remove => cell = None,
                    Change::Keep | Change::Put(State::Log(_)) => {}
                }
            }
        }
    }

    #[test]
    fn usual_limits_have_the_short_way() {
        for (count, window, burst) in [(10, 1, 20), (7, 1, 7), (500, 3_600, 500), (1_003, 86_400, 1_003)] {
            let shape = Shape::TokenBucket { burst, refill: Refill::Smooth };
            let limit = Limit::new(count, Micros::from_secs(window), shape).expect("a limit that is one");
            let bucket = limit.plain_bucket().expect("its numbers are small");
            let (_, change) = decide(None, &limit, NOW, Operation::Check, 1);
            let Change::Put(State::Cell(cell)) = change else { panic!("a taken request is remembered") };
            assert_eq!(short_way(bucket, cell, NOW), Some(long_way(&limit, cell, NOW)));
            let later = NOW + Micros::from_secs(2 * 86_400);
            assert_eq!(
                short_way(bucket, cell, later),
                Some(long_way(&limit, cell, later)),
                "after its deadline"
            );
        }
    }

    #[test]
    fn whoever_needs_more_goes_the_long_way() {
        let shape = Shape::TokenBucket { burst: 10, refill: Refill::Smooth };
        let limit = Limit::new(10, Micros::SECOND, shape).expect("a limit that is one");
        let others = [
            limit.counting_rejected(true),
            limit.with_postpaid(true),
            limit.soft(10).expect("a soft limit"),
            Limit::new(10, Micros::SECOND, Shape::TokenBucket { burst: 10, refill: Refill::Interval })
                .expect("by interval"),
            Limit::new(10, Micros::SECOND, Shape::LeakyBucket { burst: 10, max_wait: None })
                .expect("a queue"),
            // One token takes 86,399 µs and 740,803 of 1,000,003 parts of one, a million times.
            Limit::new(
                1_000_003,
                Micros::from_secs(86_400),
                Shape::TokenBucket { burst: 1_000_003, refill: Refill::Smooth },
            )
            .expect("a limit that is one"),
            Limit::new(0, Micros::SECOND, Shape::TokenBucket { burst: 0, refill: Refill::Smooth })
                .expect("nothing"),
        ];
        assert!(limit.plain_bucket().is_some());
        assert!(others.iter().all(|other| other.plain_bucket().is_none()));
        let bucket = limit.plain_bucket().expect("as above");
        let far = pace::cell_at(NOW + Micros::from_secs(86_400), Micros::from_secs(1), 0);
        assert_eq!(bucket.check_one(far.pack(), NOW), None, "of a clock that was ahead");
        assert_eq!(bucket.check_one(far.pack(), NOW_MAX), None, "at the end of time");
    }
}
