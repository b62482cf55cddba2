//! Whether this server wants calls.
//!
//! Fed by the rule source, by the store and by the end of the process; read by
//! `grpc.health.v1`, by `/healthcheck` and by the admin pages.
//!
//! Invariant: once stopping, never healthy again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::source::RuleStatus;

/// Whether this server wants calls.
#[derive(Debug)]
pub struct Health {
    needs_domain: bool,
    starts_without_rules: bool,
    /// Set the moment rules are in force; `rules` is updated a little later.
    in_force: AtomicBool,
    rules: ArcSwap<RuleStatus>,
    state: watch::Sender<HealthState>,
}

/// What health depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthState {
    /// The rules are as they should be.
    pub config: bool,
    /// The store answers; while it does not, limits do what their rules say.
    pub store: bool,
    /// Without the store this server wants no calls.
    pub needs_store: bool,
    /// The process is about to end.
    pub stopping: bool,
}

impl HealthState {
    /// Whether all is well.
    pub const fn is_healthy(self) -> bool {
        self.config && !self.stopping && (self.store || !self.needs_store)
    }
}

impl Health {
    /// The health of a server without rules as yet; `needs_domain` if it is
    /// healthy only with rules for at least one domain.
    pub fn new(needs_domain: bool) -> Self {
        Self {
            needs_domain,
            starts_without_rules: false,
            in_force: AtomicBool::new(false),
            rules: ArcSwap::default(),
            state: watch::Sender::new(HealthState {
                config: false,
                store: true,
                needs_store: false,
                stopping: false,
            }),
        }
    }

    /// The same, healthy before the first rules are loaded if `starts`.
    #[must_use]
    pub fn starting_without_rules(mut self, starts: bool) -> Self {
        self.starts_without_rules = starts;
        self.set_rules(RuleStatus::default());
        self
    }

    /// The same, healthy only while the store answers if `needs`.
    #[must_use]
    pub fn needing_store(self, needs: bool) -> Self {
        self.state.send_modify(|state| state.needs_store = needs);
        self
    }

    /// Whether the store answers.
    pub fn set_store_up(&self, well: bool) {
        self.state.send_if_modified(|state| std::mem::replace(&mut state.store, well) != well);
    }

    /// Rules are in force; [`Health::set_rules`] says later which.
    pub fn set_rules_in_force(&self) {
        self.in_force.store(true, Ordering::Release);
    }

    /// Rules were loaded or refused.
    pub fn set_rules(&self, status: RuleStatus) {
        let is_started = status.is_loaded() || self.starts_without_rules;
        let config = is_started && status.is_healthy(self.needs_domain);
        self.rules.store(Arc::new(status));
        self.state.send_if_modified(|state| std::mem::replace(&mut state.config, config) != config);
    }

    /// The process is about to end.
    pub fn stop(&self) {
        self.state.send_if_modified(|state| !std::mem::replace(&mut state.stopping, true));
    }

    /// How it is now.
    pub fn state(&self) -> HealthState {
        *self.state.borrow()
    }

    /// Follows how it is.
    pub fn watch(&self) -> watch::Receiver<HealthState> {
        self.state.subscribe()
    }

    /// What is known about the rules.
    pub fn rules(&self) -> Arc<RuleStatus> {
        self.rules.load_full()
    }

    /// Whether rules are in force.
    pub fn has_rules(&self) -> bool {
        self.in_force.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demanded_domain_makes_the_difference_and_stopping_is_final() {
        let health = Health::new(true);
        assert!(!health.state().is_healthy());
        health.set_rules(RuleStatus { domains: 1, loads: 1, ..RuleStatus::default() });
        assert!(health.state().is_healthy());
        health.set_rules(RuleStatus { domains: 0, loads: 2, ..RuleStatus::default() });
        assert!(!health.state().is_healthy());
        health.stop();
        health.set_rules(RuleStatus { domains: 1, loads: 3, ..RuleStatus::default() });
        assert!(!health.state().is_healthy());
    }

    #[test]
    fn a_lost_store_makes_ill_only_those_who_need_it() {
        for (needs, healthy) in [(false, true), (true, false)] {
            let health = Health::new(false).starting_without_rules(true).needing_store(needs);
            assert!(health.state().is_healthy());
            health.set_store_up(false);
            assert_eq!(health.state().is_healthy(), healthy, "{needs}");
            health.set_store_up(true);
            assert!(health.state().is_healthy());
        }
    }

    #[test]
    fn a_server_is_healthy_without_rules_only_if_it_may_start_so() {
        assert!(!Health::new(false).state().is_healthy());
        assert!(Health::new(false).starting_without_rules(true).state().is_healthy());
        assert!(!Health::new(true).starting_without_rules(true).state().is_healthy());
    }
}
