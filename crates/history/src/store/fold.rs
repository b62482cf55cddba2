//! From the log to blocks, and from fine blocks to coarse ones.
//!
//! Called by [`History::maintain`]. Both read, add up, and write the result with
//! the removal of what it came from in one batch, so that a crash at any point
//! leaves the one or the other.
//!
//! What comes late is put where its time is now: into the minutes, or into the
//! coarse point that has taken their place.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::chunks::Chunks;
use super::head::{Hour, HourRow};
use super::keys::{log_range, read_block_key};
use super::{History, block_range};
use crate::codec::block::Block;
use crate::codec::bytes::wide;
use crate::engine::{Batch, Engine, Table};
use crate::error::{Error, Result};
use crate::label::{RowId, Sid};
use crate::tier::Tier;

/// Hours that are folded at once: a day, so that late days rewrite a coarse
/// block once and not 24 times.
const HOURS_AT_ONCE: usize = 24;

/// Hours in memory, whatever the clock says: more are folded though they are not
/// over, which costs a rewrite and loses nothing.
const HOURS_MAX: usize = 72;

/// How long an hour waits for the last flushes of the others, in minutes.
const GRACE_MIN: u32 = 1;

impl<E: Engine> History<E> {
    /// Folds the first hours that are over; false if there are none.
    pub(super) fn fold(&mut self, now_minute: u32) -> Result<bool> {
        let over = now_minute.saturating_sub(GRACE_MIN) / 60;
        let end = if self.head.hours() > HOURS_MAX { u32::MAX } else { over };
        let mut chunks = Chunks::default();
        let mut folded = Vec::new();
        for (hour, rows) in self.head.first(HOURS_AT_ONCE, end) {
            add_hour(&mut chunks, self.state.rolled.tier_at(u64::from(hour) * 3_600), hour, rows);
            folded.push(hour);
        }
        if folded.is_empty() {
            return Ok(false);
        }
        let mut batch = Batch::default();
        let damaged = chunks.write(&self.engine, &self.catalogue, &mut batch)?;
        for hour in &folded {
            let (from, to) = log_range(*hour, hour.saturating_add(1));
            self.engine.scan(Table::Log, &from..&to, &mut |key, _| {
                batch.remove(Table::Log, key.to_vec());
                ControlFlow::Continue(())
            })?;
        }
        self.commit(batch)?;
        self.damaged += damaged;
        for hour in folded {
            self.head.remove(hour);
        }
        Ok(true)
    }

    /// Rolls up everything that is old enough, one period at a time.
    pub(super) fn roll_up(&mut self) -> Result<()> {
        for tier in Tier::ALL {
            let Some(coarser) = tier.coarser() else { continue };
            let due = tier.due(self.state.newest_s());
            while let Some(start_s) = self.first_chunk(tier, due)? {
                self.roll_up_period(tier, coarser, start_s - start_s % tier.roll_s())?;
            }
            if self.state.rolled.zone(tier).0 < due {
                self.state.rolled.advance(tier, due);
                self.commit(Batch::default())?;
            }
        }
        Ok(())
    }

    /// Where the first chunk of a tier before `end_s` starts.
    pub(crate) fn first_chunk(&self, tier: Tier, end_s: u64) -> Result<Option<u64>> {
        let (from, to) = block_range(tier, 0, end_s);
        let first = self.engine.first_key(Table::Blocks, &from..&to)?;
        first.map(|key| read_block_key(&key).map(|(start_s, _)| start_s)).transpose()
    }

    fn roll_up_period(&mut self, tier: Tier, coarser: Tier, start_s: u64) -> Result<()> {
        let end_s = start_s + tier.roll_s();
        let (from, to) = block_range(tier, start_s, end_s);
        let mut period = Period { tier, coarser, chunks: Chunks::default(), totals: BTreeMap::new() };
        let mut batch = Batch::default();
        let (mut damaged, mut failed) = (0, None);
        self.engine.scan(Table::Blocks, &from..&to, &mut |key, value| {
            batch.remove(Table::Blocks, key.to_vec());
            match period.add_block(key, value) {
                Ok(()) => ControlFlow::Continue(()),
                // What it held is lost, which is no reason to stop for ever.
                Err(Error::Corrupt { .. }) => {
                    damaged += 1;
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        period.add_peaks();
        damaged += period.chunks.write(&self.engine, &self.catalogue, &mut batch)?;
        self.state.rolled.advance(tier, end_s);
        self.commit(batch)?;
        self.damaged += damaged;
        Ok(())
    }
}

/// Adds an hour of the log to the chunk of the tier that its time belongs to.
pub(super) fn add_hour(chunks: &mut Chunks, tier: Tier, hour: u32, rows: &Hour) {
    let start_s = u64::from(hour) * 3_600;
    let mut totals = [0_u64; 60];
    for some in rows.by_shard() {
        let shard = some.first().map_or(0, |(id, _)| id.shard());
        let shard = chunks.shard(tier, tier.chunk_of(start_s), shard);
        for (id, row) in some {
            add_row(shard.row(*id), *id, tier, (start_s, row));
            if is_request(*id) {
                for (of_hour, count) in row.each() {
                    let total = totals.get_mut(usize::from(of_hour));
                    total.into_iter().for_each(|total| *total = total.saturating_add(count));
                }
            }
        }
    }
    // Minutes need no peak: they are it.
    if tier != Tier::Minutes {
        for (second, total) in (start_s..).step_by(60).zip(totals).filter(|(_, total)| *total > 0) {
            chunks.add(tier, second, RowId::PEAK, total);
        }
    }
}

/// Adds one curve of an hour to the points of its chunk.
fn add_row(points: &mut [u64], id: RowId, tier: Tier, (start_s, row): (u64, &HourRow)) {
    if tier == Tier::Minutes {
        // Nearly always, and then minutes are points one by one.
        let points = points.iter_mut().skip(usize::from(row.first()));
        return points.zip(row.each()).for_each(|(kept, (_, count))| *kept = id.merge(*kept, count));
    }
    for (of_hour, count) in row.each() {
        let second = start_s + u64::from(of_hour) * 60;
        if let Some(kept) = points.get_mut(tier.point_of(second)) {
            *kept = id.merge(*kept, count);
        }
    }
}

fn is_request(id: RowId) -> bool {
    id.sid() == Sid::REQUESTS && id.outcome().is_some()
}

/// A period on its way from one tier to the next.
struct Period {
    tier: Tier,
    coarser: Tier,
    chunks: Chunks,
    /// All requests by minute, where these are minutes: the peaks are made of it.
    totals: BTreeMap<u64, u64>,
}

impl Period {
    fn add_block(&mut self, key: &[u8], bytes: &[u8]) -> Result<()> {
        let (start_s, _) = read_block_key(key)?;
        let Self { tier, coarser, chunks, totals } = self;
        let mut coarse_start = coarser.chunk_of(start_s);
        for row in Block::open(bytes)?.rows() {
            let row = row?;
            let mut coarse = chunks.row(*coarser, coarse_start, row.id);
            let mut points = Vec::with_capacity(64);
            row.each(&mut |at, count| points.push((at, count)))?;
            for (at, count) in points {
                let second = start_s + wide(at) * tier.step_s();
                // A week may lie in two chunks of days.
                if coarser.chunk_of(second) != coarse_start {
                    coarse_start = coarser.chunk_of(second);
                    coarse = chunks.row(*coarser, coarse_start, row.id);
                }
                if let Some(kept) = coarse.get_mut(coarser.point_of(second)) {
                    *kept = row.id.merge(*kept, count);
                }
                if *tier == Tier::Minutes && is_request(row.id) {
                    *totals.entry(second).or_insert(0) += count;
                }
            }
            coarse_start = coarser.chunk_of(start_s);
        }
        Ok(())
    }

    fn add_peaks(&mut self) {
        for (second, total) in std::mem::take(&mut self.totals) {
            self.chunks.add(self.coarser, second, RowId::PEAK, total);
        }
    }
}
