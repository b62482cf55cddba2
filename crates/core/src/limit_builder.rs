//! A limit as a program writes it: `Limit::per_second(10).burst(20)`.
//!
//! Rule files are read by `tollgate-rules`; both end in [`Limit::new`], which checks the numbers.

use crate::limit::{Algorithm, Limit, LimitError, Parameters, Refill, Shape};
use crate::time::Micros;

const MINUTE: Micros = Micros::from_secs(60);
const HOUR: Micros = Micros::from_secs(3_600);
const DAY: Micros = Micros::from_secs(86_400);

/// A limit that is being written; [`LimitBuilder::build`] checks it. A token
/// bucket unless another algorithm is named.
///
/// ```
/// use tollgate_core::{Algorithm, Limit};
/// let burst = Limit::per_second(10).burst(20).build()?;
/// let hourly = Limit::per_hour(500).algorithm(Algorithm::SlidingBuckets).build()?;
/// assert_eq!((burst.capacity(), hourly.capacity()), (20, 500));
/// assert!(Limit::per_second(0).burst(1).build().is_err(), "it would never refill");
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[must_use = "a builder is no limit yet; call build()"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitBuilder {
    count: u32,
    window: Micros,
    algorithm: Algorithm,
    parameters: Parameters,
}

impl Limit {
    /// `count` requests in any window of this length.
    pub fn per(window: Micros, count: u32) -> LimitBuilder {
        LimitBuilder { count, window, algorithm: Algorithm::TokenBucket, parameters: Parameters::default() }
    }

    /// `count` a second.
    pub fn per_second(count: u32) -> LimitBuilder {
        Self::per(Micros::SECOND, count)
    }

    /// `count` a minute.
    pub fn per_minute(count: u32) -> LimitBuilder {
        Self::per(MINUTE, count)
    }

    /// `count` an hour.
    pub fn per_hour(count: u32) -> LimitBuilder {
        Self::per(HOUR, count)
    }

    /// `count` a day.
    pub fn per_day(count: u32) -> LimitBuilder {
        Self::per(DAY, count)
    }
}

/// The names are those of rule files. What an algorithm does not have is left out.
impl LimitBuilder {
    /// How the limit is kept.
    pub const fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// The size of a token bucket, or the length of a leaky bucket's queue; `count` unless set.
    pub const fn burst(mut self, burst: u32) -> Self {
        self.parameters.burst = Some(burst);
        self
    }

    /// How tokens come back: smoothly, unless set.
    pub const fn refill(mut self, refill: Refill) -> Self {
        self.parameters.refill = Some(refill);
        self
    }

    /// The number of sub-windows of `sliding_buckets`; 60 unless set.
    pub const fn buckets(mut self, buckets: u32) -> Self {
        self.parameters.buckets = Some(buckets);
        self
    }

    /// What would wait longer in a leaky bucket's queue is denied.
    pub const fn max_wait(mut self, max_wait: Micros) -> Self {
        self.parameters.max_wait = Some(Some(max_wait));
        self
    }

    /// The limit.
    ///
    /// # Errors
    /// If the numbers cannot be kept exactly, or make no sense together.
    pub fn build(self) -> Result<Limit, LimitError> {
        Limit::new(self.count, self.window, Shape::new(self.algorithm, &self.parameters, self.count))
    }
}
