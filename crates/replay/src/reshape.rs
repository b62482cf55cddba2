//! A rule's limit with other numbers, to be tried beside it.
//!
//! Invariant: all that a rule says besides stays: soft, postpaid, what counts, a penalty.

use tollgate_core::{Algorithm, Limit, LimitError, Parameters, Shape};

/// The same numbers by another algorithm, with its usual parameters where the rule's has none.
pub(crate) fn by_algorithm(limit: &Limit, algorithm: Algorithm) -> Result<Limit, LimitError> {
    let shape = Shape::new(algorithm, &limit.shape().parameters(), limit.count());
    reshaped(limit, limit.count(), shape)
}

/// The same with another count; a burst grows along with it.
pub(crate) fn with_count(limit: &Limit, count: u32) -> Result<Limit, LimitError> {
    let scaled = |burst: u32| {
        let product = u64::from(burst) * u64::from(count) / u64::from(limit.count().max(1));
        u32::try_from(product).unwrap_or(u32::MAX).max(burst.min(1))
    };
    let own = limit.shape().parameters();
    let parameters = Parameters { burst: own.burst.map(scaled), ..own };
    reshaped(limit, count, Shape::new(limit.algorithm(), &parameters, count))
}

fn reshaped(limit: &Limit, count: u32, shape: Shape) -> Result<Limit, LimitError> {
    let new = Limit::new(count, limit.window(), shape)?;
    let new = match limit.exceed_percent() {
        0 => new,
        percent => new.soft(percent)?,
    };
    let new = new.counting_rejected(limit.counts_rejected()).with_postpaid(limit.is_postpaid());
    Ok(new.with_penalty(limit.penalty().copied()))
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Micros, Refill};

    use super::*;

    #[test]
    fn what_a_rule_says_besides_stays() {
        let bucket = Shape::TokenBucket { burst: 20, refill: Refill::Smooth };
        let limit = Limit::new(10, Micros::SECOND, bucket).unwrap().soft(50).unwrap();
        let limit = limit.counting_rejected(true).with_postpaid(true);
        for changed in Algorithm::ALL.map(|algorithm| by_algorithm(&limit, algorithm).unwrap()) {
            assert_eq!(
                (changed.count(), changed.window(), changed.exceed_percent()),
                (10, Micros::SECOND, 50)
            );
            assert!(changed.counts_rejected() && changed.is_postpaid());
        }
        assert_eq!(by_algorithm(&limit, Algorithm::TokenBucket), Ok(limit));
        assert_eq!(with_count(&limit, 30).unwrap().capacity(), 60, "the burst is still twice the count");
        let log = Limit::new(10, Micros::SECOND, Shape::SlidingLog).unwrap();
        assert!(with_count(&log, 10_001).is_err(), "a log is no longer");
    }
}
