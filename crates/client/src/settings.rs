//! What callers choose.

use std::time::Duration;

use tollgate_core::Verdict;

use crate::backoff::Backoff;

/// How a [`crate::Client`] asks.
///
/// ```
/// use std::time::Duration;
/// use tollgate_client::{ClientSettings, WhenUnreachable};
/// let settings = ClientSettings {
///     timeout: Duration::from_millis(200),
///     when_unreachable: WhenUnreachable::Allow,
///     ..ClientSettings::default()
/// };
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSettings {
    /// How long a call may take, retries and waits included.
    pub timeout: Duration,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// When and how often a call is made again that was certainly not decided.
    pub backoff: Backoff,
    /// What is answered if the server cannot be asked.
    pub when_unreachable: WhenUnreachable,
    /// How many denials are remembered; 0 for none. One takes some 300 bytes.
    pub denials_max: usize,
    /// For how long a denial is remembered at most. Rules may be reloaded, and counters reset, before the
    /// time that was told.
    pub denial_longest: Duration,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_millis(500),
            backoff: Backoff {
                base: Duration::from_millis(20),
                longest: Duration::from_millis(500),
                retries: 3,
            },
            when_unreachable: WhenUnreachable::Error,
            denials_max: 10_000,
            denial_longest: Duration::from_secs(60),
        }
    }
}

/// What is answered if the server cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenUnreachable {
    /// An error.
    #[default]
    Error,
    /// Everything is allowed.
    Allow,
    /// Everything is denied.
    Deny {
        /// The time that callers are told to come again after.
        retry_after: Duration,
    },
}

impl WhenUnreachable {
    /// The verdict that stands in for the server's, if any does.
    pub(crate) fn verdict(self) -> Option<Verdict> {
        match self {
            Self::Error => None,
            Self::Allow => Some(Verdict::Allow),
            Self::Deny { retry_after } => Some(Verdict::Deny { retry_after: Some(retry_after.into()) }),
        }
    }
}
