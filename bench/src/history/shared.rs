//! The same history on Redis: its memory, and the latency of queries.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tollgate_history::tables::{SharedTables as _, Tables as _, WriteBatch};
use tollgate_history::{Bounds, History, SharedHistory};
use tollgate_redis::RedisConfig;
use tollgate_redis::history::RedisTables;
use tollgate_testkit::RedisServer;

use super::embedded::query_latencies;
use super::table::BoundsTable;
use super::traffic::{NOW_MIN, SERIES, Traffic, after, processor_ns};
use crate::figures::{ratio, redis_cpu_us};

/// Five minutes of flushes, and the fold behind them.
const FLUSHES: u32 = 20;
/// Looks at whether the server has freed what it need not keep: ten seconds.
const FREEING_TRIES: u32 = 500;

/// Puts the rows into a server of its own, and measures.
///
/// # Errors
/// If there is no Redis.
pub fn run(rows: &WriteBatch, table: &mut BoundsTable) -> Result<()> {
    let server = RedisServer::start();
    let before = used(&server)?;
    let config = RedisConfig::new(server.url().parse()?);
    let mut tables = RedisTables::new(&config)?;
    tables.refresh()?;
    tables.commit(rows)?;
    let per_series = (used(&server)? - before) / SERIES;
    table.at_most("on Redis, for each series at full retention", 6_000 * 100, per_series * 100, "B");
    let mut history = SharedHistory::open(tables, Bounds::default())?;
    let [day, year, top] = query_latencies(&history.reader()?)?;
    table.note("on Redis: 24 h of one series, p99", day, "ms");
    table.note("on Redis: a year of one series, p99", year, "ms");
    table.note("on Redis: top 100 of an hour, p99", top, "ms");

    let traffic = Traffic::default();
    let flushes: Vec<_> =
        (0..FLUSHES).map(|n| traffic.flush(u64::from(n) + 10, &[NOW_MIN + 10 + n / 4], 15)).collect();
    let (ours, theirs) = (processor_ns()?, redis_cpu_us(&server)?);
    for flush in &flushes {
        history.append(flush)?;
    }
    let posted = used(&server)?;
    history.maintain(after(NOW_MIN + 20))?;
    let increments = u64::from(FLUSHES) * SERIES;
    table.note(
        "increments per second of this processor, with their fold on Redis",
        ratio(increments * 1_000, processor_ns()? - ours),
        "M/s",
    );
    table.note(
        "increments per second of Redis' processor",
        ratio(increments, redis_cpu_us(&server)? - theirs),
        "M/s",
    );
    table.note(
        "Redis' memory for an increment until it is folded",
        ratio(posted - before - per_series * SERIES, increments),
        "B",
    );
    Ok(())
}

/// MemoryTables that the data take, once the server has freed what it does not keep; without that of its callers.
#[expect(clippy::disallowed_methods, reason = "it waits for another program")]
fn used(server: &RedisServer) -> Result<u64> {
    for _ in 0..FREEING_TRIES {
        let about = server.cli(&["info", "memory"]);
        let field = |name| {
            let value = about.lines().find_map(|line| line.strip_prefix(name));
            value.with_context(|| format!("no {name}"))?.trim().parse::<u64>().map_err(anyhow::Error::from)
        };
        if field("lazyfree_pending_objects:")? == 0 {
            return Ok(field("used_memory:")? - field("mem_clients_normal:")?);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("the server does not finish freeing memory");
}
