//! Deciding at an instant that the adapter has read, for adapters that decide
//! several requests at one, and limits that callers bring along.

use tollgate_core::{Charge, Decision, Entry, Key, Limit, Mode, Operation, Request, Time};
use tollgate_limiter::{Batch, Store as _};

use super::{Answer, Service, ServiceError};
use crate::metrics::Failure;

/// The domain of counters whose limits callers bring along. No rule file has
/// it, so that rules and callers never share one.
const BROUGHT: &str = "\0brought";

/// What the server answers where the caller brought the limit.
#[derive(Debug, Clone, Copy)]
pub struct Throttled {
    /// What the limit says.
    pub decision: Decision,
    /// Whether the caller is told to refuse the request.
    pub is_refused: bool,
}

impl Service {
    /// Decides a request at an instant of the limiter's clock.
    ///
    /// # Errors
    /// If there is nothing to decide, or nothing to decide by.
    pub fn check_at(&self, request: &Request<'_>, now: Time) -> Result<Answer, ServiceError> {
        let refusal = match request {
            Request { domain: "", .. } => Some(ServiceError::NoDomain),
            Request { descriptors: [], .. } => Some(ServiceError::NoDescriptors),
            _ if !self.health.has_rules() => Some(ServiceError::NoRules),
            _ => None,
        };
        if let Some(error) = refusal {
            self.metrics.failed(Failure::Service);
            return Err(error);
        }
        let reply = self.limiter.operate_at(request, Operation::Check, now);
        Ok(Answer { is_refused: self.is_refused(reply.verdict.is_deny()), reply })
    }

    /// Takes `cost` from the counter `key` of a limit that the caller brings.
    pub fn throttle(&self, key: &str, limit: &Limit, cost: u64, now: Time) -> Throttled {
        let entries = [Entry { key: "", value: key }];
        let key = Key { domain: BROUGHT, entries: &entries, shared: &[], limit, ordinal: 0 };
        let (mode, operation) = (Mode::Enforce, Operation::Check);
        let mut batch = Batch::default();
        batch.charges.push(Charge { descriptor: 0, rule: None, key, mode, operation, cost });
        let decisions = self.limiter.store().check(&batch, now);
        let decision = *decisions.first().expect("a charge gets a decision");
        self.metrics.throttled(decision.verdict);
        Throttled { decision, is_refused: self.is_refused(decision.verdict.is_deny()) }
    }

    /// Whether a denial is one, as the flags of this server have it.
    fn is_refused(&self, is_denied: bool) -> bool {
        if is_denied && self.answers.shadow {
            self.metrics.global_shadow();
        }
        is_denied && !self.answers.shadow
    }
}
