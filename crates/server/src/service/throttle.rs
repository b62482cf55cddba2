//! Limits that callers bring along, whole, with the name of a counter.

use tollgate_core::{Charge, Decision, Entry, Key, Limit, Mode, Operation, Time};
use tollgate_limiter::{ChargeSet, RemoteStore as _};

use super::Service;

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
    /// Takes `cost` from the counter `key` of a limit that the caller brings,
    /// at an instant of the limiter's clock.
    pub async fn throttle(&self, key: &str, limit: &Limit, cost: u64, now: Time) -> Throttled {
        let name = key;
        let entries = [Entry { key: "", value: name }];
        let key = Key { domain: BROUGHT, entries: &entries, shared: &[], limit, ordinal: 0 };
        let (mode, operation) = (Mode::Enforce, Operation::Check);
        let mut batch = ChargeSet::default();
        batch.charges.push(Charge { descriptor: 0, rule: None, key, mode, operation, cost });
        let answer = self.limiter.store().check(&batch, now).await;
        let decision = *answer.decisions.first().expect("a charge gets a decision");
        self.sinks.throttled(name, decision.verdict, now);
        Throttled { decision, is_refused: self.is_refused(decision.verdict) }
    }
}
