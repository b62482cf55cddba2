//! The limit of all requests of the gateway together.
//!
//! The gateway takes from it before it asks about a request, and gives back what does not pass: so a flood
//! that a rule denies takes nothing from others.
//!
//! Deliberately not here: a limit over several nodes, which a rule with a `generic_key` is.

use tollgate_core::{Micros, Outcome, Verdict};
use tollgate_limiter::KeyedLimiter;
use tollgate_settings::Settings;

/// The limit of all requests.
#[derive(Debug)]
pub(super) struct RequestLevel {
    limiter: KeyedLimiter<()>,
    is_shadow: bool,
}

impl RequestLevel {
    /// None if they are not limited.
    pub(super) fn new(settings: &Settings) -> Option<Self> {
        let limiter = KeyedLimiter::new(settings.levels.requests?);
        Some(Self { limiter, is_shadow: settings.replies.shadow })
    }

    /// Takes one; how it is counted, and when to come again if it is denied.
    pub(super) fn take(&self) -> (Outcome, Option<Micros>) {
        match self.limiter.check(&()).verdict {
            Verdict::Allow | Verdict::Delay { .. } => (Outcome::Allowed, None),
            Verdict::Deny { .. } if self.is_shadow => (Outcome::ShadowDenied, None),
            Verdict::Deny { retry_after } => (Outcome::Denied, Some(retry_after.unwrap_or(Micros::SECOND))),
        }
    }

    /// Gives one back.
    pub(super) fn give_back(&self) {
        self.limiter.refund(&(), 1);
    }
}
