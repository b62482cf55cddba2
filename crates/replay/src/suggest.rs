//! Which limits would fit the traffic.
//!
//! For each rule every key's peak use is measured, and a range of limits is tried beside the rule's own,
//! each by the rule's algorithm, on its own and without denying anything. So a row says what a replay
//! with that limit alone would say.
//!
//! Invariant: a key's peak is the most requests in any window of the rule's length, counted in
//! [`METER_BUCKETS`] sub-windows: up to one sub-window too many, never too few.

use tollgate_core::ruleset::Found;
use tollgate_core::{Charge, Key, Limit, Mode, Operation, Rule, RuleSet, Shape};
use tollgate_limiter::{Capacity, ChargeSet, MemoryStore};

use crate::batch::LoggedRequest;
use crate::ledger::{KEYS_MAX, NameTable};
use crate::report::{LimitRow, PeakUse, RuleNames, SuggestRow};
use crate::reshape::with_count;
use crate::share::Share;

/// Sub-windows in which peaks are measured.
const METER_BUCKETS: u32 = 60;
/// Limits that are tried: these times powers of ten.
const LADDER_STEPS: [u32; 6] = [10, 15, 20, 30, 50, 70];
/// Up to ten million in a window.
const LADDER_DECADES: u32 = 7;

/// What is measured for all rules.
#[derive(Debug)]
pub(crate) struct LimitSearch {
    share: Share,
    rules: Vec<RuleSearch>,
    store: MemoryStore,
    keys: NameTable<KeyUse>,
}

/// What is measured for one rule.
#[derive(Debug)]
struct RuleSearch {
    meter: Option<Limit>,
    /// From the lowest to the highest, with the requests that each denied.
    ladder: Vec<(Limit, u64)>,
    requests: u64,
}

/// How one key used a rule.
#[derive(Debug, Default)]
struct KeyUse {
    peak: u64,
    /// One bit for each limit of the ladder that denied it.
    denied_by: u64,
}

impl RuleSearch {
    fn new(rule: &Rule) -> Self {
        let own = rule.limit;
        let meter = Limit::new(u32::MAX, own.window(), Shape::SlidingBuckets { buckets: METER_BUCKETS });
        let powers = (0..LADDER_DECADES).map(|power| 10_u32.pow(power));
        let mut counts: Vec<u32> = powers
            .flat_map(|power| LADDER_STEPS.map(|step| u64::from(step) * u64::from(power)))
            .filter(|tenths| tenths % 10 == 0)
            .filter_map(|tenths| u32::try_from(tenths / 10).ok())
            .chain([own.count()].into_iter().filter(|count| *count > 0))
            .collect();
        counts.sort_unstable();
        counts.dedup();
        let ladder = counts.into_iter().filter_map(|count| Some((with_count(&own, count).ok()?, 0)));
        Self { meter: meter.ok(), ladder: ladder.collect(), requests: 0 }
    }

    /// The limits to try, the meter first.
    fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.meter.iter().chain(self.ladder.iter().map(|(limit, _)| limit))
    }
}

impl LimitSearch {
    pub(crate) fn new(rules: &RuleSet, share: Share) -> Self {
        Self {
            share,
            rules: rules.rules().iter().map(RuleSearch::new).collect(),
            store: MemoryStore::new(Capacity::default()),
            keys: NameTable::new(KEYS_MAX),
        }
    }

    pub(crate) fn decide(&mut self, rules: &RuleSet, request: &LoggedRequest<'_>) {
        let Self { rules: searches, store, keys, .. } = self;
        rules.charges(&request.request, Operation::Check, |found| {
            // A penalty is about denials; each limit is tried without one.
            let Found::Charge(charge) = found else { return };
            if charge.is_penalty() {
                return;
            }
            let Some(index) = charge.rule.map(tollgate_core::RuleId::index) else { return };
            let Some(search) = searches.get_mut(index) else { return };
            let mut set = ChargeSet::default();
            // In shadow mode each of them decides and counts on its own.
            for (ordinal, limit) in (0_u32..).zip(search.limits()) {
                let key = Key { limit, ordinal, ..charge.key };
                set.charges.push(Charge { key, mode: Mode::Shadow, ..charge });
            }
            let decisions = store.decide(&set, request.time);
            drop(set);
            let mut key = keys.entry(index, request.key(charge.descriptor));
            search.requests += 1;
            let mut decisions = decisions.iter();
            if let (Some(key), Some(metered)) = (&mut key, decisions.next()) {
                key.peak = key.peak.max(metered.used);
            }
            for ((level, (_, denied)), decision) in search.ladder.iter_mut().enumerate().zip(decisions) {
                if decision.verdict.is_deny() {
                    *denied += 1;
                    if let Some(key) = &mut key {
                        key.denied_by |= 1 << level;
                    }
                }
            }
        });
    }

    /// A table for each rule that any request met.
    pub(crate) fn rows(&self, rules: &RuleSet, names: impl Fn(usize) -> RuleNames) -> Vec<SuggestRow> {
        let searches = self.rules.iter().zip(rules.rules()).enumerate();
        let met = searches.filter(|(_, (search, _))| search.requests > 0);
        met.map(|(index, (search, rule))| self.row(index, search, rule, names(index))).collect()
    }

    fn row(&self, index: usize, search: &RuleSearch, rule: &Rule, names: RuleNames) -> SuggestRow {
        let keys = || self.keys.iter().filter(move |known| known.rule == index);
        let mut peaks: Vec<u64> = keys().map(|known| known.value.peak).collect();
        peaks.sort_unstable();
        let mut limits = Vec::new();
        for (level, (limit, denied)) in search.ladder.iter().enumerate() {
            let keys = keys().filter(|known| known.value.denied_by >> level & 1 == 1).count();
            let is_own = limit.count() == rule.limit.count();
            // One limit that denies nothing is enough, but the rule's own is always told.
            let is_over = limits.last().is_some_and(|row: &LimitRow| row.requests == 0);
            if !is_over || is_own {
                let keys = u64::try_from(keys).unwrap_or(u64::MAX);
                limits.push(LimitRow { limit: limit.count(), keys, requests: *denied, is_own });
            }
        }
        let fits = |row: &&LimitRow| !self.share.is_exceeded_by(row.requests, search.requests);
        SuggestRow {
            smallest: limits.iter().find(fits).map(|row| row.limit),
            names,
            algorithm: rule.limit.algorithm().name(),
            window_s: rule.limit.window().get() / 1_000_000,
            requests: search.requests,
            keys: u64::try_from(peaks.len()).unwrap_or(u64::MAX),
            peak: PeakUse {
                p50: percentile(&peaks, 50),
                p90: percentile(&peaks, 90),
                p99: percentile(&peaks, 99),
                max: peaks.last().copied().unwrap_or(0),
            },
            share: self.share.to_string(),
            limits,
        }
    }
}

/// The lowest value that so many percent of the sorted values do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let sorted: Vec<u64> = (1..=10).collect();
        assert_eq!([50, 90, 99].map(|percent| percentile(&sorted, percent)), [5, 9, 10]);
        assert_eq!((percentile(&[7], 50), percentile(&[], 50)), (7, 0));
    }

    #[test]
    fn the_ladder_goes_up_and_has_the_limit_of_the_rule() {
        let limit = Limit::new(42, tollgate_core::Micros::SECOND, Shape::SlidingLog).unwrap();
        let rule = |limit| Rule {
            label: String::new(),
            path: String::new(),
            limit,
            unit: tollgate_core::Unit::Second,
            unit_multiplier: 1,
            mode: Mode::Enforce,
            over_limit: tollgate_core::OverLimit::Deny,
            replaces: Vec::new(),
            metadata: None,
            message: String::new(),
            ordinal: 0,
            lists: None,
            elastic: None,
        };
        let counts = |limit| {
            RuleSearch::new(&rule(limit)).ladder.iter().map(|(limit, _)| limit.count()).collect::<Vec<_>>()
        };
        let log = counts(limit);
        assert!(log.starts_with(&[1, 2, 3, 5, 7, 10, 15, 20, 30, 42, 50]) && log.is_sorted(), "{log:?}");
        assert_eq!(log.last(), Some(&10_000), "a log is no longer");
        let bucket = Shape::TokenBucket { burst: 84, refill: tollgate_core::Refill::Smooth };
        let counts = counts(Limit::new(42, tollgate_core::Micros::SECOND, bucket).unwrap());
        assert!(counts.len() < 64 && counts.last() == Some(&7_000_000), "{counts:?}");
    }
}
