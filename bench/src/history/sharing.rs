//! The same history on Redis: how much of its memory, and how soon it answers.

use anyhow::{Context as _, Result};
use tollgate_history::engine::{Batch, Engine as _, Shared as _};
use tollgate_history::{Bounds, History};
use tollgate_redis::RedisConfig;
use tollgate_redis::history::RedisEngine;
use tollgate_testkit::RedisServer;

use super::keeping::questions;
use super::table::{Table, ratio};
use super::traffic::{NOW_MIN, SERIES, Traffic, after, processor_us};

/// Five minutes of flushes, and the fold behind them.
const FLUSHES: u32 = 20;

/// Puts the rows into a server of its own, and measures.
///
/// # Errors
/// If there is no Redis.
pub fn run(rows: &Batch, table: &mut Table) -> Result<()> {
    let server = RedisServer::start();
    let before = used(&server)?;
    let config = RedisConfig::new(server.url().parse()?);
    let mut engine = RedisEngine::new(&config)?;
    engine.renew()?;
    engine.commit(rows)?;
    let per_series = (used(&server)? - before) / SERIES;
    table.at_most("on Redis, for each series at full retention", 6_000 * 100, per_series * 100, "B");
    let mut history = History::open(engine, Bounds::default())?;
    questions(
        &history,
        table,
        &["on Redis: 24 h of one series, p99", "on Redis: a year, p99", "on Redis: top 100 of an hour, p99"],
    )?;

    let traffic = Traffic::default();
    let flushes: Vec<_> =
        (0..FLUSHES).map(|n| traffic.flush(u64::from(n) + 10, &[NOW_MIN + 10 + n / 4], 15)).collect();
    let (ours, theirs) = (processor_us()?, server_us(&server)?);
    for flush in &flushes {
        history.append(flush)?;
    }
    let posted = used(&server)?;
    history.maintain(after(NOW_MIN + 20))?;
    let increments = u64::from(FLUSHES) * SERIES;
    table.note(
        "increments per second of this processor, with their fold on Redis",
        ratio(increments, processor_us()? - ours),
        "M/s",
    );
    table.note(
        "increments per second of Redis' processor",
        ratio(increments, server_us(&server)? - theirs),
        "M/s",
    );
    table.note(
        "Redis' memory for an increment until it is folded",
        ratio(posted - before - per_series * SERIES, increments),
        "B",
    );
    Ok(())
}

/// Memory that the server uses.
fn used(server: &RedisServer) -> Result<u64> {
    let about = server.cli(&["info", "memory"]);
    let field = about.lines().find_map(|line| line.strip_prefix("used_memory:"));
    Ok(field.context("no used_memory")?.trim().parse()?)
}

/// Processor time of the server, in microseconds.
fn server_us(server: &RedisServer) -> Result<u64> {
    let about = server.cli(&["info", "cpu"]);
    let mut sum = 0;
    for name in ["used_cpu_sys:", "used_cpu_user:"] {
        let field = about.lines().find_map(|line| line.strip_prefix(name)).context("no used_cpu")?;
        let (whole, part) = field.trim().split_once('.').context("no fraction")?;
        sum += whole.parse::<u64>()? * 1_000_000 + format!("{part:0<6}").parse::<u64>()?;
    }
    Ok(sum)
}
