//! The answer, as programs read it: `tollgate replay --format json` prints it as it is.
//!
//! Invariant: lists are sorted by denied, most first, then by requests and name, so that the same log
//! gives the same report.

use serde::Serialize;

/// Who would have been limited, and by what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
    /// Lines that were read, comments left out.
    pub lines: u64,
    /// Requests among them.
    pub requests: u64,
    /// Lines that are no request.
    pub not_understood: u64,
    /// The first of these.
    pub examples_not_understood: Vec<String>,
    /// Lines too far out of order to be sorted.
    pub late: u64,
    /// Requests that the mapping denies by itself, whatever the rules say.
    pub denied_by_mapping: u64,
    /// Requests that had got a 429 already.
    pub already_429: u64,
    /// The second of the first request, since the epoch.
    pub from: u64,
    /// The second of the last.
    pub to: u64,
    /// Requests that the rules deny.
    pub denied: u64,
    /// Requests that they delay.
    pub delayed: u64,
    /// How requests of one second were put in it: `even` or `none`.
    pub spread: &'static str,
    /// The formats of the logs.
    pub formats: Vec<String>,
    /// More keys than can be told apart; lists of keys are incomplete.
    pub keys_beyond_bound: bool,
    /// What each rule did.
    pub rules: Vec<RuleRow>,
    /// What it did to whom.
    pub keys: Vec<KeyRow>,
    /// What was asked for.
    pub routes: Vec<RouteRow>,
    /// Seconds between two points of the curve.
    pub step_s: u64,
    /// Requests over time.
    pub curve: Vec<CurvePoint>,
    /// What is different from the other rules; none if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<RuleChange>,
}

/// What a rule did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleRow {
    /// Its domain.
    pub domain: String,
    /// Its name.
    pub rule: String,
    /// Requests that it applied to.
    pub requests: u64,
    /// Those that it denied; that it would have denied, in shadow mode.
    pub denied: u64,
    /// Those that it delayed.
    pub delayed: u64,
    /// Keys that it applied to.
    pub keys: u64,
    /// Those that it denied at least once.
    pub keys_denied: u64,
    /// It only watches.
    pub shadow: bool,
}

/// What a rule did to a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyRow {
    /// The domain.
    pub domain: String,
    /// The rule.
    pub rule: String,
    /// The key, as in history.
    pub key: String,
    /// Its requests.
    pub requests: u64,
    /// Those that were denied.
    pub denied: u64,
    /// Those that were delayed.
    pub delayed: u64,
}

/// What happened to a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RouteRow {
    /// The path, by template where the mapping has one.
    pub route: String,
    /// Its requests.
    pub requests: u64,
    /// Those that were denied.
    pub denied: u64,
    /// Those that were delayed.
    pub delayed: u64,
}

/// A point of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CurvePoint {
    /// Its second, since the epoch.
    pub at: u64,
    /// Requests in this step.
    pub requests: u64,
    /// Those that were denied.
    pub denied: u64,
    /// Those that were delayed.
    pub delayed: u64,
}

/// What is different from the other rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RuleChange {
    /// Requests that the other rules deny.
    pub denied: u64,
    /// Requests that only the new rules deny.
    pub newly_denied: u64,
    /// Requests that only the other rules deny.
    pub newly_allowed: u64,
    /// For whom, by the rule that denies.
    pub keys: Vec<ChangedKey>,
}

/// A key for which something is different.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedKey {
    /// The domain.
    pub domain: String,
    /// The rule that denies: a new one, or an old one that no longer does.
    pub rule: String,
    /// The key.
    pub key: String,
    /// Requests that only the new rules deny.
    pub newly_denied: u64,
    /// Requests that only the other rules deny.
    pub newly_allowed: u64,
}
