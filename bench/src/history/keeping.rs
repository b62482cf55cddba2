//! Full retention of 10,000 series in a folder: how large, and how soon it answers.

use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::time::Instant;

use anyhow::Result;
use tollgate_history::engine::{Access, Batch, Embedded, Engine, Table as Rows};
use tollgate_history::query::{SeriesQuestion, Span, TopQuestion};
use tollgate_history::{Bounds, By, History};

use super::sparse::block_bytes;
use super::table::{Table, ratio};
use super::traffic::{NOW_MIN, SERIES, Traffic, after, processor_us, route};

const DAY_MIN: u32 = 1_440;
const QUESTIONS: u64 = 2_000;

/// What is asked of every engine at full retention, with bounds for p99 in hundredths of a millisecond.
pub struct Bar {
    /// The curve of a day.
    pub day: u64,
    /// The curve of a year.
    pub year: u64,
    /// The top 100 of an hour.
    pub top: u64,
}

/// Fills a folder, measures it, and gives all rows for whoever wants the same elsewhere.
///
/// # Errors
/// If there is no room for files.
pub fn run(table: &mut Table) -> Result<Batch> {
    let folder = tempfile::tempdir()?;
    let mut history = History::open(Embedded::open(folder.path(), Access::Write)?, Bounds::default())?;
    let begin = processor_us()?;
    let flushes = fill(&mut history)?;
    let spent = processor_us()? - begin;
    table.note("increments of two years, with every fold and roll-up", ratio(flushes * SERIES, spent), "M/s");
    let about = folder.path().join("history.redb");
    table.at_most(
        "on disk, 10,000 series at full retention",
        8_000,
        ratio(about.metadata()?.blocks() * 512, 1_000_000),
        "MB",
    );
    questions(
        &history,
        table,
        &["24 h of one series, p99", "a year of one series, p99", "top 100 of an hour, p99"],
    )?;
    let engine = history.into_engine();
    let hours = u64::from(DAY_MIN + DAY_MIN / 2) / 60;
    table.at_most("a minute of a busy series", 80, ratio(block_bytes(&engine, 1)?, SERIES * hours * 60), "B");
    let mut rows = Batch::default();
    for of in [Rows::Meta, Rows::Series, Rows::Seen, Rows::Log, Rows::Blocks] {
        engine.scan(of, &[]..&[0xff; 1_100], &mut |key, value| {
            rows.put(of, key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })?;
    }
    Ok(rows)
}

/// One count for every point that full retention keeps, the oldest first, an hour of them in each
/// flush; tells how many flushes of one minute these would be.
fn fill(history: &mut History<Embedded>) -> Result<u64> {
    let traffic = Traffic::default();
    let from = |days: u32| NOW_MIN - days * DAY_MIN;
    let minutes = (from(400)..from(38)).step_by(1_440);
    let minutes = minutes.chain((from(38)..from(9)).step_by(60)).chain((from(9)..from(2)).step_by(5));
    let minutes: Vec<u32> = minutes.chain(from(2)..NOW_MIN).collect();
    for (seq, hour) in (1..).zip(minutes.chunk_by(|one, other| one / 60 == other / 60)) {
        history.append(&traffic.flush(seq, hour, 60))?;
        history.maintain(after(hour.last().copied().unwrap_or_default()))?;
    }
    history.maintain(after(NOW_MIN + 1))?;
    Ok(u64::try_from(minutes.len())?)
}

/// Asks what people ask, of any engine.
///
/// # Errors
/// If the engine cannot be read.
pub fn questions<E: Engine>(
    history: &History<E>,
    table: &mut Table,
    [day, year, top]: &[&'static str; 3],
) -> Result<()> {
    let now_s = u64::from(NOW_MIN) * 60;
    let span = |seconds: u64| Span { from_s: now_s - seconds, to_s: now_s };
    let curve = |n: u64, seconds: u64, points: u64| {
        let name = Some(route(n.wrapping_mul(7_919) % SERIES));
        let question = SeriesQuestion { name, points, ..SeriesQuestion::new(By::Route, span(seconds)) };
        history.series(&question).map(|answer| assert!(answer.total > 0))
    };
    table.at_most(day, 100, p99(QUESTIONS, |n| curve(n, 86_400, 1_440))?, "ms");
    table.at_most(year, 200, p99(QUESTIONS, |n| curve(n, 365 * 86_400, 400))?, "ms");
    let question = TopQuestion { by: By::Route, span: span(3_600), limit: 100 };
    let asked = |_| history.top(&question).map(|answer| assert_eq!(answer.rows.len(), 100));
    table.at_most(top, 2_000, p99(200, asked)?, "ms");
    Ok(())
}

/// The time that one in a hundred answers takes longer than, in hundredths of a millisecond.
#[expect(clippy::disallowed_methods, reason = "it measures time")]
fn p99(times: u64, mut ask: impl FnMut(u64) -> tollgate_history::Result<()>) -> Result<u64> {
    let mut took = Vec::new();
    for n in 0..times {
        let begin = Instant::now();
        ask(n)?;
        took.push(begin.elapsed());
    }
    took.sort_unstable();
    let at = took.len() - 1 - took.len() / 100;
    let slow = took.get(at).copied().unwrap_or_default();
    Ok(u64::try_from(slow.as_micros())?.div_ceil(10))
}
