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
    /// The same numbers by each algorithm, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithms: Option<Vec<AlgorithmRow>>,
    /// Which limits would fit, by rule, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggest: Option<Vec<SuggestRow>>,
    /// The stories of the keys that were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<Vec<KeyStory>>,
}

/// Which rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RuleNames {
    /// Its domain.
    pub domain: String,
    /// Its name.
    pub rule: String,
}

/// All rules by one algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlgorithmRow {
    /// The algorithm.
    pub algorithm: &'static str,
    /// Requests that it denies.
    pub denied: u64,
    /// Requests that it delays.
    pub delayed: u64,
    /// Keys that it denies at least once.
    pub keys_denied: u64,
    /// Why nothing was decided by it: a rule that it cannot keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_possible: Option<String>,
}

/// Which limits would fit one rule, each tried alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SuggestRow {
    /// The rule.
    #[serde(flatten)]
    pub names: RuleNames,
    /// By which all of these limits were tried.
    pub algorithm: &'static str,
    /// The rule's window, in seconds.
    pub window_s: u64,
    /// Requests that it applied to.
    pub requests: u64,
    /// Keys among them.
    pub keys: u64,
    /// The most that keys used in a window.
    pub peak: PeakUse,
    /// No more than this share is to be denied.
    pub share: String,
    /// The smallest of the limits that keeps below it.
    pub smallest: Option<u32>,
    /// From the lowest to the first that denies nothing, with the rule's own.
    pub limits: Vec<LimitRow>,
}

/// Peak use, over keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PeakUse {
    /// Half of the keys never use more.
    pub p50: u64,
    /// Nine of ten keys.
    pub p90: u64,
    /// Ninety-nine of a hundred.
    pub p99: u64,
    /// All of them.
    pub max: u64,
}

/// What one limit would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LimitRow {
    /// Requests per window.
    pub limit: u32,
    /// Keys that it would deny at least once.
    pub keys: u64,
    /// Requests that it would deny.
    pub requests: u64,
    /// It is what the rule says now.
    pub is_own: bool,
}

/// What happened to one key under one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyStory {
    /// The rule.
    #[serde(flatten)]
    pub names: RuleNames,
    /// The key, as in history.
    pub key: String,
    /// Its requests.
    pub requests: u64,
    /// Those that were denied.
    pub denied: u64,
    /// Those that were delayed.
    pub delayed: u64,
    /// Those that were let through because the limit is soft.
    pub soft: u64,
    /// Those that had got a 429 already.
    pub already_429: u64,
    /// The second of the first, since the epoch.
    pub from: u64,
    /// The second of the last.
    pub to: u64,
    /// The most that was taken at once, as the rule counts.
    pub peak: u64,
    /// What fits at once.
    pub limit: u64,
    /// The longest that it was told to wait, in milliseconds.
    pub longest_wait_ms: u64,
    /// The first times in which it was denied.
    pub episodes: Vec<Episode>,
    /// How often there were such times.
    pub episode_count: u64,
    /// What it asked for.
    pub routes: Vec<RouteRow>,
    /// Seconds between two points of the curve.
    pub step_s: u64,
    /// Its requests over time.
    pub curve: Vec<CurvePoint>,
}

/// A time in which a key was denied again and again, never a minute apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Episode {
    /// The second of the first denial, since the epoch.
    pub from: u64,
    /// The second of the last.
    pub to: u64,
    /// How many there were.
    pub denied: u64,
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
