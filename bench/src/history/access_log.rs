//! A real access log, in which most routes come about once an hour.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::Result;
use tollgate_accesslog::{LineParser, LogFormat, Parsed};
use tollgate_core::{Outcome, Time};
use tollgate_history::import::{ImportLine, Importer};
use tollgate_history::route::normalise;
use tollgate_history::tables::{MemoryTables, TableId as Rows, Tables};
use tollgate_history::{Bounds, History, LocalHistory};
use tollgate_testkit::nasa_log;

use super::table::BoundsTable;
use crate::figures::ratio;

/// Measures the bytes of a minute in which a route was requested.
///
/// # Errors
/// If the history fails.
pub fn run(table: &mut BoundsTable) -> Result<()> {
    let text = nasa_log();
    let mut minutes = BTreeSet::new();
    let mut parser = LineParser::new(Arc::new(LogFormat::parse("common")?));
    let mut read = |line: &[u8]| match parser.parse(line) {
        Parsed::Request(line) => {
            let second = line.time.since(Time::EPOCH).get() / 1_000_000;
            let route = normalise(&String::from_utf8_lossy(&line.target)).into_owned();
            minutes.insert((second / 60, route.clone()));
            ImportLine::Request { second, route, outcome: Outcome::Allowed }
        }
        Parsed::Comment => ImportLine::Comment,
        Parsed::NotUnderstood => ImportLine::NotUnderstood,
    };
    let mut history = LocalHistory::open(MemoryTables::default(), Bounds::default())?;
    // Long after the log, so that everything is rolled up.
    let now = Time::from_secs(1_800_000_000);
    Importer::new(&mut history, now).import(|| Ok(text.as_bytes()), &mut read)?;
    history.maintain(now)?;
    let stored = block_bytes(&history.into_tables(), 1)?;
    let points = u64::try_from(minutes.len())?;
    table.at_most("a minute with requests of a route, real log", 300, ratio(stored, points), "B");
    Ok(())
}

/// Bytes of all blocks of a tier, with their keys.
///
/// # Errors
/// If the tables cannot be read.
pub fn block_bytes(tables: &impl Tables, tier: u8) -> Result<u64> {
    let mut bytes = 0;
    tables.scan(Rows::Blocks, &[tier]..&[tier + 1], &mut |key, value| {
        bytes += key.len() + value.len();
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(u64::try_from(bytes)?)
}
