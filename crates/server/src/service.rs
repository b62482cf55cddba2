//! The one thing that adapters call.
//!
//! An adapter hands over a [`Request`] and gets an [`Answer`]: what the limiter
//! replied, and what the flags of this server make of it. Counting what went
//! wrong happens here too, so that adapters only decode and encode.
//!
//! Deliberately not here: wire formats, and the limits themselves.

mod sinks;
mod throttle;

use std::sync::Arc;

use tollgate_core::ruleset::Free;
use tollgate_core::{Micros, Operation, Request, Time, Verdict};
use tollgate_limiter::{Clock as _, Limiter, Reply, RuleDecision, SystemClock};

use crate::health::Health;
use crate::history::Keeper;
use crate::store::AnyStore;
use crate::telemetry::Tracer;
use tollgate_metrics::{Failure, Metrics};
use tollgate_settings::{Answers, Settings};

pub use sinks::Sinks;
pub use throttle::Throttled;

/// The limiter as this server runs it.
pub type Engine = Limiter<AnyStore, SystemClock, Sinks>;

/// The one thing that adapters call.
#[derive(Debug)]
pub struct Service {
    limiter: Engine,
    sinks: Sinks,
    health: Arc<Health>,
    tracer: Tracer,
    answers: Answers,
    count_rejected: bool,
}

/// Why a request is not decided at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// No domain.
    #[error("the domain is empty; send the domain of a rule file")]
    NoDomain,
    /// No descriptors.
    #[error("there are no descriptors; send at least one")]
    NoDescriptors,
    /// No rules as yet.
    #[error("no rules are loaded yet; see the log or /healthcheck?verbose for the reason")]
    NoRules,
}

/// What the server answers.
#[derive(Debug)]
pub struct Answer {
    /// What the limiter replied.
    pub reply: Reply,
    /// Whether the caller is told to refuse the request.
    pub is_refused: bool,
}

/// What there is to tell about one descriptor.
#[derive(Debug, Clone, Copy)]
pub enum Shown<'a> {
    /// No rule applies.
    Free,
    /// A rule says that it is not limited.
    Unlimited,
    /// The decision that matters most for it.
    Ruled(&'a RuleDecision),
}

impl Service {
    /// A service without rules as yet.
    pub fn new(
        settings: &Settings,
        store: AnyStore,
        sinks: impl Into<Sinks>,
        health: Arc<Health>,
        tracer: Tracer,
    ) -> Self {
        let sinks = sinks.into();
        let limiter =
            Limiter::with(tollgate_core::RuleSet::default(), store, SystemClock::new(), sinks.clone())
                .with_all_quota(settings.answers.quota);
        Self {
            limiter,
            sinks,
            health,
            tracer,
            answers: settings.answers.clone(),
            count_rejected: !settings.rules.stop_counting_rejected,
        }
    }

    /// Check, peek, report or refund. It may have to wait for the store, never
    /// longer than the store's timeout.
    ///
    /// # Errors
    /// If there is nothing to decide, or nothing to decide by.
    pub async fn operate(&self, request: &Request<'_>, operation: Operation) -> Result<Answer, ServiceError> {
        self.operate_at(request, operation, self.now()).await
    }

    /// The same at an instant of the limiter's clock, for adapters that decide
    /// several requests at one.
    ///
    /// # Errors
    /// If there is nothing to decide, or nothing to decide by.
    pub async fn operate_at(
        &self,
        request: &Request<'_>,
        operation: Operation,
        now: Time,
    ) -> Result<Answer, ServiceError> {
        self.decidable(request)?;
        let reply = self.limiter.operate_remote_at(request, operation, now).await;
        Ok(Answer { is_refused: self.is_refused(reply.verdict), reply })
    }

    /// Checks for a caller who holds what is delayed for no longer than
    /// `patience`; what would have to wait longer is refused and takes nothing.
    ///
    /// # Errors
    /// If there is nothing to decide, or nothing to decide by.
    pub async fn check_within(
        &self,
        request: &Request<'_>,
        patience: Micros,
    ) -> Result<Answer, ServiceError> {
        self.decidable(request)?;
        let reply = self.limiter.check_remote_within(request, self.now(), patience).await;
        Ok(Answer { is_refused: self.is_refused(reply.verdict), reply })
    }

    /// Forgets what the counters of this request hold; how many held anything.
    ///
    /// # Errors
    /// If there is nothing to forget, or no rules that say where it is.
    pub async fn reset(&self, request: &Request<'_>) -> Result<usize, ServiceError> {
        self.decidable(request)?;
        Ok(self.limiter.reset_remote(request).await)
    }

    /// Whether there is something to decide, and something to decide by.
    fn decidable(&self, request: &Request<'_>) -> Result<(), ServiceError> {
        let refusal = if request.domain.is_empty() {
            Some(ServiceError::NoDomain)
        } else if request.descriptors.is_empty() {
            Some(ServiceError::NoDescriptors)
        } else if !self.health.has_rules() {
            Some(ServiceError::NoRules)
        } else {
            None
        };
        let Some(error) = refusal else { return Ok(()) };
        self.sinks.metrics.failed(Failure::Service);
        Err(error)
    }

    /// Whether a denial is one, as the flags of this server have it.
    fn is_refused(&self, verdict: Verdict) -> bool {
        if verdict.is_deny() && self.answers.shadow {
            self.sinks.metrics.global_shadow();
        }
        verdict.is_deny() && !self.answers.shadow
    }

    /// How requests are answered.
    pub const fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Whether a limit that the caller brings along counts what it rejects.
    pub const fn counts_rejected(&self) -> bool {
        self.count_rejected
    }

    /// The limiter.
    pub const fn limiter(&self) -> &Engine {
        &self.limiter
    }

    /// What is counted.
    pub const fn metrics(&self) -> &Arc<Metrics> {
        &self.sinks.metrics
    }

    /// What is remembered, if anything is.
    pub const fn history(&self) -> Option<&Arc<Keeper>> {
        self.sinks.history.as_ref()
    }

    /// What makes spans of calls.
    pub const fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// How the server is.
    pub const fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// The time, by the limiter's clock.
    pub fn now(&self) -> Time {
        self.limiter.clock().now()
    }
}

impl Answer {
    /// What there is to tell about a descriptor. Of several limits it is the
    /// one that denies, longest wait first, or else the one with the least left.
    pub fn shown(&self, descriptor: usize) -> Shown<'_> {
        match self.reply.free.get(descriptor) {
            Some(Some(Free::Unlimited)) => return Shown::Unlimited,
            Some(Some(Free::NoRule | Free::UnknownDomain | Free::Replaced)) => return Shown::Free,
            Some(None) | None => {}
        }
        let own = || self.reply.decisions.iter().filter(move |decision| decision.descriptor == descriptor);
        let denying =
            own().filter(|decision| is_denying(decision)).max_by_key(|decision| match decision.verdict {
                Verdict::Deny { retry_after } => retry_after.unwrap_or(Micros::MAX),
                Verdict::Allow | Verdict::Delay { .. } => Micros::ZERO,
            });
        denying.or_else(|| own().min_by_key(|decision| decision.remaining)).map_or(Shown::Free, Shown::Ruled)
    }
}

/// Whether a decision says no and is not in the shadow.
pub const fn is_denying(decision: &RuleDecision) -> bool {
    decision.verdict.is_deny() && !decision.mode.is_shadow()
}
