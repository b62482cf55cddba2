//! What a soft limit gives beyond its base, for buckets that flow.
//!
//! The smooth token bucket and the leaky bucket keep what is missing as a span
//! of time. Up to the base a token takes its time at the limit's rate; beyond it
//! only `100 / (100 + percent)` of that. So whoever has used up the base goes on
//! at the larger rate, and comes back to the base the faster. A state means the
//! same whether the allowance is granted or not, which is what an elastic limit
//! needs. Page: `spec/algorithms/token_bucket.md`; twin in Lua: `pace.lua`;
//! why: `docs/decisions/017-a-bucket-that-stretches.md`.
//!
//! Invariants: a check leaves no more missing than `full_span`; what is let
//! through over any interval is within the hard capacity and the larger rate; and
//! what is not marked is within the base and the limit's own rate.
//!
//! Deliberately not here: buckets that refill by interval, which count tokens and
//! are only larger.

use super::Limit;
use crate::pace::Span;

impl Limit {
    /// The most that may be missing for what takes `take` at the limit's rate to fit.
    #[inline]
    pub(crate) fn most_missing(&self, take: Span) -> Span {
        if self.exceed_percent == 0 {
            return self.pace.sub(self.hard_span, take);
        }
        self.most_missing_beyond(take)
    }

    /// What is missing once `take` is taken.
    #[inline]
    pub(crate) fn missing_with(&self, missing: Span, take: Span) -> Span {
        let sum = self.pace.add(missing, take);
        if self.exceed_percent == 0 || sum <= self.base_span {
            return sum;
        }
        self.missing_beyond_with(missing, take)
    }

    /// What is missing once `take` is given back.
    #[inline]
    pub(crate) fn missing_without(&self, missing: Span, take: Span) -> Span {
        if self.exceed_percent == 0 || missing <= self.base_span {
            return self.pace.sub(missing, take);
        }
        self.missing_beyond_without(missing, take)
    }

    /// How many tokens are missing, a started one counting as a whole.
    #[inline]
    pub(crate) fn missing_tokens(&self, missing: Span) -> u64 {
        if self.exceed_percent == 0 || missing <= self.base_span {
            return self.pace.tokens_ceil(missing);
        }
        self.missing_tokens_beyond(missing)
    }

    // Few limits are soft, and fewer callers beyond their base: what they need stands apart, so that the
    // rest is as short as for a hard limit.

    #[inline(never)]
    fn most_missing_beyond(&self, take: Span) -> Span {
        if take >= self.pace.sub(self.hard_span, self.base_span) {
            return self.pace.sub(self.hard_span, take);
        }
        self.pace.sub(self.full_span, self.shortened(take))
    }

    #[inline(never)]
    fn missing_beyond_with(&self, missing: Span, take: Span) -> Span {
        let start = missing.max(self.base_span);
        let is_beyond = missing > self.base_span;
        let beyond = if is_beyond { take } else { self.pace.sub(self.pace.add(missing, take), start) };
        self.pace.add(start, self.shortened(beyond))
    }

    #[inline(never)]
    fn missing_beyond_without(&self, missing: Span, take: Span) -> Span {
        let beyond = self.pace.sub(missing, self.base_span);
        // Rounded down, unlike what is taken: a refund gives back no more than its cost.
        let given = self.pace.times_floor(take, 100, 100 + u64::from(self.exceed_percent));
        if given <= beyond {
            return self.pace.sub(missing, given);
        }
        let rest = self.pace.sub(take, self.lengthened(beyond));
        self.pace.sub(self.base_span, rest)
    }

    #[inline(never)]
    fn missing_tokens_beyond(&self, missing: Span) -> u64 {
        let beyond = self.lengthened(self.pace.sub(missing, self.base_span));
        let all = self.pace.add(self.base_span, beyond);
        let all = if missing <= self.full_span { all.min(self.hard_span) } else { all };
        self.pace.tokens_ceil(all)
    }

    /// The time that `span` takes at the larger rate, rounded up to a part.
    fn shortened(&self, span: Span) -> Span {
        self.pace.times_ceil(span, 100, 100 + u64::from(self.exceed_percent))
    }

    /// The span whose time at the larger rate is `span`, rounded down to a part.
    fn lengthened(&self, span: Span) -> Span {
        self.pace.times_floor(span, 100 + u64::from(self.exceed_percent), 100)
    }

    /// Works out the spans of a bucket or a queue from its base and hard capacity.
    pub(super) fn set_spans(&mut self) {
        self.base_span = self.pace.span(self.base);
        self.hard_span = self.pace.span(self.hard);
        let beyond = self.shortened(self.pace.sub(self.hard_span, self.base_span));
        self.full_span = self.pace.add(self.base_span, beyond);
    }

    /// What a script has to know of the allowance of a bucket that flows, for
    /// this cost: percent, then the span of the base and the most that may be
    /// missing, each in whole microseconds and parts; none for a hard limit.
    pub fn allowance_parts(&self, cost: u64) -> Option<[u64; 5]> {
        if self.exceed_percent == 0 {
            return None;
        }
        let (base, base_part) = self.base_span.pair();
        let (most, most_part) = self.most_missing(self.cost_span(cost)).pair();
        Some([u64::from(self.exceed_percent), base, base_part, most, most_part])
    }

    /// The same limit while its allowance is withdrawn. Spans are counted in the
    /// same parts, so that nothing is rounded when it comes and goes.
    #[must_use]
    pub(crate) const fn withdrawn(mut self) -> Self {
        self.exceed_percent = 0;
        self.hard = self.base;
        self.hard_span = self.base_span;
        self.full_span = self.base_span;
        self
    }
}
