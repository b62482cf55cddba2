//! What callers of [`super::OutgoingLayer`] choose.

use std::time::Duration;

use crate::backoff::Backoff;

/// How calls are held back, made again and kept.
///
/// ```
/// use std::time::Duration;
/// use tollgate_client::OutgoingSettings;
/// let settings = OutgoingSettings { max_wait: Duration::from_secs(5), ..OutgoingSettings::default() };
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingSettings {
    /// How long a call waits in all, before it is sent and between retries. A call that would have to wait
    /// longer is answered at once: with what the server said last, or with [`super::NotSent`].
    pub max_wait: Duration,
    /// When and how often a call is made again.
    pub backoff: Backoff,
    /// How many retries there may be, all calls together.
    pub budget: RetryBudget,
    /// Calls are spread over the rest of the window once less than this share of the quota is left.
    pub slow_below_percent: u8,
    /// Answers are kept and used again as HTTP allows; none for no cache.
    pub cache: Option<CacheSettings>,
}

impl Default for OutgoingSettings {
    fn default() -> Self {
        Self {
            max_wait: Duration::from_secs(30),
            backoff: Backoff {
                base: Duration::from_millis(200),
                longest: Duration::from_secs(10),
                retries: 3,
            },
            budget: RetryBudget { reserve: 10, percent: 20 },
            slow_below_percent: 20,
            cache: Some(CacheSettings { bytes_max: 16 << 20, body_max: 1 << 20, is_shared: true }),
        }
    }
}

/// Retries are paid for by calls that are sent: there are never more than `reserve` + `percent` % of them so
/// far, and after quiet times not more than `reserve` at once. What the cache answers pays for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBudget {
    /// As many retries are always saved up at first, and at most.
    pub reserve: u32,
    /// What each call that is sent adds, in hundredths of a retry.
    pub percent: u32,
}

/// What answers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    /// Bytes of all answers together.
    pub bytes_max: usize,
    /// A longer body is not kept.
    pub body_max: usize,
    /// Calls are made for several people, so that answers marked `private` are not kept, nor those to a
    /// request with `Authorization` unless they say so.
    pub is_shared: bool,
}
