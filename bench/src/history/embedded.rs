//! Full retention of 10,000 series in a folder: work, size, and the latency of queries.
//!
//! Old days are counted late, when their tier is due, so that each goes where it would be by now in
//! one step and not in a thousand. The last day and a half is counted in time, and six hours of it,
//! across midnight, in flushes of 15 seconds as a server makes them.

use std::ops::{ControlFlow, Range};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use anyhow::Result;
use tollgate_history::query::{HistoryReader, SeriesQuery, TimeRange, TopQuery};
use tollgate_history::tables::{Access, RedbTables, TableId as Rows, Tables, WriteBatch};
use tollgate_history::{Bounds, History, LocalHistory, SeriesKind};

use super::access_log::block_bytes;
use super::table::BoundsTable;
use super::traffic::{NOW_MIN, SERIES, Traffic, after, processor_ns, route};
use crate::figures::ratio;

const HOUR_MIN: u32 = 60;
const DAY_MIN: u32 = 1_440;
/// The day that is not over.
const TODAY: u32 = NOW_MIN / DAY_MIN;
/// Where the days of each tier begin when it is yesterday; the weeks of hours begin on a Thursday.
const DAYS_FROM: u32 = HOURS_FROM - 365;
const HOURS_FROM: u32 = TODAY - 32;
const FIVE_MINUTES_FROM: u32 = TODAY - 8;
const MINUTES_FROM: u32 = TODAY - 2;
/// The hours that come in flushes of 15 seconds: every roll-up is among them.
const LIVE: Range<u32> = (TODAY * DAY_MIN - HOUR_MIN)..(TODAY * DAY_MIN + 5 * HOUR_MIN);
const FLUSHES_A_MINUTE: u64 = 4;

/// Queries in each repeat.
const QUERIES: u64 = 100;
const REPEATS: u64 = 25;

/// Fills a folder, measures it, and gives all rows for whoever wants the same elsewhere.
///
/// # Errors
/// If there is no room for files.
pub fn run(table: &mut BoundsTable) -> Result<WriteBatch> {
    let folder = tempfile::tempdir()?;
    let history = LocalHistory::open(RedbTables::open(folder.path(), Access::Write)?, Bounds::default())?;
    let mut filling = Filling { history, traffic: Traffic::default(), seq: 0 };
    filling.past()?;
    filling.hours(MINUTES_FROM * DAY_MIN..LIVE.start)?;
    filling.live(table)?;
    filling.hours(LIVE.end..NOW_MIN)?;
    let history = filling.history;
    let about = folder.path().join("history.redb").metadata()?;
    let disk = ratio(about.blocks() * 512, 1_000_000);
    table.at_most("on disk, 10,000 series at full retention", 8_000, disk, "MB");
    let [day, year, top] = query_latencies(&history.reader()?)?;
    table.at_most("24 h of one series, p99", 100, day, "ms");
    table.at_most("a year of one series, p99", 200, year, "ms");
    table.at_most("top 100 of an hour, p99", 2_000, top, "ms");
    let tables = history.into_tables();
    let minutes = NOW_MIN - (TODAY - 1) * DAY_MIN;
    table.at_most("a minute of a busy series", 80, point(&tables, 1, minutes)?, "B");
    table.note("5 minutes of it", point(&tables, 2, (TODAY - 1 - (FIVE_MINUTES_FROM + 1)) * 288)?, "B");
    table.note("an hour of it", point(&tables, 3, (FIVE_MINUTES_FROM + 1 - HOURS_FROM) * 24)?, "B");
    table.note("a day of it", point(&tables, 4, HOURS_FROM - DAYS_FROM)?, "B");
    let mut rows = WriteBatch::default();
    for of in Rows::ALL {
        tables.scan_all(of, &mut |key, value| {
            rows.put(of, key.to_vec(), value.to_vec());
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(rows)
}

/// Bytes for each of so many points of every series, in hundredths.
fn point(tables: &impl Tables, tier: u8, points: u32) -> Result<u64> {
    Ok(ratio(block_bytes(tables, tier)?, SERIES * u64::from(points)))
}

/// A history that is being filled.
struct Filling {
    history: LocalHistory<RedbTables>,
    traffic: Traffic,
    seq: u64,
}

impl Filling {
    /// Counts so many seconds for each of these minutes.
    fn flush(&mut self, minutes: &[u32], seconds: u64) -> Result<()> {
        self.seq += 1;
        self.history.append(&self.traffic.flush(self.seq, minutes, seconds))?;
        Ok(())
    }

    /// One count for every point that is kept of the past.
    fn past(&mut self) -> Result<()> {
        let yesterday = (TODAY - 1) * DAY_MIN;
        self.flush(&[yesterday], 1)?;
        self.history.maintain(after(yesterday))?;
        let days: Vec<u32> = (DAYS_FROM..HOURS_FROM).map(|day| day * DAY_MIN).collect();
        for month in days.chunks(24) {
            self.flush(month, 86_400)?;
            self.history.maintain(after(yesterday))?;
        }
        for (days, step_min) in [(HOURS_FROM..FIVE_MINUTES_FROM, 60), (FIVE_MINUTES_FROM..MINUTES_FROM, 5)] {
            for day in days {
                let minutes: Vec<u32> =
                    (day * DAY_MIN..(day + 1) * DAY_MIN).step_by(usize::try_from(step_min)?).collect();
                for some in minutes.chunks(72) {
                    self.flush(some, step_min * 60)?;
                }
                self.history.maintain(after(yesterday))?;
            }
        }
        Ok(())
    }

    /// Whole hours, one flush for each.
    fn hours(&mut self, minutes: Range<u32>) -> Result<()> {
        let minutes: Vec<u32> = minutes.collect();
        for hour in minutes.chunk_by(|one, other| one / HOUR_MIN == other / HOUR_MIN) {
            self.flush(hour, 60)?;
            self.history.maintain(after(hour.last().copied().unwrap_or_default() + 1))?;
        }
        Ok(())
    }

    /// As a server writes; only that is measured, and not how the flushes are made up.
    fn live(&mut self, table: &mut BoundsTable) -> Result<()> {
        let mut spent = 0;
        for minute in LIVE {
            for _ in 0..FLUSHES_A_MINUTE {
                self.seq += 1;
                let flush = self.traffic.flush(self.seq, &[minute], 60 / FLUSHES_A_MINUTE);
                let begin = processor_ns()?;
                self.history.append(&flush)?;
                self.history.maintain(after(minute))?;
                spent += processor_ns()? - begin;
            }
        }
        let begin = processor_ns()?;
        self.history.maintain(after(LIVE.end))?;
        spent += processor_ns()? - begin;
        let increments = u64::from(LIVE.end - LIVE.start) * FLUSHES_A_MINUTE * SERIES;
        let seen = ratio(increments * 1_000, spent);
        table.at_least("increments taken in per second of processor time", 500, seen, "M/s");
        Ok(())
    }
}

/// The p99 of usual queries in hundredths of a millisecond: the curves of a day and of a year, and the
/// top of an hour.
///
/// # Errors
/// If the tables cannot be read.
pub fn query_latencies(reader: &HistoryReader<'_>) -> Result<[u64; 3]> {
    let now_s = u64::from(NOW_MIN) * 60;
    let range = |seconds: u64| TimeRange { from_s: now_s - seconds, to_s: now_s };
    let curve = |n: u64, seconds: u64, points: u64| {
        let name = Some(route(n.wrapping_mul(7_919) % SERIES));
        let question = SeriesQuery { name, points, ..SeriesQuery::new(SeriesKind::Route, range(seconds)) };
        reader.series(&question).map(|answer| assert!(answer.total > 0))
    };
    let question = TopQuery::new(SeriesKind::Route, range(3_600), 100);
    Ok([
        p99(QUERIES, |n| curve(n, 86_400, 1_440))?,
        p99(QUERIES, |n| curve(n, 365 * 86_400, 400))?,
        p99(QUERIES, |_| reader.top(&question).map(|answer| assert_eq!(answer.rows.len(), 100)))?,
    ])
}

/// The least of some repeats: what else runs on the machine is not to be measured.
#[expect(clippy::disallowed_methods, reason = "it measures time")]
fn p99(times: u64, query: impl Fn(u64) -> tollgate_history::Result<()>) -> Result<u64> {
    let mut least = Duration::MAX;
    for repeat in 0..REPEATS {
        let mut took = Vec::new();
        for n in 0..times {
            let begin = Instant::now();
            query(repeat * times + n)?;
            took.push(begin.elapsed());
        }
        took.sort_unstable();
        let at = took.len() - 1 - took.len() / 100;
        least = least.min(took.get(at).copied().unwrap_or_default());
    }
    Ok(u64::try_from(least.as_micros())?.div_ceil(10))
}
