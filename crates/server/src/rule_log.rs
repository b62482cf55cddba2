//! What changed in the rules, and when: which limit was in force at an earlier time.
//!
//! The wiring tells it of every load; the pages of the rules read it. Beside a history that is
//! kept in a folder it is a file there, and so outlives the process; otherwise it begins with
//! the process.
//!
//! Invariants: a rule that is in force has its newest change here, unless there are more rules than
//! `RULES_MAX`; everything else is dropped, the oldest first, to stay within the bounds.
//!
//! Deliberately not here: the rules themselves, and who changed them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tollgate_core::list::{ExceptionList, ExceptionLists};
use tollgate_core::{Mode, OverLimit, Rule, RuleSet, Time};
use tollgate_rules::LoadError;
use utoipa::ToSchema;

/// The file, beside the history.
const FILE: &str = "rule-log.json";
/// What it is written to before it takes its name.
const NEW_FILE: &str = "rule-log.json.new";
/// Loads that are remembered: half a year of one a day.
const LOADS_MAX: usize = 200;
/// Rules whose changes are remembered; at worst 12 MB with all their changes.
const RULES_MAX: usize = 5_000;
/// Changes of one rule.
const CHANGES_MAX: usize = 20;
/// What is remembered of why a load was refused.
const PROBLEMS_MAX: usize = 3;

/// What changed in the rules, and when.
#[derive(Debug, Default)]
pub struct RuleLog {
    state: Mutex<RuleLogState>,
    /// None if it is not kept.
    folder: Option<PathBuf>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct RuleLogState {
    /// The oldest first.
    loads: VecDeque<RuleLoad>,
    /// By [`rule_key`]; the oldest change first.
    rules: BTreeMap<String, Vec<LimitChange>>,
    /// The lists of each domain that has any, as last seen.
    #[serde(default)]
    lists: BTreeMap<String, String>,
    #[serde(skip)]
    has_loaded: bool,
    #[serde(skip)]
    has_failed: bool,
}

/// One load of the rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleLoad {
    /// When, in seconds since 1970.
    pub at_unix_s: u64,
    /// It is the first since the server was started.
    pub start: bool,
    /// How many rules it had; 0 if it was refused.
    pub rules: usize,
    /// Rules that were not there before.
    pub added: usize,
    /// Rules whose limit or lists are others than before.
    pub changed: usize,
    /// Domains whose own lists are others than before.
    #[serde(default)]
    pub lists: usize,
    /// Rules that were there before.
    pub removed: usize,
    /// Why it was refused, the first few problems; empty if it was not.
    pub problems: Vec<String>,
}

/// A limit came into force, or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitChange {
    /// When, in seconds since 1970.
    pub at_unix_s: u64,
    /// The limit from then on; absent if the rule was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub limit: Option<LoggedLimit>,
}

/// The numbers of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoggedLimit {
    /// The algorithm.
    pub algorithm: String,
    /// How many in a window.
    pub requests_per_unit: u32,
    /// The unit of the window.
    pub unit: String,
    /// How many units the window is long.
    pub unit_multiplier: u32,
    /// The window, in milliseconds.
    pub window_ms: u64,
    /// The size of the bucket, or of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub burst: Option<u32>,
    /// By how many percent it may be exceeded; 0 for a hard limit.
    pub soft_percent: u32,
    /// By how many percent it may be exceeded below which load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub elastic: Option<String>,
    /// What becomes of whoever it denies too often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub penalty: Option<String>,
    /// `defer` if what it has no room for is sent later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub over_limit: Option<String>,
    /// How many are let pass whatever is counted, and a fingerprint of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub allow: Option<String>,
    /// The same for those who get nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub deny: Option<String>,
    /// `enforce`, `shadow`, `quota` or `shadow_quota`.
    pub mode: String,
}

impl LoggedLimit {
    fn of(rule: &Rule) -> Self {
        Self {
            algorithm: rule.limit.algorithm().name().to_owned(),
            requests_per_unit: rule.limit.count(),
            unit: rule.unit.name().to_owned(),
            unit_multiplier: rule.unit_multiplier,
            window_ms: rule.limit.window().as_millis_ceil(),
            burst: rule.limit.shape().parameters().burst,
            soft_percent: rule.limit.exceed_percent(),
            elastic: rule.elastic.as_deref().map(|elastic| {
                format!("{}% below {}%", elastic.limit.exceed_percent(), elastic.below_load_percent)
            }),
            penalty: rule.limit.penalty().map(ToString::to_string),
            over_limit: (rule.over_limit != OverLimit::Deny).then(|| rule.over_limit.name().to_owned()),
            allow: rule.lists.as_deref().and_then(|lists| list_text(&lists.allow)),
            deny: rule.lists.as_deref().and_then(|lists| list_text(&lists.deny)),
            mode: mode_name(rule.mode).to_owned(),
        }
    }
}

impl RuleLog {
    /// A log that goes on with the one in a folder, if there is one.
    pub fn in_folder(folder: PathBuf) -> Self {
        let state = match std::fs::read(folder.join(FILE)) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!("{} cannot be read, and is begun anew: {error}", folder.join(FILE).display());
                RuleLogState::default()
            }),
            Err(_) => RuleLogState::default(),
        };
        Self { state: Mutex::new(state), folder: Some(folder) }
    }

    /// Rules came into force. `is_owner` if the folder is this process' own to write to.
    pub fn loaded(&self, rules: &RuleSet, now: Time, is_owner: bool) {
        let mut state = self.state.lock();
        let at_unix_s = now.get() / 1_000_000;
        let (added, changed, removed) = state.compare(rules, at_unix_s);
        let load = RuleLoad {
            at_unix_s,
            start: !std::mem::replace(&mut state.has_loaded, true),
            rules: rules.rules().len(),
            added,
            changed,
            lists: state.compare_lists(rules),
            removed,
            problems: Vec::new(),
        };
        self.note(&mut state, load, is_owner);
    }

    /// Rules were refused.
    pub fn refused(&self, error: &LoadError, now: Time, is_owner: bool) {
        let mut state = self.state.lock();
        let problems = error.problems.iter().take(PROBLEMS_MAX).map(ToString::to_string).collect();
        let (at_unix_s, start) = (now.get() / 1_000_000, !state.has_loaded);
        let load =
            RuleLoad { at_unix_s, start, rules: 0, added: 0, changed: 0, lists: 0, removed: 0, problems };
        self.note(&mut state, load, is_owner);
    }

    fn note(&self, state: &mut RuleLogState, load: RuleLoad, is_owner: bool) {
        state.loads.push_back(load);
        while state.loads.len() > LOADS_MAX {
            state.loads.pop_front();
        }
        let Some(folder) = self.folder.as_ref().filter(|_| is_owner) else { return };
        match write(folder, state) {
            Ok(()) => state.has_failed = false,
            Err(error) => {
                if !std::mem::replace(&mut state.has_failed, true) {
                    tracing::warn!(
                        "cannot remember what changed in the rules: {}: {error}",
                        folder.display()
                    );
                }
            }
        }
    }

    /// All loads that are remembered, the newest first.
    pub fn loads(&self) -> Vec<RuleLoad> {
        self.state.lock().loads.iter().rev().cloned().collect()
    }

    /// What is remembered of one rule, the oldest first.
    pub fn changes(&self, path: &str, name: &str) -> Vec<LimitChange> {
        self.state.lock().rules.get(&rule_key(path, name)).cloned().unwrap_or_default()
    }
}

impl RuleLogState {
    /// Notes what differs from what was in force; how many were added, changed and removed.
    fn compare(&mut self, rules: &RuleSet, at_unix_s: u64) -> (usize, usize, usize) {
        let (mut added, mut changed, mut removed) = (0, 0, 0);
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for rule in rules.rules() {
            let key = rule_key(&rule.path, rule.name());
            // Several limits of one descriptor may share a name: the first stands for them.
            if seen.contains(&key) {
                continue;
            }
            seen.insert(key.clone());
            let limit = LoggedLimit::of(rule);
            match self.rules.get(&key).and_then(|changes| changes.last()?.limit.as_ref()) {
                Some(newest) if *newest == limit => continue,
                Some(_) => changed += 1,
                None => added += 1,
            }
            self.push(key, LimitChange { at_unix_s, limit: Some(limit) });
        }
        for (key, changes) in &mut self.rules {
            if is_in_force(changes) && !seen.contains(key) {
                changes.push(LimitChange { at_unix_s, limit: None });
                removed += 1;
            }
        }
        (added, changed, removed)
    }

    /// Notes the lists of all domains; how many of them differ from what was in force.
    fn compare_lists(&mut self, rules: &RuleSet) -> usize {
        let text = |(domain, lists): (&str, &ExceptionLists)| {
            (domain.to_owned(), format!("allow {}, deny {}", lists.allow, lists.deny))
        };
        let before = std::mem::replace(&mut self.lists, rules.domain_lists().map(text).collect());
        let differs = |domain: &&String| before.get(*domain) != self.lists.get(*domain);
        let domains: BTreeSet<&String> = before.keys().chain(self.lists.keys()).collect();
        domains.iter().filter(|domain| differs(domain)).count()
    }

    fn push(&mut self, key: String, change: LimitChange) {
        if self.rules.len() >= RULES_MAX && !self.rules.contains_key(&key) {
            self.rules.retain(|_, changes| is_in_force(changes));
            if self.rules.len() >= RULES_MAX {
                return;
            }
        }
        let changes = self.rules.entry(key).or_default();
        changes.push(change);
        let excess = changes.len().saturating_sub(CHANGES_MAX);
        changes.drain(..excess);
    }
}

fn is_in_force(changes: &[LimitChange]) -> bool {
    changes.last().is_some_and(|change| change.limit.is_some())
}

fn list_text(list: &ExceptionList) -> Option<String> {
    (!list.is_empty()).then(|| list.to_string())
}

/// No path and no name has a line break.
fn rule_key(path: &str, name: &str) -> String {
    format!("{path}\n{name}")
}

/// What pages call a mode.
pub const fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
        Mode::Quota => "quota",
        Mode::ShadowQuota => "shadow_quota",
    }
}

/// Writes a new file and gives it the name of the old one, so that a crash leaves one of them.
fn write(folder: &Path, state: &RuleLogState) -> io::Result<()> {
    let (new, file) = (folder.join(NEW_FILE), folder.join(FILE));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut opened: File = options.open(&new)?;
    opened.write_all(&serde_json::to_vec(state)?)?;
    opened.sync_all()?;
    std::fs::rename(new, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_rules::{Options, SourceFile, load};

    fn rules(limits: &[(&str, u32)]) -> RuleSet {
        let line = |(name, count): &(&str, u32)| {
            format!(
                "- key: {name}\n  rate_limit: {{ name: {name}, requests_per_unit: {count}, unit: minute }}\n"
            )
        };
        let text = format!("domain: shop\ndescriptors:\n{}", limits.iter().map(line).collect::<String>());
        load(vec![SourceFile { name: "shop.yaml".into(), text }], &Options::default()).unwrap().rules
    }

    fn counts(log: &RuleLog, name: &str) -> Vec<(u64, Option<u32>)> {
        let changes = log.changes(&format!("shop.{name}"), name);
        changes
            .iter()
            .map(|own| (own.at_unix_s, own.limit.as_ref().map(|one| one.requests_per_unit)))
            .collect()
    }

    #[test]
    fn the_limit_of_any_time_is_known_and_outlives_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let log = RuleLog::in_folder(folder.path().into());
        log.loaded(&rules(&[("login", 5), ("cart", 9)]), Time::from_secs(10), true);
        log.loaded(&rules(&[("login", 5), ("cart", 9)]), Time::from_secs(20), true);
        log.loaded(&rules(&[("login", 8)]), Time::from_secs(30), true);
        let again = RuleLog::in_folder(folder.path().into());
        again.loaded(&rules(&[("login", 8), ("cart", 9)]), Time::from_secs(40), true);
        assert_eq!(counts(&again, "login"), [(10, Some(5)), (30, Some(8))]);
        assert_eq!(counts(&again, "cart"), [(10, Some(9)), (30, None), (40, Some(9))]);
        let loads = again.loads();
        let told = loads.iter().map(|own| (own.at_unix_s, own.start, own.added, own.changed, own.removed));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [(40, true, 1, 0, 0), (30, false, 0, 1, 1), (20, false, 0, 0, 0), (10, true, 2, 0, 0)]
        );
    }

    #[test]
    fn a_folder_of_another_process_is_not_written_and_rubbish_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        RuleLog::in_folder(folder.path().into()).loaded(&rules(&[("a", 1)]), Time::from_secs(1), false);
        assert!(!folder.path().join(FILE).exists());
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert_eq!(RuleLog::in_folder(folder.path().into()).loads(), []);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let log = RuleLog::default();
        for second in 0..300 {
            let count = u32::try_from(second).unwrap() + 1;
            log.loaded(&rules(&[("login", count)]), Time::from_secs(second), false);
        }
        assert_eq!((log.loads().len(), counts(&log, "login").len()), (LOADS_MAX, CHANGES_MAX));
        assert_eq!(counts(&log, "login").last(), Some(&(299, Some(300))), "the oldest are dropped");
    }
}
