//! What recording costs: a decision on its path, and a flush beside it.

use anyhow::Result;
use tollgate_core::Time;
use tollgate_history::engine::{Access, Embedded};
use tollgate_history::{Asked, Bounds, Caps, History, Instance, Outcome, Recorder, Ruled};

use super::table::{Table, ratio};
use super::traffic::{NOW_MIN, SERIES, Traffic, after, processor_us, route};

const DECISIONS: u64 = 4_000_000;
/// An hour of flushes and the fold at its end.
const FLUSHES: u32 = 240;

/// Measures both.
///
/// # Errors
/// If there is no room for files.
pub fn run(table: &mut Table) -> Result<()> {
    let routes: Vec<String> = (0..1_000).map(route).collect();
    let recorder = Recorder::new(Instance::random(), Caps::default());
    let now = Time::from_secs(1_800_000_000);
    let decide = |decisions: u64| {
        for (_, route) in (0..decisions).zip(routes.iter().cycle()) {
            recorder.request(&Asked { route: Some(route), outcome: Outcome::Allowed, count: 1 }, now);
        }
    };
    decide(10_000);
    let begin = processor_us()?;
    decide(DECISIONS);
    table.at_most("a request on the path of a decision", 5_000, per_call_ns(begin)?, "ns");
    let begin = processor_us()?;
    for (n, route) in (0..DECISIONS).zip(routes.iter().cycle()) {
        let outcome = if n % 10 == 0 { Outcome::Denied } else { Outcome::Allowed };
        recorder.ruling(&Ruled { rule: "shop.user_id", key: Some(route), outcome, count: 1 }, now);
    }
    table.at_most("a ruling with its key", 5_000, per_call_ns(begin)?, "ns");

    let folder = tempfile::tempdir()?;
    let mut history = History::open(Embedded::open(folder.path(), Access::Write)?, Bounds::default())?;
    let traffic = Traffic::default();
    let mut spent = 0;
    for n in 0..FLUSHES {
        let minute = NOW_MIN + n / 4;
        let flush = traffic.flush(u64::from(n) + 1, &[minute], 15);
        let begin = processor_us()?;
        history.append(&flush)?;
        history.maintain(after(minute + 1))?;
        spent += processor_us()? - begin;
    }
    let begin = processor_us()?;
    history.maintain(after(NOW_MIN + 61))?;
    spent += processor_us()? - begin;
    let increments = u64::from(FLUSHES) * SERIES;
    table.at_least("increments taken in per second of processor time", 500, ratio(increments, spent), "M/s");
    Ok(())
}

fn per_call_ns(begin_us: u64) -> Result<u64> {
    Ok(ratio((processor_us()? - begin_us) * 1_000, DECISIONS))
}
