//! Sums are conserved, whatever comes when, and wherever it stops.
//!
//! Method: random flushes, late and early, with maintenance in between, over tables
//! whose commits fail or end the process before or after they were made.
//! A plain map counts along; at the end every series must agree with it.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use proptest::prelude::*;
use tollgate_core::Outcome;

use super::*;
use crate::flush::TrafficCounts;
use crate::label::{Label, SeriesKind};
use crate::query::{SeriesQuery, TimeRange, TopQuery};
use crate::tables::{GetVisitor, MemoryTables, ScanVisitor};

/// Rolls up on the word of one flush.
const AT_ONCE: Bounds = Bounds { series: 50_000, hours_since: 0 };
pub(super) const DAY_MIN: u32 = 1_440;
/// A Sunday at noon, so that days, weeks and chunks of 32 days all begin elsewhere.
pub(super) const START_MIN: u32 = 20_001 * DAY_MIN + 720;

/// What happens to a commit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CommitFault {
    Done,
    FailsBefore,
    FailsAfter,
}

/// Tables whose next commits have a fault.
#[derive(Debug, Default)]
struct FaultyTables {
    inner: MemoryTables,
    faults: Vec<CommitFault>,
}

impl Tables for FaultyTables {
    fn get_many(&self, table: TableId, keys: &[Vec<u8>], visit: &mut GetVisitor<'_>) -> Result<()> {
        self.inner.get_many(table, keys, visit)
    }

    fn scan(&self, table: TableId, range: Range<&[u8]>, visit: &mut ScanVisitor<'_>) -> Result<()> {
        self.inner.scan(table, range, visit)
    }

    fn commit(&mut self, batch: &WriteBatch) -> Result<()> {
        let fault = self.faults.pop().unwrap_or(CommitFault::Done);
        if fault != CommitFault::FailsBefore {
            self.inner.commit(batch)?;
        }
        if fault == CommitFault::Done { Ok(()) } else { Err(Error::Corrupt { what: "the test says so" }) }
    }
}

#[derive(Debug, Clone)]
enum LocalStep {
    /// Counts in minutes relative to the clock.
    Flush(Vec<(i32, u8, u64)>),
    /// The clock goes on, or back.
    Clock(i32),
    Maintain,
    /// The process ends and starts again.
    Restart,
    /// The next commit.
    Commit(CommitFault),
}

fn steps() -> impl Strategy<Value = Vec<LocalStep>> {
    let late = prop_oneof![6 => -3_i32..3, 2 => -3_000_i32..10, 1 => -90_000_i32..100];
    let count = (late, 0_u8..8, 1_u64..1_000);
    let fault = prop_oneof![Just(CommitFault::FailsBefore), Just(CommitFault::FailsAfter)];
    let clock = prop_oneof![4 => 1_i32..90, 2 => 60_i32..3_000, 1 => 1_000_i32..60_000, 1 => -2_000_i32..0];
    let step = prop_oneof![
        5 => proptest::collection::vec(count, 0..8).prop_map(LocalStep::Flush),
        3 => clock.prop_map(LocalStep::Clock),
        3 => Just(LocalStep::Maintain),
        1 => Just(LocalStep::Restart),
        2 => fault.prop_map(LocalStep::Commit),
    ];
    proptest::collection::vec(step, 1..60)
}

pub(super) fn label(which: u8) -> Label {
    match which {
        0..=3 => Label::Route(format!("/{which}").into()),
        4 => Label::Rule { domain: "d".into(), name: "r".into() },
        5 => Label::Key { domain: "d".into(), rule: "r".into(), name: "k".into() },
        6 => Label::Requests,
        _ => Label::Decisions,
    }
}

pub(super) fn outcome(count: u64) -> Outcome {
    Outcome::ALL[usize::try_from(count % 6).unwrap()]
}

/// Counts by label and day.
pub(super) type DailyCounts = BTreeMap<(Label, u32), u64>;

struct LocalWorld {
    history: LocalHistory<FaultyTables>,
    model: DailyCounts,
    clock_min: i64,
    seq: u64,
}

impl LocalWorld {
    fn new() -> Self {
        let history = LocalHistory::open(FaultyTables::default(), Bounds::default()).unwrap();
        Self { history, model: DailyCounts::new(), clock_min: i64::from(START_MIN), seq: 0 }
    }

    fn now(&self) -> Time {
        Time::from_secs(u64::try_from(self.clock_min).unwrap() * 60)
    }

    fn told(&self) -> DailyCounts {
        told(&self.history.reader().unwrap())
    }

    fn restart(&mut self) {
        let tables = FaultyTables { inner: self.history.core.tables.inner.clone(), faults: Vec::new() };
        self.history = LocalHistory::open(tables, Bounds::default()).unwrap();
    }

    fn take(&mut self, step: &LocalStep) {
        match step {
            LocalStep::Flush(counts) => self.flush(counts),
            LocalStep::Clock(by) => self.clock_min += i64::from(*by),
            LocalStep::Maintain => {
                // A failure leaves it half done: the next time goes on.
                drop(self.history.maintain(self.now()));
            }
            LocalStep::Restart => self.restart(),
            LocalStep::Commit(fault) => self.history.core.tables.faults.push(*fault),
        }
    }

    fn flush(&mut self, minutes: &[(i32, u8, u64)]) {
        let mut counts = TrafficCounts::default();
        for (late, which, count) in minutes {
            let minute = u32::try_from(self.clock_min + i64::from(*late)).unwrap();
            counts.add(minute, label(*which), outcome(*count), *count);
            *self.model.entry((label(*which), minute / DAY_MIN)).or_default() += count;
        }
        self.seq += 1;
        let id = FlushId { instance: InstanceId([9; 16]), seq: self.seq };
        let flush = Flush { id, counts };
        // A writer tries until it has an answer; now and then it asks once more.
        while self.history.append(&flush).is_err() {}
        if self.seq.is_multiple_of(3) {
            self.history.core.tables.faults.clear();
            assert_eq!(self.history.append(&flush).unwrap(), AppendResult::Repeated);
        }
    }
}

/// Every day of every series, as queries answer.
pub(super) fn told(reader: &HistoryReader<'_>) -> DailyCounts {
    let range = TimeRange { from_s: 0, to_s: 40_000 * 86_400 };
    let mut told = DailyCounts::new();
    for which in 0..8 {
        let label = label(which);
        let total = if label == Label::Requests { SeriesKind::Route } else { SeriesKind::Rule };
        let kind = label.kind().unwrap_or(total);
        let name = label.kind().map(|_| label.name().to_owned());
        for start in (19_800..20_600_u64).step_by(100) {
            let range = TimeRange { from_s: start * 86_400, to_s: (start + 100) * 86_400 };
            let query =
                SeriesQuery { name: name.clone(), step_s: Some(86_400), ..SeriesQuery::new(kind, range) };
            let answer = reader.series(&query).unwrap();
            assert_eq!(answer.step_s, 86_400);
            for (second, count) in answer.series.iter().flat_map(|curve| &curve.points) {
                let day = u32::try_from(second / 86_400).unwrap();
                *told.entry((label.clone(), day)).or_default() += count;
            }
        }
    }
    told.retain(|_, count| *count > 0);
    for kind in SeriesKind::ALL {
        let top = reader.top(&TopQuery::new(kind, range, 100)).unwrap();
        for row in &top.rows {
            let days =
                told.iter().filter(|((label, _), _)| label.kind() == Some(kind) && label.name() == row.name);
            assert_eq!(days.map(|(_, count)| count).sum::<u64>(), row.total);
        }
    }
    let requests = told.iter().filter(|((label, _), _)| *label == Label::Requests);
    assert_eq!(reader.summary(range).unwrap().total, requests.map(|(_, count)| count).sum::<u64>());
    told
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn sums_are_conserved(steps in steps()) {
        let mut world = LocalWorld::new();
        for step in &steps {
            world.take(step);
        }
        world.history.core.tables.faults.clear();
        world.history.refresh().unwrap();
        prop_assert_eq!(world.told(), world.model.clone());
        world.history.maintain(world.now()).unwrap();
        world.clock_min += 400 * i64::from(DAY_MIN);
        world.flush(&[(0, 6, 1)]);
        world.history.maintain(world.now()).unwrap();
        prop_assert_eq!(world.told(), world.model.clone());
        world.restart();
        prop_assert_eq!(world.told(), world.model.clone());
    }
}

fn flush(seq: u64, minute: u32, routes: &[(&str, u64)]) -> Flush {
    let mut counts = TrafficCounts::default();
    counts.mark_up(minute);
    for (route, count) in routes {
        counts.add(minute, Label::Requests, Outcome::Allowed, *count);
        counts.add(minute, Label::Route((*route).into()), Outcome::Allowed, *count);
    }
    Flush { id: FlushId { instance: InstanceId([1; 16]), seq }, counts }
}

fn blocks(history: &LocalHistory<MemoryTables>) -> BTreeMap<u8, usize> {
    let mut tiers = BTreeMap::new();
    let count = &mut |key: &[u8], _: &[u8]| {
        *tiers.entry(key[0]).or_default() += 1;
        Ok(ControlFlow::Continue(()))
    };
    history.core.tables.scan_all(TableId::Blocks, count).unwrap();
    tiers
}

fn log_rows(history: &LocalHistory<MemoryTables>) -> usize {
    let mut rows = 0;
    let count = &mut |_: &[u8], _: &[u8]| {
        rows += 1;
        Ok(ControlFlow::Continue(()))
    };
    history.core.tables.scan_all(TableId::Log, count).unwrap();
    rows
}

#[test]
fn an_hour_is_compacted_once_it_is_over_and_its_log_goes() {
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    let hour = START_MIN / 60;
    for n in 0..120 {
        history.append(&flush(u64::from(n) + 1, hour * 60 + n, &[("/a", 1)])).unwrap();
    }
    let at = |minute: u32| Time::from_secs(u64::from(hour * 60 + minute) * 60);
    history.maintain(at(60)).unwrap();
    assert_eq!(log_rows(&history), 120, "the last flush of the hour may still come");
    history.maintain(at(61)).unwrap();
    assert_eq!((log_rows(&history), blocks(&history)), (60, BTreeMap::from([(1, 1)])));
    assert_eq!(history.core.open_hours.len(), 1);
}

#[test]
fn the_finer_goes_when_the_coarser_comes() {
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    // Four counts a day for 500 days. Minutes of 24 counted hours are always kept.
    for n in 0..2_000_u32 {
        let minute = START_MIN + n * 360;
        history.append(&flush(u64::from(n) + 1, minute, &[("/a", 1)])).unwrap();
        history.maintain(Time::from_secs(u64::from(minute + 61) * 60)).unwrap();
    }
    let kept = blocks(&history);
    assert!((24..=28).contains(&kept[&1]), "minutes: {kept:?}");
    assert!((6..=8).contains(&kept[&2]), "days of five minutes: {kept:?}");
    assert!((4..=6).contains(&kept[&3]), "weeks of hours: {kept:?}");
    assert!((13..=16).contains(&kept[&4]), "months of days: {kept:?}");
    assert_eq!(
        history.reader().unwrap().summary(TimeRange { from_s: 0, to_s: 1 << 40 }).unwrap().total,
        2_000
    );
}

#[test]
fn a_forgotten_series_changes_no_total_and_its_rows_go_with_the_roll_up() {
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds { series: 2, ..AT_ONCE }).unwrap();
    for (n, route) in ["/a", "/b", "/c", "/d"].into_iter().enumerate() {
        let n = u32::try_from(n).unwrap();
        history.append(&flush(u64::from(n) + 1, START_MIN + n * 60, &[(route, 5)])).unwrap();
        history.maintain(Time::from_secs(u64::from(START_MIN + n * 60 + 61) * 60)).unwrap();
    }
    let range = TimeRange { from_s: 0, to_s: 1 << 40 };
    let top = history.reader().unwrap().top(&TopQuery::new(SeriesKind::Route, range, 10)).unwrap();
    let names: Vec<&str> = top.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!((names, top.other.total), (vec!["/c", "/d"], 10));
    history.append(&flush(9, START_MIN + 3 * DAY_MIN, &[])).unwrap();
    history.maintain(Time::from_secs(u64::from(START_MIN + 3 * DAY_MIN) * 60)).unwrap();
    let mut rows = 0;
    history
        .reader()
        .unwrap()
        .row_totals(range, &|_| true, &mut |id, _| rows += u32::from(id.series() >= SeriesId::FIRST))
        .unwrap();
    assert_eq!(rows, 2);
    assert_eq!(history.reader().unwrap().summary(range).unwrap().total, 20);
}

#[test]
fn the_busiest_minute_survives_every_roll_up() {
    let mut history = LocalHistory::open(MemoryTables::default(), AT_ONCE).unwrap();
    for (seq, (minute, count)) in [(0, 3), (1, 40), (2, 5), (7, 30)].into_iter().enumerate() {
        let seq = u64::try_from(seq).unwrap() + 1;
        history.append(&flush(seq, START_MIN + minute, &[("/a", count)])).unwrap();
    }
    let range = TimeRange { from_s: 0, to_s: u64::from(START_MIN + DAY_MIN) * 60 };
    for (seq, days) in (10..).zip([0, 3, 10, 60, 400]) {
        let minute = START_MIN + days * DAY_MIN;
        history.append(&flush(seq, minute, &[])).unwrap();
        history.maintain(Time::from_secs(u64::from(minute) * 60 + 7_200)).unwrap();
        let summary = history.reader().unwrap().summary(range).unwrap();
        assert_eq!((summary.total, summary.peak_minute), (78, 40), "after {days} days");
    }
    assert_eq!(blocks(&history).keys().copied().collect::<Vec<_>>(), [1, 4]);
}

#[test]
fn a_history_of_another_version_is_refused_by_name() {
    let refused = |version| {
        let mut tables = MemoryTables::default();
        let mut batch = WriteBatch::default();
        batch.put(TableId::Meta, b"state".to_vec(), vec![version, 0, 0]);
        tables.commit(&batch).unwrap();
        LocalHistory::open(tables, Bounds::default())
    };
    assert!(matches!(refused(9), Err(Error::TooNew { found: 9, known: 2 })));
    assert!(matches!(refused(1), Err(Error::TooOld { found: 1, known: 2 })));
}

/// A history with a request a minute for ten days until `START_MIN`.
fn ten_days() -> LocalHistory<MemoryTables> {
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default()).unwrap();
    for (seq, day) in (1..).zip((0..10).rev()) {
        let minutes = (0..DAY_MIN).map(|minute| START_MIN - day * DAY_MIN - minute);
        append_requests(&mut history, seq, minutes);
    }
    history
}

fn append_requests(history: &mut impl History, seq: u64, minutes: impl Iterator<Item = u32>) {
    let mut counts = TrafficCounts::default();
    minutes.for_each(|minute| counts.add_request(minute, Some("/a"), Outcome::Allowed));
    history.append(&Flush { id: FlushId { instance: InstanceId([1; 16]), seq }, counts }).unwrap();
}

fn at(minute: u32) -> Time {
    Time::from_secs(u64::from(minute) * 60)
}

/// The step of the last hour's curve, and everything that was ever counted.
fn step_and_total(history: &impl History, end_min: u32) -> (u64, u64) {
    let reader = history.reader().unwrap();
    let end_s = u64::from(end_min) * 60;
    let hour = TimeRange { from_s: end_s - 3_600, to_s: end_s };
    let curve = reader.series(&SeriesQuery::new(SeriesKind::Route, hour)).unwrap();
    (curve.step_s, reader.summary(TimeRange { from_s: 0, to_s: 1 << 40 }).unwrap().total)
}

/// A minute of the year 2099.
const FUTURE_MIN: u32 = 129 * 365 * DAY_MIN;

#[test]
fn a_minute_from_the_future_makes_nothing_old() {
    let mut history = ten_days();
    append_requests(&mut history, 11, [FUTURE_MIN].into_iter());
    history.maintain(at(START_MIN + 1)).unwrap();
    assert_eq!(step_and_total(&history, START_MIN), (60, 14_401));
}

/// As a server has it whose own clock is wrong: what it counts is of then, too.
#[test]
fn a_clock_that_is_ahead_for_hours_makes_nothing_old() {
    let mut history = ten_days();
    history.maintain(at(START_MIN + 1)).unwrap();
    let ahead = START_MIN + 400 * DAY_MIN;
    for (seq, hour) in (11..).zip(0..22) {
        append_requests(&mut history, seq, ahead + hour * 60..ahead + hour * 60 + 60);
        history.maintain(at(ahead + hour * 60 + 61)).unwrap();
        assert_eq!(step_and_total(&history, START_MIN).0, 60, "after {hour} hours");
    }
    // A restart in between changes nothing.
    let mut history = LocalHistory::open(history.into_tables(), Bounds::default()).unwrap();
    history.maintain(at(ahead + 23 * 60)).unwrap();
    assert_eq!(step_and_total(&history, START_MIN).0, 60);
    // The clock is right again, and time goes on as if nothing had been.
    let counted = 14_400 + 22 * 60;
    for (seq, day) in (100..).zip(1..=10) {
        let end = START_MIN + day * DAY_MIN;
        append_requests(&mut history, seq, end - DAY_MIN..end);
        history.maintain(at(end + 1)).unwrap();
        let (step_s, total) = step_and_total(&history, end);
        assert_eq!((step_s, total), (60, counted + u64::from(day * DAY_MIN)), "day {day}");
    }
    assert_eq!(step_and_total(&history, START_MIN - 5 * DAY_MIN).0, 3_600, "what is old is rolled up");
}

#[test]
fn a_clock_that_stays_ahead_is_believed_after_a_day() {
    let mut history = ten_days();
    let later = START_MIN + 400 * DAY_MIN;
    append_requests(&mut history, 11, later..later + 25 * 60);
    history.maintain(at(later + 25 * 60)).unwrap();
    assert_eq!(step_and_total(&history, START_MIN), (86_400, 14_400 + 25 * 60));
}

#[test]
fn a_history_that_was_rolled_up_by_a_minute_from_the_future_recovers() {
    let mut history = ten_days();
    append_requests(&mut history, 11, [FUTURE_MIN].into_iter());
    // As versions did that trusted every minute.
    history.core.bounds = AT_ONCE;
    history.maintain(at(FUTURE_MIN + 120)).unwrap();
    history.core.bounds = Bounds::default();
    assert_eq!(step_and_total(&history, START_MIN), (86_400, 14_401), "everything is in days");
    let next_day = START_MIN + DAY_MIN;
    append_requests(&mut history, 12, next_day - 120..next_day);
    history.maintain(at(next_day + 1)).unwrap();
    assert_eq!(step_and_total(&history, next_day), (60, 14_521), "what comes is kept by minutes again");
    let mut again = LocalHistory::open(history.into_tables(), Bounds::default()).unwrap();
    again.maintain(at(next_day + 40 * DAY_MIN)).unwrap();
    assert_eq!(step_and_total(&again, next_day).1, 14_521, "and rolled up with what was before");
}

#[test]
fn minutes_far_ahead_of_the_clock_are_refused_and_counted() {
    let mut counts = TrafficCounts::default();
    for minute in [START_MIN, START_MIN + 5, START_MIN + 6, FUTURE_MIN] {
        counts.add_request(minute, None, Outcome::Allowed);
    }
    let mut flush = Flush { id: FlushId { instance: InstanceId([1; 16]), seq: 1 }, counts };
    assert_eq!(flush.refuse_future(at(START_MIN)), 2);
    assert_eq!(flush.counts.minutes().collect::<Vec<_>>(), [START_MIN, START_MIN + 5]);
}
