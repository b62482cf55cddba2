//! Hands a loaded or refused set on, logs it, and updates the status.
//!
//! After loading, whatever the rules came from.

use std::sync::Arc;

use tokio::sync::watch;
use tollgate_limiter::Clock;
use tollgate_rules::{LoadError, Loaded};
use tollgate_yaml::Problem;

use super::files::EXAMPLE_NAME;
use super::status::{LoadFailure, RuleStatus};

/// The most lines about one set that are logged; the status has all of them.
const LINES_MAX: usize = 50;

/// Hands results on to whoever puts rules in force.
pub(super) struct LoadReporter<F> {
    on_load: F,
    pub(super) clock: Arc<dyn Clock>,
    status: watch::Sender<RuleStatus>,
}

/// Where a set of rules came from.
pub(super) struct LoadOrigin {
    /// Where the rules come from, to show.
    pub(super) origin: String,
    /// The files or resources.
    pub(super) files: Vec<String>,
    /// Warnings besides those of loading.
    pub(super) warnings: Vec<String>,
}

impl<F: FnMut(Result<Loaded, LoadError>)> LoadReporter<F> {
    pub(super) fn new(on_load: F, clock: Arc<dyn Clock>, status: watch::Sender<RuleStatus>) -> Self {
        Self { on_load, clock, status }
    }

    /// Whether rules are in force.
    pub(super) fn has_rules(&self) -> bool {
        self.status.borrow().is_loaded()
    }

    /// Where rules will come from.
    pub(super) fn set_origin(&mut self, origin: &str) {
        self.status.send_modify(|status| origin.clone_into(&mut status.origin));
    }

    /// Why nothing new can come, or none if all is well; whether this differs
    /// from what was reported last.
    pub(super) fn set_source_error(&mut self, error: Option<String>) -> bool {
        self.status.send_if_modified(|status| {
            let is_other = status.source_error != error;
            status.source_error = error;
            is_other
        })
    }

    /// Hands rules on, or why they were refused.
    pub(super) fn report(&mut self, from: LoadOrigin, result: Result<Loaded, LoadError>) {
        match result {
            Ok(loaded) => self.loaded(from, loaded),
            Err(error) => self.refused(&from, error),
        }
    }

    fn loaded(&mut self, from: LoadOrigin, loaded: Loaded) {
        let LoadOrigin { origin, files, mut warnings } = from;
        let (domains, rules) = (loaded.rules.domains().count(), loaded.rules.rules().len());
        warnings.extend(loaded.warnings.iter().map(ToString::to_string));
        // Before the log says so: whoever reads it there may ask at once.
        (self.on_load)(Ok(loaded));
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

    fn refused(&mut self, from: &LoadOrigin, error: LoadError) {
        let problems: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
        let excerpts = error.problems.iter().take(LINES_MAX).map(Problem::render).collect();
        let origin = &from.origin;
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
            status.last_error = Some(LoadFailure { at, problems, excerpts });
            status.failures += 1;
        });
    }
}
