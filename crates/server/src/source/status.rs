//! What is known about the rules in force, for health, metrics and pages.

use tollgate_core::Time;

/// What is known about the rules in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleStatus {
    /// Where they come from, to show.
    pub origin: String,
    /// When they were loaded; none before the first load that succeeded.
    pub loaded_at: Option<Time>,
    /// The files, or the resources of an xDS server.
    pub files: Vec<String>,
    /// How many domains.
    pub domains: usize,
    /// How many rules.
    pub rules: usize,
    /// What is odd about them.
    pub warnings: Vec<String>,
    /// Why the newest set was refused; none if the newest is in force.
    pub last_error: Option<LoadFailure>,
    /// Why nothing new can come, such as a server that cannot be reached; none if all is well.
    pub source_error: Option<String>,
    /// How many loads succeeded, ever.
    pub loads: u64,
    /// How many failed, ever.
    pub failures: u64,
}

/// Why a set was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadFailure {
    /// When.
    pub at: Time,
    /// All that is wrong, one line each.
    pub problems: Vec<String>,
    /// The first of them, each with the line of the file that it is about.
    pub excerpts: Vec<String>,
}

impl RuleStatus {
    /// Whether anything was loaded, or failed to.
    pub const fn is_decided(&self) -> bool {
        self.loads > 0 || self.failures > 0
    }

    /// Whether rules are in force.
    pub const fn is_loaded(&self) -> bool {
        self.loads > 0
    }

    /// Whether the health check may say OK: always, or where a domain is
    /// demanded, only with one.
    pub const fn is_healthy(&self, needs_domain: bool) -> bool {
        !needs_domain || self.domains > 0
    }
}
