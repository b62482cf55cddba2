//! How close keys come to a limit, what other limits would do, and what that says about the rule.
//!
//! Counts of the history and a rule in force → a [`RuleUsage`]. `/v1/rules/usage` answers it for the
//! dashboard and for `tollgate suggest --server`; `tollgate suggest --data` makes it itself.
//!
//! Invariants: usage is what keys ask for, denied or not, so that a limit that is hit shows more than
//! 100 %. What is found about a rule, and from which shares on, is said here and nowhere else.
//!
//! Deliberately not here: one number to write into a rule file; that is for people to choose.

use serde::{Deserialize, Serialize};
use tollgate_core::{Mode, Outcome, Rule, RuleId, RuleSet};
use tollgate_history::query::{HistoryReader, RuleFilter, SeriesQuery, TimeRange, UsageQuery, UsageResult};
use tollgate_history::{Error, SeriesKind};
use utoipa::ToSchema;

/// Bins of ten percent, and one for all that is more than the limit.
const BINS: usize = 11;
/// A rule that denies more of its requests than this is said to deny a lot, in percent.
const DENIES_MUCH_PERCENT: u64 = 10;
/// From here on the use of a limit is said to be near it, in percent.
const NEAR_PERCENT: u64 = 80;
/// If no more of the keys than this are denied, it is these keys rather than the limit, in percent.
const FEW_KEYS_PERCENT: u64 = 10;
/// A limit fits if it denies no more of the requests than this, in thousandths.
pub const FITS_PERMILLE: u64 = 1;

/// How close keys come to a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleUsage {
    /// The first second; later than asked for where there are too many keys to look at all of it.
    pub from: u64,
    /// The second after the last.
    pub to: u64,
    /// How long a window is that was looked at; not shorter than what the history keeps.
    pub window_s: u64,
    /// What the limit that is in force now lets through in such a window, bursts aside.
    pub limit: u64,
    /// What the rule decided in this time, denied or not.
    pub total: u64,
    /// What it denied.
    pub denied: u64,
    /// What it would have denied if it were not in shadow mode.
    pub shadow_denied: u64,
    /// Keys that were looked at: those with a series of their own.
    pub keys: usize,
    /// How many of them were denied at least once, or would have been by a limit in shadow mode.
    pub denied_keys: usize,
    /// Half of the keys ask for no more than this, in percent of the limit, in their busiest window.
    pub p50_percent: u64,
    /// Nine of ten keys.
    pub p90_percent: u64,
    /// 99 of a hundred keys.
    pub p99_percent: u64,
    /// How many keys ask in their busiest window for up to 10 % of the limit, up to 20 %, …,
    /// up to 100 %, and for more.
    #[schema(min_items = 11, max_items = 11)]
    pub bins: Vec<usize>,
    /// What keys ask for in their busiest window.
    pub peaks: PeakUse,
    /// What other limits would do, the lowest first, the one in force among them.
    pub limits: Vec<LimitEffect>,
    /// The lowest limit that denies no more than 0.1 % of the requests.
    pub fits: u64,
    /// What all of it says about the rule.
    pub finding: RuleFinding,
}

/// What keys ask for in their busiest window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeakUse {
    /// Half of the keys ask for no more.
    pub p50: u64,
    /// Nine of ten keys.
    pub p90: u64,
    /// 99 of a hundred keys.
    pub p99: u64,
    /// All keys.
    pub max: u64,
}

/// What a limit would do to the same requests, as far as the history knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitEffect {
    /// The limit of one key in a window.
    pub limit: u64,
    /// How many keys would be denied at least once.
    pub keys: usize,
    /// How many requests of theirs would be.
    pub requests: u64,
}

/// What the past says about a rule, most important first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleFinding {
    /// In a few words.
    pub text: String,
    /// Whether it looks right.
    pub level: FindingLevel,
    /// Why it is said, and what to do about it.
    pub reason: String,
}

/// Whether a rule looks right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindingLevel {
    /// It hurts, or soon will.
    Bad,
    /// It does nothing, which may be right.
    Note,
    /// It does what limits are for.
    Good,
}

/// What one rule decided.
#[derive(Debug, Clone, Copy, Default)]
struct RuleTotals {
    total: u64,
    denied: u64,
    shadow_denied: u64,
}

impl RuleUsage {
    /// The usage of a rule in that time; none if there is no such rule.
    ///
    /// # Errors
    /// If the history cannot be read.
    pub fn read(
        reader: &HistoryReader<'_>,
        rules: &RuleSet,
        id: RuleId,
        range: TimeRange,
    ) -> Result<Option<Self>, Error> {
        let Some((rule, (domain, levels))) = rules.rule(id).zip(rules.levels(id)) else { return Ok(None) };
        let filter = RuleFilter { domain: Some(domain.to_owned()), rule: Some(rule.name().to_owned()) };
        let series = SeriesQuery { filter: filter.clone(), ..SeriesQuery::new(SeriesKind::Rule, range) };
        let mut totals = RuleTotals::default();
        for series in reader.series(&series)?.series {
            totals.total += series.total;
            if series.outcome == Outcome::Denied.name() {
                totals.denied += series.total;
            } else if series.outcome == Outcome::ShadowDenied.name() {
                totals.shadow_denied += series.total;
            }
        }
        let window_s = rule.limit.window().as_millis_ceil().div_ceil(1_000);
        let usage = reader.usage(&UsageQuery { filter, range, window_s })?;
        let entry = |(key, value): (&str, Option<&str>)| match value {
            Some(value) => format!("{key}={value}"),
            None => key.to_owned(),
        };
        let wanted: Vec<String> = levels.into_iter().map(entry).collect();
        let request = format!("domain {domain} and the descriptor ({})", wanted.join(", "));
        Ok(Some(Self::new(&usage, rule, totals, &request)))
    }

    fn new(usage: &UsageResult, rule: &Rule, totals: RuleTotals, request: &str) -> Self {
        let window_ms = rule.limit.window().as_millis_ceil();
        let limit = u64::from(rule.limit.count())
            .saturating_mul(usage.window_s.saturating_mul(1_000))
            .checked_div(window_ms)
            .unwrap_or(0);
        let rank = |percentile: usize| {
            let place = (usage.peaks.len() * percentile).div_ceil(100).saturating_sub(1);
            usage.peaks.get(place).copied().unwrap_or(0)
        };
        let peaks = PeakUse { p50: rank(50), p90: rank(90), p99: rank(99), max: rank(100) };
        let percent = |peak: u64| peak.saturating_mul(100).div_ceil(limit.max(1));
        let mut bins = vec![0; BINS];
        for peak in &usage.peaks {
            let bin = usize::try_from(percent(*peak).max(1).saturating_sub(1) / 10).unwrap_or(BINS);
            if let Some(keys) = bins.get_mut(bin.min(BINS - 1)) {
                *keys += 1;
            }
        }
        let mut limits: Vec<u64> = vec![limit, peaks.p50, peaks.p90, peaks.p99, peaks.max];
        limits.sort_unstable();
        limits.dedup();
        let effect = |limit| {
            let (keys, requests) = usage.beyond(limit);
            LimitEffect { limit, keys, requests }
        };
        let mut own = Self {
            from: usage.from_s,
            to: usage.to_s,
            window_s: usage.window_s,
            limit,
            total: totals.total,
            denied: totals.denied,
            shadow_denied: totals.shadow_denied,
            keys: usage.peaks.len(),
            denied_keys: usage.denied_keys,
            p50_percent: percent(peaks.p50),
            p90_percent: percent(peaks.p90),
            p99_percent: percent(peaks.p99),
            bins,
            peaks,
            limits: limits.into_iter().filter(|_| !usage.peaks.is_empty()).map(effect).collect(),
            fits: fitting(usage, peaks.max),
            finding: RuleFinding::new(FindingLevel::Note, String::new(), String::new()),
        };
        own.finding = own.found(rule.mode, request);
        own
    }

    /// What is found. Of several things that hold, the first counts.
    fn found(&self, mode: Mode, request: &str) -> RuleFinding {
        use FindingLevel::{Bad, Good, Note};
        let Self { total, denied, shadow_denied, keys, denied_keys, p99_percent, .. } = *self;
        let is_only = keys == 1 && denied_keys == 1;
        let of_keys = if is_only { "its only key".into() } else { format!("{denied_keys} of {keys} keys") };
        let (are, were) = if is_only { ("is", "was") } else { ("are", "were") };
        let fits = format!("{} per {} would deny at most 0.1 %", self.fits, span(self.window_s));
        if total == 0 {
            let reason = format!(
                "no request reached it: it needs {request}; tollgate explain shows what a request meets instead"
            );
            return RuleFinding::new(Note, "never matched in this time", reason);
        }
        if mode.is_shadow() && shadow_denied == 0 {
            let reason = "it is in shadow mode and nobody exceeded it: enforced, it would change nothing";
            return RuleFinding::new(Good, "shadow: would have denied nothing", reason);
        }
        if mode.is_shadow() {
            let text = format!("shadow: would have denied {shadow_denied}, {}", share(shadow_denied, total));
            let reason = format!("it is in shadow mode: enforced, it would deny these; {fits}");
            return RuleFinding::new(Note, text, reason);
        }
        if denied.saturating_mul(100) > total.saturating_mul(DENIES_MUCH_PERCENT) {
            let is_few = denied_keys.saturating_mul(100)
                <= keys.saturating_mul(usize::try_from(FEW_KEYS_PERCENT).unwrap_or(usize::MAX));
            let reason = match (keys, is_few) {
                (0, _) => {
                    "the history has no series of its keys, so that it cannot tell who is denied".to_owned()
                }
                (_, true) => format!(
                    "only {of_keys} are denied, so that these abuse it rather than that it is too strict"
                ),
                (_, false) => format!("{of_keys} {are} denied, so that it is probably too strict; {fits}"),
            };
            return RuleFinding::new(
                Bad,
                format!("denies {}: too strict, or abused?", share(denied, total)),
                reason,
            );
        }
        let p99 = format!("p99 of keys at {p99_percent} % of it");
        if keys > 0 && (NEAR_PERCENT..=100).contains(&p99_percent) {
            let reason = if denied == 0 {
                format!("with a little more traffic its busiest keys are denied; {fits}")
            } else {
                format!("its busiest keys use all of it, and {of_keys} {were} denied; {fits}")
            };
            return RuleFinding::new(Bad, format!("limit near its use: {p99}"), reason);
        }
        if denied == 0 && keys > 0 {
            let reason = format!(
                "its busiest key asked for {} of {} in {}",
                self.peaks.max,
                self.limit,
                span(self.window_s)
            );
            return RuleFinding::new(Note, format!("never denied; {p99}"), reason);
        }
        if denied == 0 {
            let reason = "nobody exceeded it; the history has no series of its keys, so that it cannot tell how close they came";
            return RuleFinding::new(Note, "never denied in this time", reason);
        }
        RuleFinding::new(Good, format!("denies {}", share(denied, total)), format!("{of_keys} {were} denied"))
    }
}

impl RuleFinding {
    fn new(level: FindingLevel, text: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { text: text.into(), level, reason: reason.into() }
    }
}

/// The lowest limit that denies at most [`FITS_PERMILLE`] of the requests; `most` denies none.
fn fitting(usage: &UsageResult, most: u64) -> u64 {
    let all: u64 = usage.beyond(0).1;
    let fits = |limit| usage.beyond(limit).1.saturating_mul(1_000) <= all.saturating_mul(FITS_PERMILLE);
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle + 1 }
    }
    high
}

/// `12.3 %`.
pub fn share(part: u64, all: u64) -> String {
    if all == 0 {
        return "–".to_owned();
    }
    let hundredths = u128::from(part) * 10_000 / u128::from(all);
    match hundredths {
        0 if part == 0 => "0 %".to_owned(),
        0 => "<0.01 %".to_owned(),
        10_000 => "100 %".to_owned(),
        1..=99 => format!("0.{hundredths:02} %"),
        _ => format!("{}.{} %", hundredths / 100, hundredths % 100 / 10),
    }
}

/// `5 min`, `1 h`.
pub fn span(seconds: u64) -> String {
    match seconds {
        _ if seconds > 0 && seconds.is_multiple_of(86_400) => format!("{} d", seconds / 86_400),
        _ if seconds > 0 && seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        _ if seconds > 0 && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Limit, Micros, Shape, Unit};

    use super::*;

    fn rule(count: u32, mode: Mode) -> Rule {
        Rule {
            label: "few".into(),
            path: "z.a".into(),
            limit: Limit::new(count, Micros::from_secs(60), Shape::SlidingLog).unwrap(),
            unit: Unit::Minute,
            unit_multiplier: 1,
            mode,
            over_limit: tollgate_core::OverLimit::Deny,
            replaces: Vec::new(),
            metadata: None,
            message: String::new(),
            elastic: None,
            lists: None,
            ordinal: 0,
        }
    }

    /// The usage of keys that ask for so much in their only window.
    fn of(peaks: &[u64], denied_keys: usize) -> UsageResult {
        let mut peaks = peaks.to_vec();
        peaks.sort_unstable();
        let asked = peaks.iter().map(|peak| vec![*peak]).collect();
        UsageResult { from_s: 0, to_s: 600, window_s: 60, peaks, denied_keys, asked }
    }

    fn usage(peaks: &[u64], count: u32) -> RuleUsage {
        RuleUsage::new(&of(peaks, 0), &rule(count, Mode::Enforce), RuleTotals::default(), "")
    }

    #[test]
    fn keys_are_sorted_into_bins_by_what_they_ask_for_of_the_limit() {
        let peaks: Vec<u64> = (1..=100).chain([101, 500]).collect();
        let own = usage(&peaks, 100);
        assert_eq!(own.bins, [10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 2]);
        assert_eq!((own.p50_percent, own.p90_percent, own.p99_percent), (51, 92, 101));
        assert_eq!(own.peaks, PeakUse { p50: 51, p90: 92, p99: 101, max: 500 });
        let none = usage(&[], 5);
        assert_eq!((none.p99_percent, none.bins, none.limits), (0, vec![0; BINS], Vec::new()));
    }

    /// By hand: keys that ask for 1, 2, 3, 4 and 90, a hundred requests in all.
    #[test]
    fn other_limits_are_told_with_whom_they_would_hit() {
        let own = usage(&[1, 2, 3, 4, 90], 10);
        let effects: Vec<_> = own.limits.iter().map(|own| (own.limit, own.keys, own.requests)).collect();
        assert_eq!(effects, [(3, 2, 88), (10, 1, 80), (90, 0, 0)]);
        assert_eq!(own.fits, 90, "one request of a hundred is more than 0.1 %");
        assert_eq!(usage(&[1, 2, 3, 4, 99_990], 10).fits, 99_890, "a hundred of 100,000 are not");
    }

    #[test]
    fn each_finding_has_its_reason() {
        use FindingLevel::{Bad, Good, Note};
        let found = |totals: (u64, u64, u64), peaks: &[u64], denied_keys, mode| {
            let (total, denied, shadow_denied) = totals;
            let totals = RuleTotals { total, denied, shadow_denied };
            let own = RuleUsage::new(&of(peaks, denied_keys), &rule(10, mode), totals, "REQUEST");
            (own.finding.text, own.finding.level, own.finding.reason)
        };
        let many: Vec<u64> = [1; 99].into_iter().chain([500]).collect();
        for (found, text, level, reason) in [
            (found((0, 0, 0), &[], 0, Mode::Enforce), "never matched in this time", Note, "it needs REQUEST"),
            (
                found((9, 0, 0), &[9], 0, Mode::Shadow),
                "shadow: would have denied nothing",
                Good,
                "nobody exceeded it",
            ),
            (
                found((9, 0, 3), &[9], 0, Mode::ShadowQuota),
                "shadow: would have denied 3, 33.3 %",
                Note,
                "enforced, it would deny these",
            ),
            (
                found((90, 10, 0), &[80, 10], 1, Mode::Enforce),
                "denies 11.1 %: too strict, or abused?",
                Bad,
                "1 of 2 keys are denied, so that it is probably too strict",
            ),
            (
                found((599, 490, 0), &many, 1, Mode::Enforce),
                "denies 81.8 %: too strict, or abused?",
                Bad,
                "only 1 of 100 keys are denied, so that these abuse it",
            ),
            (
                found((9, 0, 0), &[9], 0, Mode::Enforce),
                "limit near its use: p99 of keys at 90 % of it",
                Bad,
                "a little more traffic",
            ),
            (
                found((100, 6, 0), &[10], 1, Mode::Enforce),
                "limit near its use: p99 of keys at 100 % of it",
                Bad,
                "its busiest keys use all of it, and its only key was denied",
            ),
            (
                found((5, 0, 0), &[3, 2], 0, Mode::Quota),
                "never denied; p99 of keys at 30 % of it",
                Note,
                "asked for 3 of 10 in 1 min",
            ),
            (
                found((5, 0, 0), &[], 0, Mode::Enforce),
                "never denied in this time",
                Note,
                "no series of its keys",
            ),
            (
                found((100, 10, 0), &[20, 2], 1, Mode::Enforce),
                "denies 10.0 %",
                Good,
                "1 of 2 keys were denied",
            ),
        ] {
            assert_eq!((found.0.as_str(), found.1), (text, level));
            assert!(found.2.contains(reason), "{text}: {}", found.2);
        }
    }

    #[test]
    fn shares_and_spans_are_short() {
        let shares = [(0, 5), (1, 100_000), (3, 1_000), (123, 1_000), (5, 5), (0, 0)]
            .map(|(part, all)| share(part, all));
        assert_eq!(shares, ["0 %", "<0.01 %", "0.30 %", "12.3 %", "100 %", "–"]);
        assert_eq!(
            [1, 60, 90, 300, 3_600, 86_400].map(span),
            ["1 s", "1 min", "90 s", "5 min", "1 h", "1 d"]
        );
    }
}
