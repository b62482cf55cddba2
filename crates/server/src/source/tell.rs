//! Hands an outcome on, logs it, and keeps the status.
//!
//! After loading, whatever the rules came from.

use std::sync::Arc;

use tokio::sync::watch;
use tollgate_limiter::Clock;
use tollgate_rules::{LoadError, Loaded};

use super::files::EXAMPLE_NAME;
use super::status::{Failure, RuleStatus};

/// The most lines about one set that are logged; the status has all of them.
const LINES_MAX: usize = 50;

/// Tells outcomes.
pub(super) struct Teller<F> {
    on_load: F,
    pub(super) clock: Arc<dyn Clock>,
    status: watch::Sender<RuleStatus>,
}

/// What an outcome is about.
pub(super) struct About {
    /// Where the rules come from, to show.
    pub(super) origin: String,
    /// The files or resources.
    pub(super) files: Vec<String>,
    /// What is to be said besides what loading says.
    pub(super) warnings: Vec<String>,
}

impl<F: FnMut(Result<Loaded, LoadError>)> Teller<F> {
    pub(super) fn new(on_load: F, clock: Arc<dyn Clock>, status: watch::Sender<RuleStatus>) -> Self {
        Self { on_load, clock, status }
    }

    /// Whether rules are in force.
    pub(super) fn has_rules(&self) -> bool {
        self.status.borrow().is_loaded()
    }

    /// Says where rules will come from.
    pub(super) fn begin(&mut self, origin: &str) {
        self.status.send_modify(|status| origin.clone_into(&mut status.origin));
    }

    /// Says that nothing new can come, and why, or that all is well; whether
    /// that is news.
    pub(super) fn source_is(&mut self, error: Option<String>) -> bool {
        self.status.send_if_modified(|status| {
            let is_other = status.source_error != error;
            status.source_error = error;
            is_other
        })
    }

    /// Hands rules or a refusal on.
    pub(super) fn tell(&mut self, about: About, outcome: Result<Loaded, LoadError>) {
        match outcome {
            Ok(loaded) => self.loaded(about, loaded),
            Err(error) => self.refused(&about, error),
        }
    }

    fn loaded(&mut self, about: About, loaded: Loaded) {
        let About { origin, files, mut warnings } = about;
        let (domains, rules) = (loaded.rules.domains().count(), loaded.rules.rules().len());
        warnings.extend(loaded.warnings.iter().map(ToString::to_string));
        if origin == EXAMPLE_NAME {
            tracing::warn!(
                "no rules found, so the built-in example is served; write rule files into ./rules, \
                 or name them with --rules"
            );
        }
        tracing::info!(%origin, files = files.len(), domains, rules, "rules loaded");
        for warning in warnings.iter().take(LINES_MAX) {
            tracing::warn!("{warning}");
        }
        (self.on_load)(Ok(loaded));
        let at = self.clock.now();
        self.status.send_modify(|status| {
            *status = RuleStatus {
                origin,
                loaded_at: Some(at),
                files,
                domains,
                rules,
                warnings,
                last_error: None,
                source_error: None,
                loads: status.loads + 1,
                failures: status.failures,
            };
        });
    }

    fn refused(&mut self, about: &About, error: LoadError) {
        let problems: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
        let origin = &about.origin;
        if self.has_rules() {
            tracing::error!(%origin, problems = problems.len(), "rules refused; those in force stay");
        } else {
            tracing::error!(%origin, problems = problems.len(), "rules refused; there are none in force");
        }
        for problem in problems.iter().take(LINES_MAX) {
            tracing::error!("{problem}");
        }
        (self.on_load)(Err(error));
        let at = self.clock.now();
        self.status.send_modify(|status| {
            if status.loads == 0 {
                status.origin.clone_from(origin);
            }
            status.last_error = Some(Failure { at, problems });
            status.failures += 1;
        });
    }
}
