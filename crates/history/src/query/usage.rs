//! How much the keys of a rule ask for in one window.
//!
//! The server compares it with the rule's limit, to say how close keys come to it.
//!
//! Invariants: a key counts with its busiest window of those that the history can tell apart,
//! and with everything it asked for, denied or not. A window is never shorter than what is
//! kept, and windows do not overlap.
//!
//! Deliberately not here: limits, which history does not know.

use tollgate_core::Outcome;

use super::series::SAMPLES_MAX;
use super::{HistoryReader, RuleFilter, TimeRange};
use crate::bytes::{index, wide};
use crate::error::Result;
use crate::label::SeriesKind;
use crate::row_id::{RowId, SeriesId};

/// A query for the usage of keys.
#[derive(Debug, Clone)]
pub struct UsageQuery {
    /// Of which rule.
    pub filter: RuleFilter,
    /// When.
    pub range: TimeRange,
    /// How long a window is.
    pub window_s: u64,
}

/// The result of a [`UsageQuery`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageResult {
    /// The first second; later than asked for where there are too many keys to look at all of it.
    pub from_s: u64,
    /// The second after the last.
    pub to_s: u64,
    /// How long a window is: what was asked for, in whole steps of what is kept.
    pub window_s: u64,
    /// What each key asked for in its busiest window, the least first. Keys without a series
    /// are missing.
    pub peaks: Vec<u64>,
    /// How many of these keys were denied at least once, or would have been by a limit in shadow mode.
    pub denied_keys: usize,
    /// What each key asked for in each window, keys in no order.
    pub asked: Vec<Vec<u64>>,
}

impl UsageResult {
    /// How many keys asked for more than `limit` in some window, and how many requests were beyond it.
    pub fn beyond(&self, limit: u64) -> (usize, u64) {
        let beyond =
            |windows: &Vec<u64>| windows.iter().map(|asked| asked.saturating_sub(limit)).sum::<u64>();
        let keys = self.asked.iter().map(beyond).filter(|requests| *requests > 0);
        keys.fold((0, 0), |(keys, sum), requests| (keys + 1, sum + requests))
    }
}

impl HistoryReader<'_> {
    /// What the keys of a rule ask for in their busiest window.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read, or hold what this version cannot read.
    pub fn usage(&self, query: &UsageQuery) -> Result<UsageResult> {
        let keys = self.named(SeriesKind::Key).filter(|(_, label)| query.filter.takes(label));
        let mut keys: Vec<SeriesId> = keys.map(|(id, _)| id).collect();
        keys.sort_unstable();
        keys.dedup();
        let asked = self.since_first_count(query.range)?;
        let kept_s = self.coarsest_step_s(asked)?;
        let window_s = query.window_s.max(1).next_multiple_of(kept_s);
        let windows_max = wide(SAMPLES_MAX / keys.len().max(1)).max(1);
        let from_s = asked.from_s.max(asked.to_s.saturating_sub(windows_max.saturating_mul(window_s)));
        let range = TimeRange { from_s, ..asked };
        let first_s = from_s - from_s % window_s;
        let windows = index((range.to_s - first_s).div_ceil(window_s));

        let rows: Vec<RowId> =
            keys.iter().flat_map(|id| Outcome::ALL.map(|outcome| id.row(outcome))).collect();
        let mut usage: Vec<KeyUsage> = vec![KeyUsage::default(); keys.len()];
        self.points(&rows, range, &mut |point| {
            let Some(id) = rows.get(point.place) else { return Ok(()) };
            let key = keys.binary_search(&id.series()).ok().and_then(|place| usage.get_mut(place));
            let Some(key) = key else { return Ok(()) };
            let is_denial = matches!(id.outcome(), Some(Outcome::Denied | Outcome::ShadowDenied));
            key.is_denied |= is_denial && point.count > 0;
            key.windows.resize(windows, 0);
            if let Some(sum) = key.windows.get_mut(index(point.second.saturating_sub(first_s) / window_s)) {
                *sum = sum.saturating_add(point.count);
            }
            Ok(())
        })?;
        let mut peaks: Vec<u64> = usage.iter().filter_map(|key| key.windows.iter().max().copied()).collect();
        peaks.retain(|peak| *peak > 0);
        peaks.sort_unstable();
        let denied_keys = usage.iter().filter(|key| key.is_denied).count();
        let asked = usage.into_iter().map(|key| key.windows).filter(|windows| !windows.is_empty()).collect();
        Ok(UsageResult { from_s, to_s: range.to_s, window_s, peaks, denied_keys, asked })
    }
}

/// What one key asked for.
#[derive(Debug, Clone, Default)]
struct KeyUsage {
    /// In each window; empty if nothing.
    windows: Vec<u64>,
    is_denied: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flush::{Flush, FlushId, InstanceId, TrafficCounts};
    use crate::tables::MemoryTables;
    use crate::{Bounds, History as _, Label, LocalHistory};

    const DAY_S: u64 = 20_000 * 86_400;

    fn usage(window_s: u64) -> UsageResult {
        usage_of("login", window_s)
    }

    fn usage_of(rule: &str, window_s: u64) -> UsageResult {
        let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
        let mut counts = TrafficCounts::default();
        let key = |rule: &str, name: &str| Label::Key {
            domain: "shop".into(),
            rule: rule.into(),
            name: name.into(),
        };
        for (minute, label, outcome, count) in [
            (0, key("login", "a"), Outcome::Allowed, 3),
            (0, key("login", "a"), Outcome::Denied, 4),
            (1, key("login", "a"), Outcome::Allowed, 5),
            (3, key("login", "b"), Outcome::Allowed, 2),
            (3, key("other", "c"), Outcome::Allowed, 90),
            (3, key("other", "c"), Outcome::Denied, 1),
            (4, key("plan", "d"), Outcome::ShadowDenied, 2),
        ] {
            counts.add(u32::try_from(DAY_S / 60 + minute).unwrap(), label, outcome, count);
        }
        let id = FlushId { instance: InstanceId([1; 16]), seq: 1 };
        history.append(&Flush { id, counts }).unwrap();
        let filter = RuleFilter { domain: Some("shop".into()), rule: Some(rule.into()) };
        let range = TimeRange { from_s: DAY_S, to_s: DAY_S + 600 };
        history.reader().unwrap().usage(&UsageQuery { filter, range, window_s }).unwrap()
    }

    #[test]
    fn a_key_counts_with_its_busiest_window_and_all_it_asked_for() {
        let minutes = usage(60);
        assert_eq!((minutes.peaks, minutes.window_s, minutes.denied_keys), (vec![2, 7], 60, 1));
        assert_eq!(usage(120).peaks, [2, 12]);
        assert_eq!(usage_of("plan", 60).denied_keys, 1, "a limit in shadow mode would have denied it");
        let beyond = |limit| usage(60).beyond(limit);
        assert_eq!([0, 1, 2, 5, 6, 7].map(beyond), [(2, 14), (2, 11), (1, 8), (1, 2), (1, 1), (0, 0)]);
    }

    #[test]
    fn a_window_is_not_shorter_than_what_is_kept() {
        let seconds = usage(1);
        assert_eq!((seconds.window_s, seconds.peaks), (60, vec![2, 7]));
        assert_eq!(usage(90).window_s, 120);
    }
}
