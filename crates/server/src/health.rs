//! Whether this server wants to be asked.
//!
//! Fed by the rule source and by the end of the process; read by
//! `grpc.health.v1`, by `/healthcheck` and by the admin pages.
//!
//! Invariant: once stopping, never healthy again.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::source::RuleStatus;

/// Whether this server wants to be asked.
#[derive(Debug)]
pub struct Health {
    needs_domain: bool,
    rules: ArcSwap<RuleStatus>,
    state: watch::Sender<State>,
}

/// What is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The rules are as they should be.
    pub config: bool,
    /// The process is about to end.
    pub stopping: bool,
}

impl State {
    /// Whether all is well.
    pub const fn is_healthy(self) -> bool {
        self.config && !self.stopping
    }
}

impl Health {
    /// The health of a server without rules as yet; `needs_domain` if it is
    /// healthy only with rules for at least one domain.
    pub fn new(needs_domain: bool) -> Self {
        let rules = RuleStatus::default();
        let state = State { config: rules.is_healthy(needs_domain), stopping: false };
        Self { needs_domain, rules: ArcSwap::from_pointee(rules), state: watch::Sender::new(state) }
    }

    /// Takes note of rules that were loaded or refused.
    pub fn rules_are(&self, status: RuleStatus) {
        let config = status.is_healthy(self.needs_domain);
        self.rules.store(Arc::new(status));
        self.state.send_if_modified(|state| std::mem::replace(&mut state.config, config) != config);
    }

    /// Takes note that the process is about to end.
    pub fn stop(&self) {
        self.state.send_if_modified(|state| !std::mem::replace(&mut state.stopping, true));
    }

    /// How it is now.
    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Follows how it is.
    pub fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// What is known about the rules.
    pub fn rules(&self) -> Arc<RuleStatus> {
        self.rules.load_full()
    }

    /// Whether rules are in force.
    pub fn has_rules(&self) -> bool {
        self.rules.load().is_loaded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demanded_domain_makes_the_difference_and_stopping_is_final() {
        let health = Health::new(true);
        assert!(!health.state().is_healthy());
        health.rules_are(RuleStatus { domains: 1, loads: 1, ..RuleStatus::default() });
        assert!(health.state().is_healthy());
        health.rules_are(RuleStatus { domains: 0, loads: 2, ..RuleStatus::default() });
        assert!(!health.state().is_healthy());
        health.stop();
        health.rules_are(RuleStatus { domains: 1, loads: 3, ..RuleStatus::default() });
        assert!(!health.state().is_healthy());
    }

    #[test]
    fn without_demand_no_rules_are_healthy_too() {
        assert!(Health::new(false).state().is_healthy());
    }
}
