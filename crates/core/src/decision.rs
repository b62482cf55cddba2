//! Yes, later, or no, and what goes with it.
//!
//! Made by [`crate::decide`]; a reply is put together from these.
//!
//! Deliberately not here: headers, status codes and other wire words.

use crate::time::Micros;

/// The answer: now, later, or not.
///
/// ```
/// use tollgate_core::{Micros, Verdict};
/// assert_eq!(Verdict::Delay { wait: Micros::SECOND }.word(), "delay");
/// assert!(Verdict::Deny { retry_after: None }.is_deny());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go ahead.
    Allow,
    /// Go ahead after this wait; the place in the queue is taken.
    Delay {
        /// How long to hold the request; never zero.
        wait: Micros,
    },
    /// Denied.
    Deny {
        /// When the same request would pass, nothing else happening;
        /// `None` if this cost can never pass.
        retry_after: Option<Micros>,
    },
}

impl Verdict {
    /// Whether the request may not go ahead, not even later.
    pub const fn is_deny(self) -> bool {
        matches!(self, Self::Deny { .. })
    }

    /// How long the same charge stays denied: nothing if it is not,
    /// [`Micros::MAX`] if for ever.
    pub const fn blocked_for(self) -> Micros {
        match self {
            Self::Allow | Self::Delay { .. } => Micros::ZERO,
            Self::Deny { retry_after: Some(span) } => span,
            Self::Deny { retry_after: None } => Micros::MAX,
        }
    }

    /// The word users see: `allow`, `delay` or `deny`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Delay { .. } => "delay",
            Self::Deny { .. } => "deny",
        }
    }
}

/// The answer for one charge.
///
/// ```
/// use tollgate_core::{Limit, Micros, Operation, Shape, Time, decide};
/// let limit = Limit::new(10, Micros::from_secs(60), Shape::FixedWindow)?;
/// let (decision, _) = decide(None, &limit, Time::from_secs(15), Operation::Check, 3);
/// assert_eq!((decision.limit, decision.used, decision.remaining), (10, 3, 7));
/// assert_eq!(decision.reset_after, Micros::from_secs(45));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Now, later, or not.
    pub verdict: Verdict,
    /// What fits at most; `remaining` never exceeds it.
    pub limit: u64,
    /// What is taken after this decision; more than `limit` in debt or when
    /// rejected requests count.
    pub used: u64,
    /// How many requests of cost 1 would still pass at this instant.
    pub remaining: u64,
    /// When the key is as good as new, nothing else happening. A fixed window
    /// tells the end of the window.
    pub reset_after: Micros,
    /// Allowed only because the limit is soft.
    pub soft: bool,
    /// How long the whole request stays denied on account of this charge: the
    /// time of a denial, and more where charges of one request share a counter
    /// or a denied request was counted. [`Micros::MAX`] is for ever.
    pub blocked_for: Micros,
}
