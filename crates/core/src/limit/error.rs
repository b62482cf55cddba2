//! Why numbers make no limit.

use std::fmt;

use super::{BELOW_LOAD_MIN_PERCENT, BUCKETS_MAX, EXCEED_MAX_PERCENT, FILL_MAX, LOG_MAX, WINDOW_MAX};
use crate::time::Micros;

/// Why numbers make no limit, and what to write instead.
///
/// ```
/// use tollgate_core::{Limit, LimitError, Micros, Shape};
/// let error = Limit::new(50_000, Micros::SECOND, Shape::SlidingLog).unwrap_err();
/// assert_eq!(error, LimitError::Log { count: 50_000 });
/// assert!(error.to_string().ends_with("which needs a fixed number of sub-windows"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// The window is empty or longer than [`WINDOW_MAX`].
    Window {
        /// The window asked for.
        window: Micros,
    },
    /// A log would be longer than [`LOG_MAX`].
    Log {
        /// The entries asked for.
        count: u64,
    },
    /// The number of sub-windows is out of range.
    Buckets {
        /// The number asked for.
        buckets: u32,
    },
    /// A bucket of a size above zero that nothing refills.
    NeverRefills {
        /// The size asked for.
        burst: u32,
    },
    /// A bucket without room that something refills.
    NoBurst,
    /// Filling the bucket would take longer than [`FILL_MAX`].
    Fill {
        /// The size asked for.
        capacity: u64,
    },
    /// The soft percentage is out of range.
    Exceed {
        /// The percentage asked for.
        percent: u32,
    },
    /// A bucket flows so fast that its larger rate could not be told apart.
    TooFast {
        /// The percentage asked for.
        percent: u32,
    },
    /// The mark of an elastic limit is out of range.
    BelowLoad {
        /// The percentage asked for.
        percent: u32,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window { window } => {
                write!(f, "a window of {window} is out of range; write one from 1us to {WINDOW_MAX}")
            }
            Self::Log { count } => write!(
                f,
                "a sliding_log of {count} keeps that many entries for each key, at most {LOG_MAX} are kept; \
                 write algorithm: sliding_buckets, which needs a fixed number of sub-windows"
            ),
            Self::Buckets { buckets } => {
                write!(f, "{buckets} sub-windows are out of range; write buckets: 1 to {BUCKETS_MAX}")
            }
            Self::NeverRefills { burst } => write!(
                f,
                "a bucket of {burst} that refills with 0 would never refill; \
                 write requests_per_unit: 1 or more, or leave burst out to block everything"
            ),
            Self::NoBurst => {
                f.write_str("a token bucket with burst: 0 lets nothing through; write burst: 1 or more")
            }
            Self::Fill { capacity } => write!(
                f,
                "a bucket of {capacity} would take more than {} to fill at this rate; \
                 write a smaller burst or a shorter window",
                FILL_MAX
            ),
            Self::Exceed { percent } => {
                write!(f, "exceed: {percent}% is out of range; write 1% to {EXCEED_MAX_PERCENT}%")
            }
            Self::TooFast { percent } => write!(
                f,
                "a bucket at this rate cannot be exceeded by {percent}%, which would be rounded; \
                 write a smaller count, or a round percentage such as 50% or 100%"
            ),
            Self::BelowLoad { percent } => {
                write!(f, "below_load: {percent}% is out of range; write {BELOW_LOAD_MIN_PERCENT}% to 100%")
            }
        }
    }
}

impl std::error::Error for LimitError {}
