//! The numbers of a rule, checked once and ready for the maths.
//!
//! A rule file or an override gives count, window and [`Shape`];
//! [`Limit::new`] refuses what cannot be kept exactly, and works out once what
//! every decision needs.
//!
//! Invariant: a `Limit` that exists can be decided on without overflow: every
//! intermediate that a store keeps or compares stays below 2^53.
//!
//! Deliberately not here: units, names, modes; those belong to the rule.

use std::fmt;

use crate::pace::{Pace, Span};
use crate::penalty::Penalty;
use crate::plain_bucket::PlainBucket;
use crate::time::Micros;

mod allowance;
mod error;

pub use error::LimitError;

/// No window is longer: 50 years of 365 days. `now` (up to the year 2112)
/// plus two of these stays below 2^53 µs.
pub const WINDOW_MAX: Micros = Micros::from_secs(1_576_800_000);
/// No bucket takes longer to fill, and no queue to drain: 100 years.
pub const FILL_MAX: Micros = WINDOW_MAX.times(2);
/// A log keeps up to this many entries a key; more belongs into sub-windows.
pub const LOG_MAX: u64 = 10_000;
/// Most sub-windows: one per second of an hour. State grows with their number.
pub const BUCKETS_MAX: u32 = 3_600;
/// Below a lower mark than this no elastic limit could be exceeded again.
pub const BELOW_LOAD_MIN_PERCENT: u32 = 11;
/// A soft limit allows at most eleven times the limit.
pub const EXCEED_MAX_PERCENT: u32 = 1_000;

/// The six ways to count.
///
/// ```
/// use tollgate_core::Algorithm;
/// assert_eq!(Algorithm::from_name("token_bucket"), Some(Algorithm::TokenBucket));
/// assert_eq!(Algorithm::SlidingLog.to_string(), "sliding_log");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// At most L per window aligned to the epoch.
    FixedWindow,
    /// At most L in any trailing window, exact.
    SlidingLog,
    /// Two windows, the older weighted by its overlap.
    SlidingCounter,
    /// Never more than L in any trailing window, in sub-windows.
    SlidingBuckets,
    /// A bucket that refills at a rate.
    TokenBucket,
    /// A queue that drains at a rate.
    LeakyBucket,
}

impl Algorithm {
    /// All six, in the order of the documentation.
    pub const ALL: [Self; 6] = [
        Self::FixedWindow,
        Self::SlidingLog,
        Self::SlidingCounter,
        Self::SlidingBuckets,
        Self::TokenBucket,
        Self::LeakyBucket,
    ];

    /// The name in rule files, replies and pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed_window",
            Self::SlidingLog => "sliding_log",
            Self::SlidingCounter => "sliding_counter",
            Self::SlidingBuckets => "sliding_buckets",
            Self::TokenBucket => "token_bucket",
            Self::LeakyBucket => "leaky_bucket",
        }
    }

    /// The algorithm of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a token bucket gets its tokens back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Refill {
    /// Evenly, down to fractions of a token.
    #[default]
    Smooth,
    /// All tokens of a period at once, one period after the bucket was last full.
    Interval,
}

impl Refill {
    /// Both, the default first.
    pub const ALL: [Self; 2] = [Self::Smooth, Self::Interval];

    /// The name in rule files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Smooth => "smooth",
            Self::Interval => "interval",
        }
    }
}

/// What a limit does while its store cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnStoreError {
    /// Goes on from memory, by the same algorithm, from what was last seen.
    #[default]
    Local,
    /// Lets everything through.
    Allow,
    /// Denies everything.
    Deny,
}

impl OnStoreError {
    /// All three, the default first.
    pub const ALL: [Self; 3] = [Self::Local, Self::Allow, Self::Deny];

    /// The word in rule files and replies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

/// An algorithm with the parameters that only it has.
///
/// ```
/// use tollgate_core::{Algorithm, Shape};
/// assert_eq!(Shape::SlidingBuckets { buckets: 60 }.algorithm(), Algorithm::SlidingBuckets);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// See [`Algorithm::FixedWindow`].
    FixedWindow,
    /// See [`Algorithm::SlidingLog`].
    SlidingLog,
    /// See [`Algorithm::SlidingCounter`].
    SlidingCounter,
    /// See [`Algorithm::SlidingBuckets`].
    SlidingBuckets {
        /// Number of sub-windows.
        buckets: u32,
    },
    /// See [`Algorithm::TokenBucket`].
    TokenBucket {
        /// Bucket size.
        burst: u32,
        /// How tokens come back.
        refill: Refill,
    },
    /// See [`Algorithm::LeakyBucket`].
    LeakyBucket {
        /// How many may wait.
        burst: u32,
        /// A request that would wait longer is denied.
        max_wait: Option<Micros>,
    },
}

/// The number of sub-windows where a rule does not say.
const BUCKETS_DEFAULT: u32 = 60;

/// What a store keeps of a key, whatever it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateForm {
    /// A deadline and a number.
    Number,
    /// A deadline and two numbers.
    Pair,
    /// When what was taken.
    Log,
}

/// What tells the counters of algorithms apart that have the same name and window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTag {
    /// In keys in memory. Snapshots keep it: never change it.
    pub byte: u8,
    /// Beside the byte, a parameter without which a state has no meaning.
    pub parameter: u32,
    /// In keys on a shared store, with the same promise.
    pub letters: &'static str,
}

/// The parameters that an algorithm has beside count and window, by the names
/// of rule files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parameters {
    /// The size of a bucket, or the length of a queue.
    pub burst: Option<u32>,
    /// How tokens come back.
    pub refill: Option<Refill>,
    /// The number of sub-windows.
    pub buckets: Option<u32>,
    /// A request that would wait longer is denied; `None` in a queue without such a bound.
    pub max_wait: Option<Option<Micros>>,
}

/// The list of algorithms: what everybody else has to know about each of them.
impl Shape {
    /// The shape of an algorithm with these parameters, those that it does not
    /// have left out, at `count` requests per window.
    pub fn new(algorithm: Algorithm, parameters: &Parameters, count: u32) -> Self {
        let burst = parameters.burst.unwrap_or(count);
        match algorithm {
            Algorithm::FixedWindow => Self::FixedWindow,
            Algorithm::SlidingLog => Self::SlidingLog,
            Algorithm::SlidingCounter => Self::SlidingCounter,
            Algorithm::SlidingBuckets => {
                Self::SlidingBuckets { buckets: parameters.buckets.unwrap_or(BUCKETS_DEFAULT) }
            }
            Algorithm::TokenBucket => {
                Self::TokenBucket { burst, refill: parameters.refill.unwrap_or_default() }
            }
            Algorithm::LeakyBucket => Self::LeakyBucket { burst, max_wait: parameters.max_wait.flatten() },
        }
    }

    /// The algorithm without its parameters.
    pub const fn algorithm(self) -> Algorithm {
        match self {
            Self::FixedWindow => Algorithm::FixedWindow,
            Self::SlidingLog => Algorithm::SlidingLog,
            Self::SlidingCounter => Algorithm::SlidingCounter,
            Self::SlidingBuckets { .. } => Algorithm::SlidingBuckets,
            Self::TokenBucket { .. } => Algorithm::TokenBucket,
            Self::LeakyBucket { .. } => Algorithm::LeakyBucket,
        }
    }

    /// Its parameters.
    pub const fn parameters(self) -> Parameters {
        let none = Parameters { burst: None, refill: None, buckets: None, max_wait: None };
        match self {
            Self::FixedWindow | Self::SlidingLog | Self::SlidingCounter => none,
            Self::SlidingBuckets { buckets } => Parameters { buckets: Some(buckets), ..none },
            Self::TokenBucket { burst, refill } => {
                Parameters { burst: Some(burst), refill: Some(refill), ..none }
            }
            Self::LeakyBucket { burst, max_wait } => {
                Parameters { burst: Some(burst), max_wait: Some(max_wait), ..none }
            }
        }
    }

    /// What tells its counters from those of other algorithms.
    pub const fn key_tag(self) -> KeyTag {
        let (byte, parameter, letters) = match self {
            Self::FixedWindow => (1, 0, "fw"),
            Self::SlidingLog => (2, 0, "sl"),
            Self::SlidingCounter => (3, 0, "sc"),
            Self::SlidingBuckets { buckets } => (4, buckets, "sb"),
            Self::TokenBucket { refill: Refill::Smooth, .. } => (5, 0, "tb"),
            Self::TokenBucket { refill: Refill::Interval, .. } => (5, 1, "ti"),
            Self::LeakyBucket { .. } => (6, 0, "lb"),
        };
        KeyTag { byte, parameter, letters }
    }

    /// What a store keeps of a key.
    pub const fn state_form(self) -> StateForm {
        match self {
            Self::SlidingLog | Self::SlidingBuckets { .. } => StateForm::Log,
            Self::FixedWindow | Self::TokenBucket { refill: Refill::Interval, .. } => StateForm::Number,
            Self::SlidingCounter | Self::TokenBucket { .. } | Self::LeakyBucket { .. } => StateForm::Pair,
        }
    }

    /// Whether what is used fades evenly, so that it is kept as a span of time.
    const fn flows(self) -> bool {
        matches!(self, Self::TokenBucket { refill: Refill::Smooth, .. } | Self::LeakyBucket { .. })
    }

    /// Whether its windows are aligned to the clock, so that what is taken in
    /// one is gone in the next.
    pub const fn is_aligned(self) -> bool {
        matches!(self, Self::FixedWindow | Self::SlidingCounter)
    }
}

/// The numbers of a rule.
///
/// ```
/// use tollgate_core::{Limit, Micros, Shape};
/// let limit = Limit::new(10, Micros::from_secs(60), Shape::SlidingLog)?;
/// assert_eq!(limit.capacity(), 10);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    count: u32,
    window: Micros,
    shape: Shape,
    exceed_percent: u32,
    count_rejected: bool,
    on_store_error: OnStoreError,
    postpaid: bool,
    penalty: Option<Penalty>,
    base: u64,
    hard: u64,
    pub(crate) tick_us: u64,
    pub(crate) pace: Pace,
    pub(crate) base_span: Span,
    /// The time of all that fits, each token at the limit's own rate.
    pub(crate) hard_span: Span,
    /// The time in which an empty bucket fills, the soft part at its larger rate.
    pub(crate) full_span: Span,
    /// The time of one token, which nearly every request asks for.
    one_span: Span,
    /// The short way of a smooth token bucket without its allowance, if its numbers are small enough.
    plain_bucket: Option<PlainBucket>,
}

impl Limit {
    /// A hard limit of `count` per `window`, for which rejected requests do not count.
    ///
    /// # Errors
    /// If the numbers cannot be kept exactly, or make no sense together.
    pub fn new(count: u32, window: Micros, shape: Shape) -> Result<Self, LimitError> {
        if window == Micros::ZERO || window > WINDOW_MAX {
            return Err(LimitError::Window { window });
        }
        let base = match shape {
            Shape::TokenBucket { burst, .. } => u64::from(burst),
            Shape::LeakyBucket { .. } if count == 0 => 0,
            // One leaves at once and `burst` wait behind it.
            Shape::LeakyBucket { burst, .. } => u64::from(burst) + 1,
            Shape::FixedWindow | Shape::SlidingLog | Shape::SlidingCounter | Shape::SlidingBuckets { .. } => {
                u64::from(count)
            }
        };
        let zero = Span::ZERO;
        let limit = Self {
            count,
            window,
            shape,
            exceed_percent: 0,
            count_rejected: false,
            on_store_error: OnStoreError::Local,
            postpaid: false,
            penalty: None,
            base,
            hard: base,
            tick_us: 1,
            pace: Pace::new(count.max(1), window),
            base_span: zero,
            hard_span: zero,
            full_span: zero,
            one_span: Pace::new(count.max(1), window).span(1),
            plain_bucket: None,
        };
        limit.checked()
    }

    /// The same, allowing `percent` more and marking those requests.
    ///
    /// # Errors
    /// If the percentage is zero or above [`EXCEED_MAX_PERCENT`], or the larger
    /// limit cannot be kept exactly.
    pub fn soft(mut self, percent: u32) -> Result<Self, LimitError> {
        if percent == 0 || percent > EXCEED_MAX_PERCENT {
            return Err(LimitError::Exceed { percent });
        }
        self.exceed_percent = percent;
        self.hard = self.base + self.base * u64::from(percent) / 100;
        if self.shape.flows() {
            self.pace = self.pace.finer(100, 100 + u64::from(percent));
            self.one_span = self.pace.span(1);
            if !self.pace.is_fine() {
                return Err(LimitError::TooFast { percent });
            }
        }
        self.checked()
    }

    /// The same with another count; a bucket or a queue grows and shrinks with it.
    ///
    /// # Errors
    /// If the numbers cannot be kept exactly, or make no sense together.
    pub fn with_count(&self, count: u32) -> Result<Self, LimitError> {
        let scaled = |size: u32| match self.count {
            old if old == size || old == 0 => count,
            old => {
                let size = u64::from(size) * u64::from(count) / u64::from(old);
                u32::try_from(size).unwrap_or(u32::MAX).max(count.min(1))
            }
        };
        let shape = match self.shape {
            Shape::TokenBucket { burst, refill } => Shape::TokenBucket { burst: scaled(burst), refill },
            // A queue may be empty, and stays so.
            Shape::LeakyBucket { burst: 0, max_wait } => Shape::LeakyBucket { burst: 0, max_wait },
            Shape::LeakyBucket { burst, max_wait } => Shape::LeakyBucket { burst: scaled(burst), max_wait },
            Shape::FixedWindow | Shape::SlidingLog | Shape::SlidingCounter | Shape::SlidingBuckets { .. } => {
                self.shape
            }
        };
        let fresh = Self::new(count, self.window, shape)?;
        let Self { exceed_percent, count_rejected, on_store_error, postpaid, penalty, .. } = *self;
        let limit = Self { count_rejected, on_store_error, postpaid, penalty, ..fresh };
        if exceed_percent > 0 { limit.soft(exceed_percent) } else { Ok(limit) }
    }

    /// The same, with denied requests counted or not.
    #[must_use]
    pub const fn counting_rejected(mut self, count_rejected: bool) -> Self {
        self.count_rejected = count_rejected;
        self
    }

    /// The same, doing this while its store cannot be asked.
    #[must_use]
    pub const fn with_on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.on_store_error = on_store_error;
        self
    }

    /// The same, for costs that become known afterwards: what is charged is
    /// always recorded, into debt if need be, and a check of cost 0 is denied
    /// while nothing is left.
    #[must_use]
    pub const fn with_postpaid(mut self, postpaid: bool) -> Self {
        self.postpaid = postpaid;
        self
    }

    /// The same, blocking for a while whoever it denies too often.
    #[must_use]
    pub const fn with_penalty(mut self, penalty: Option<Penalty>) -> Self {
        self.penalty = penalty;
        self
    }

    fn checked(mut self) -> Result<Self, LimitError> {
        match self.shape {
            Shape::SlidingLog if self.hard > LOG_MAX => Err(LimitError::Log { count: self.hard }),
            Shape::SlidingBuckets { buckets } if buckets == 0 || buckets > BUCKETS_MAX => {
                Err(LimitError::Buckets { buckets })
            }
            Shape::SlidingBuckets { buckets } => {
                self.tick_us = self.window.get().div_ceil(u64::from(buckets));
                Ok(self)
            }
            Shape::TokenBucket { burst, .. } | Shape::LeakyBucket { burst, .. }
                if self.count == 0 && burst > 0 =>
            {
                Err(LimitError::NeverRefills { burst })
            }
            Shape::TokenBucket { burst: 0, .. } if self.count > 0 => Err(LimitError::NoBurst),
            Shape::TokenBucket { .. } | Shape::LeakyBucket { .. } => {
                self.set_spans();
                if matches!(self.shape, Shape::TokenBucket { refill: Refill::Smooth, .. }) {
                    self.plain_bucket = PlainBucket::new(self.pace, self.base);
                }
                let fills_by_windows =
                    matches!(self.shape, Shape::TokenBucket { refill: Refill::Interval, .. });
                let fill = match fills_by_windows {
                    true => self.window.times(self.hard.div_ceil(u64::from(self.count.max(1)))),
                    false => self.hard_span.ceil(),
                };
                if fill > FILL_MAX {
                    return Err(LimitError::Fill { capacity: self.hard });
                }
                Ok(self)
            }
            Shape::FixedWindow | Shape::SlidingLog | Shape::SlidingCounter => Ok(self),
        }
    }

    /// Requests per window, as written in the rule.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The length of the window.
    pub const fn window(&self) -> Micros {
        self.window
    }

    /// The algorithm and its own parameters.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// The algorithm.
    pub const fn algorithm(&self) -> Algorithm {
        self.shape.algorithm()
    }

    /// What fits at once without being soft: the count of a window, the burst
    /// of a token bucket, one more than the queue of a leaky bucket.
    pub const fn capacity(&self) -> u64 {
        self.base
    }

    /// What fits at once, the soft part included.
    pub const fn hard_capacity(&self) -> u64 {
        self.hard
    }

    /// By how many percent the limit may be exceeded; 0 for a hard limit.
    pub const fn exceed_percent(&self) -> u32 {
        self.exceed_percent
    }

    /// Whether a denied request is counted too.
    pub const fn counts_rejected(&self) -> bool {
        self.count_rejected
    }

    /// What it does while its store cannot be asked.
    pub const fn on_store_error(&self) -> OnStoreError {
        self.on_store_error
    }

    /// Whether the state of a key is a [`crate::Cell`] and not a log.
    #[inline]
    pub const fn keeps_cell(&self) -> bool {
        !matches!(self.shape, Shape::SlidingLog | Shape::SlidingBuckets { .. })
    }

    /// The short way to check for one token, if this is a bucket that has one.
    #[inline]
    pub const fn plain_bucket(&self) -> Option<&PlainBucket> {
        match &self.plain_bucket {
            Some(bucket) if self.exceed_percent == 0 && !self.count_rejected && !self.postpaid => {
                Some(bucket)
            }
            Some(_) | None => None,
        }
    }

    /// Whether costs become known afterwards.
    pub const fn is_postpaid(&self) -> bool {
        self.postpaid
    }

    /// What becomes of whoever it denies too often.
    pub const fn penalty(&self) -> Option<&Penalty> {
        self.penalty.as_ref()
    }

    /// How many parts of a microsecond the spans of a bucket are counted in.
    pub fn span_parts(&self) -> u64 {
        self.pace.parts()
    }

    /// The time in which a bucket fills from empty, the soft part included:
    /// whole microseconds and parts of one.
    pub fn full_span_parts(&self) -> (u64, u64) {
        self.full_span.pair()
    }

    /// The time that `cost` takes: whole microseconds and parts of one.
    pub fn cost_span_parts(&self, cost: u64) -> (u64, u64) {
        self.cost_span(cost).pair()
    }

    /// The time that `cost` takes.
    pub(crate) fn cost_span(&self, cost: u64) -> Span {
        if cost == 1 { self.one_span } else { self.pace.span(cost) }
    }

    /// The length of a sub-window, rounded up to whole microseconds; 1 µs
    /// where the algorithm has none.
    pub fn tick(&self) -> Micros {
        Micros::new(self.tick_us)
    }
}
