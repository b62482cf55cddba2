//! What one decision adds to the counters that envoyproxy/ratelimit has.
//!
//! Pure: a [`Hit`] in, a [`HitCounts`] out; [`super::counters`] keeps the sums.
//!
//! A hit is one unit of cost. The arithmetic is the reference's, in which a
//! request that crosses a limit is partly over it and partly near it although
//! it is refused as a whole. A limit that does not count refused requests is
//! told as if it did, so that changing `algorithm` keeps what a graph means.
//!
//! Deliberately not here: where the near limit ratio comes from, and names.

use tollgate_core::Operation;
use tollgate_limiter::RuleDecision;

/// What one decision adds, in hits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HitCounts {
    pub(super) total_hits: u64,
    pub(super) over_limit: u64,
    /// Of these, denied from memory without asking the store; the reference
    /// calls it `over_limit_with_local_cache`.
    pub(super) remembered: u64,
    pub(super) near_limit: u64,
    pub(super) within_limit: u64,
    pub(super) shadow_mode: u64,
    /// What was given back; it is no hit.
    pub(super) negative_hits: u64,
}

impl HitCounts {
    /// Adds another one.
    pub(super) const fn add(&mut self, other: &Self) {
        self.total_hits = self.total_hits.wrapping_add(other.total_hits);
        self.over_limit = self.over_limit.wrapping_add(other.over_limit);
        self.remembered = self.remembered.wrapping_add(other.remembered);
        self.near_limit = self.near_limit.wrapping_add(other.near_limit);
        self.within_limit = self.within_limit.wrapping_add(other.within_limit);
        self.shadow_mode = self.shadow_mode.wrapping_add(other.shadow_mode);
        self.negative_hits = self.negative_hits.wrapping_add(other.negative_hits);
    }
}

/// What of a decision the counters depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    operation: Operation,
    cost: u64,
    limit: u64,
    /// What is taken after it.
    used: u64,
    is_denied: bool,
    is_shadow: bool,
    is_remembered: bool,
    /// Whether `used` holds the cost although it was denied.
    counts_rejected: bool,
}

impl Hit {
    /// What of `decision` the counters depend on, by a limit that counts
    /// rejected requests or does not.
    pub(super) const fn of(decision: &RuleDecision, counts_rejected: bool) -> Self {
        Self {
            operation: decision.operation,
            cost: decision.cost,
            limit: decision.limit,
            used: decision.used,
            is_denied: decision.verdict.is_deny(),
            is_shadow: decision.mode.is_shadow(),
            is_remembered: decision.remembered,
            counts_rejected,
        }
    }

    /// What it adds, where a hit is near the limit above `near_ratio` of it.
    pub(super) fn counts(&self, near_ratio: f32) -> HitCounts {
        let near_from = near_threshold(self.limit, near_ratio);
        match self.operation {
            Operation::Refund => HitCounts { negative_hits: self.cost, ..HitCounts::default() },
            // It has happened and is never denied, but may be over all the same.
            Operation::Report if self.used > self.limit => self.over(near_from),
            Operation::Check | Operation::Peek | Operation::Report if self.is_denied => self.over(near_from),
            Operation::Check | Operation::Peek | Operation::Report => self.within(near_from),
        }
    }

    fn within(&self, near_from: u64) -> HitCounts {
        let before = self.used.saturating_sub(self.cost);
        // A hit that ends exactly at the threshold is not near yet.
        let near_limit = match self.used.saturating_sub(near_from) {
            0 => 0,
            _ if before >= near_from => self.cost,
            above => above,
        };
        HitCounts { total_hits: self.cost, near_limit, within_limit: self.cost, ..HitCounts::default() }
    }

    fn over(&self, near_from: u64) -> HitCounts {
        let is_counted = self.counts_rejected || !self.is_denied;
        let after = if is_counted { self.used } else { self.used.saturating_add(self.cost) };
        let before = after.saturating_sub(self.cost);
        // Some algorithms refuse what would fit the number alone, such as a
        // queue whose wait is too long: then every hit is over.
        let is_crossing = before < self.limit && after > self.limit;
        let (over_limit, near_limit) = if is_crossing {
            (after - self.limit, self.limit.saturating_sub(near_from.max(before)))
        } else {
            (self.cost, 0)
        };
        let shadow_mode = if self.is_shadow { over_limit } else { 0 };
        let remembered = if self.is_remembered { over_limit } else { 0 };
        HitCounts {
            total_hits: self.cost,
            over_limit,
            remembered,
            near_limit,
            shadow_mode,
            ..HitCounts::default()
        }
    }
}

/// From which count on hits are near the limit.
#[expect(
    clippy::float_arithmetic,
    clippy::as_conversions,
    reason = "the reference multiplies in single precision, and its rounding is part of the contract"
)]
fn near_threshold(limit: u64, ratio: f32) -> u64 {
    // A cast from a float rounds down, stops at the ends of the range, and takes NaN for 0.
    (limit as f32 * ratio) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(limit: u64, cost: u64, used: u64) -> Hit {
        Hit {
            operation: Operation::Check,
            cost,
            limit,
            used,
            is_denied: used > limit,
            is_shadow: false,
            is_remembered: false,
            counts_rejected: true,
        }
    }

    fn over_near_within(hit: &Hit) -> (u64, u64, u64) {
        let counts = hit.counts(0.8);
        assert_eq!(counts.total_hits, hit.cost);
        (counts.over_limit, counts.near_limit, counts.within_limit)
    }

    #[test]
    fn the_reference_vectors_hold() {
        // Limit, cost, count after; over, near, within.
        let rows = [
            (15, 1, 11, (0, 0, 1)),
            (15, 1, 13, (0, 1, 1)),
            (15, 1, 16, (1, 0, 0)),
            (20, 3, 5, (0, 0, 3)),
            (8, 2, 7, (0, 1, 2)),
            (20, 3, 19, (0, 3, 3)),
            (20, 3, 22, (2, 1, 0)),
            (20, 7, 22, (2, 4, 0)),
            (10, 3, 30, (3, 0, 0)),
            (10, 0, 11, (0, 0, 0)),
        ];
        for (limit, cost, after, expected) in rows {
            assert_eq!(
                over_near_within(&hit(limit, cost, after)),
                expected,
                "limit {limit}, cost {cost}, after {after}"
            );
        }
    }

    #[test]
    fn the_worked_example_of_five_holds() {
        for after in 1..=4 {
            assert_eq!(over_near_within(&hit(5, 1, after)), (0, 0, 1), "after {after}");
        }
        assert_eq!(over_near_within(&hit(5, 1, 5)), (0, 1, 1));
        assert_eq!(over_near_within(&hit(5, 1, 6)), (1, 0, 0));
        assert_eq!(over_near_within(&hit(5, 7, 7)), (2, 1, 0));
    }

    #[test]
    fn the_threshold_is_a_product_in_single_precision() {
        for (limit, near_from) in [(10, 8), (15, 12), (14, 11), (5, 4), (0, 0)] {
            assert_eq!(near_threshold(limit, 0.8), near_from, "limit {limit}");
        }
        assert_eq!(near_threshold(u64::MAX, f32::INFINITY), u64::MAX);
        assert_eq!(near_threshold(10, f32::NAN), 0);
    }

    #[test]
    fn a_shadow_rule_counts_what_it_would_have_refused() {
        for (hit, expected) in [(hit(20, 7, 22), 2), (hit(10, 3, 30), 3), (hit(10, 3, 3), 0)] {
            assert_eq!(Hit { is_shadow: true, ..hit }.counts(0.8).shadow_mode, expected, "{hit:?}");
        }
    }

    #[test]
    fn what_is_denied_from_memory_is_counted_apart_too() {
        let counts = Hit { is_remembered: true, ..hit(10, 3, 30) }.counts(0.8);
        assert_eq!((counts.over_limit, counts.remembered), (3, 3));
    }

    #[test]
    fn a_limit_that_does_not_count_refusals_is_told_like_one_that_does() {
        let refused = Hit { used: 15, is_denied: true, counts_rejected: false, ..hit(20, 7, 22) };
        assert_eq!(over_near_within(&refused), over_near_within(&hit(20, 7, 22)));
    }

    #[test]
    fn a_report_beyond_the_limit_is_over_it_though_nothing_is_denied() {
        for counts_rejected in [true, false] {
            let report =
                Hit { operation: Operation::Report, is_denied: false, counts_rejected, ..hit(20, 7, 22) };
            assert_eq!(over_near_within(&report), (2, 4, 0));
            assert_eq!(over_near_within(&Hit { used: 19, ..report }), (0, 3, 7));
        }
    }

    #[test]
    fn what_is_given_back_is_told_apart_and_is_no_hit() {
        let refund = Hit { operation: Operation::Refund, is_denied: false, ..hit(20, 7, 22) };
        assert_eq!(refund.counts(0.8), HitCounts { negative_hits: 7, ..HitCounts::default() });
    }

    #[test]
    fn a_refusal_of_what_would_fit_the_number_is_over_as_a_whole() {
        let refused = Hit { is_denied: true, ..hit(10, 2, 3) };
        assert_eq!(over_near_within(&refused), (2, 0, 0));
    }

    #[test]
    fn no_cost_and_no_count_overflows() {
        let huge = hit(10, u64::MAX, u64::MAX);
        assert_eq!(over_near_within(&huge), (u64::MAX - 10, 2, 0));
        let refused = Hit { counts_rejected: false, ..huge };
        assert_eq!(refused.counts(2.0).over_limit, u64::MAX - 10);
    }
}
