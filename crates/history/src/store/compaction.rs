//! From the log to blocks, and from fine blocks to coarse ones.
//!
//! Called by `maintain` of both kinds of history. Compaction adds hours of the log
//! to blocks; roll-up adds blocks to those of the next tier. Both write the result
//! and remove its source in one batch, so a crash leaves the one or the other.
//!
//! Counts that come late are added where their time is now: to minutes, or to the
//! coarse point that has replaced them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use tollgate_core::Time;

use super::HistoryCore;
use super::block_builder::BlockBuilders;
use super::keys::{block_range, read_block_key};
use super::open_hours::{HourRow, OpenHour};
use crate::bytes::wide;
use crate::codec::block::SeriesBlock;
use crate::error::{Error, Result};
use crate::row_id::{RowId, SeriesId};
use crate::tables::{TableId, Tables, WriteBatch};
use crate::tier::Tier;

impl<T: Tables> HistoryCore<T> {
    /// Puts the first open hours before `end`, at most so many, into the batch as
    /// blocks. Returns the hours, and how many stored blocks were damaged.
    pub(super) fn compact(&self, most: usize, end: u32, batch: &mut WriteBatch) -> Result<(Vec<u32>, u64)> {
        let mut blocks = BlockBuilders::default();
        let mut hours = Vec::new();
        for (hour, rows) in self.open_hours.first(most, end) {
            add_hour(&mut blocks, self.watermarks.tier_at(u64::from(hour) * 3_600), hour, rows);
            hours.push(hour);
        }
        let damaged = blocks.write(&self.tables, &self.series, batch)?;
        Ok((hours, damaged))
    }

    /// Takes back watermarks that are ahead of the clock, because a minute from the
    /// future was counted once. What was rolled up stays so; what comes now is kept by
    /// minutes again.
    pub(super) fn lower_watermarks(&mut self, clock: Time) -> Result<()> {
        if self.watermarks.lower(clock.get() / 1_000_000) {
            self.commit(WriteBatch::default())?;
        }
        Ok(())
    }

    /// Rolls up everything that is old enough, one period at a time. Age is measured
    /// against the newest minute that was counted, if that is not ahead of the clock,
    /// and if enough hours were counted before it to believe that clock.
    pub(super) fn roll_up(&mut self, clock: Time) -> Result<()> {
        let newest_s = self.watermarks.newest_s().min(clock.get() / 1_000_000);
        if !self.is_anything_due(newest_s)? {
            return Ok(());
        }
        let newest_s = self.believable_s(newest_s)?;
        for tier in Tier::ALL {
            let Some(coarser) = tier.coarser() else { continue };
            let due_s = tier.due_s(newest_s);
            while let Some(start_s) = first_chunk(&self.tables, tier, due_s)? {
                self.roll_up_period(tier, coarser, start_s - start_s % tier.roll_up_s())?;
            }
            if self.watermarks.range_of(tier).0 < due_s {
                self.watermarks.advance(tier, due_s);
                self.commit(WriteBatch::default())?;
            }
        }
        Ok(())
    }

    fn is_anything_due(&self, newest_s: u64) -> Result<bool> {
        for tier in Tier::ALL.into_iter().filter(|tier| tier.coarser().is_some()) {
            let due_s = tier.due_s(newest_s);
            if self.watermarks.range_of(tier).0 < due_s || first_chunk(&self.tables, tier, due_s)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `newest_s`, or an earlier second after which as many hours were counted as
    /// [`super::Bounds::hours_since`] wants. Minutes of so many hours are always kept.
    fn believable_s(&self, newest_s: u64) -> Result<u64> {
        let Some(nth) = self.bounds.hours_since.checked_sub(1) else { return Ok(newest_s) };
        let mut hours: BTreeSet<u64> = self.open_hours.within(0, newest_s).map(|(hour, _)| hour).collect();
        let mut from_s = 0;
        while from_s <= newest_s {
            let (from, to) = block_range(Tier::Minutes, from_s, newest_s + 1);
            let Some(key) = self.tables.first_key(TableId::Blocks, &from..&to)? else { break };
            let (start_s, _) = read_block_key(&key)?;
            hours.insert(start_s);
            from_s = start_s + Tier::Minutes.chunk_s();
        }
        let earliest_s = hours.iter().nth_back(nth);
        let span_s = wide(self.bounds.hours_since) * Tier::Minutes.chunk_s();
        Ok(earliest_s.map_or(0, |start_s| newest_s.min(start_s + span_s)))
    }

    fn roll_up_period(&mut self, tier: Tier, coarser: Tier, start_s: u64) -> Result<()> {
        let end_s = start_s + tier.roll_up_s();
        let (from, to) = block_range(tier, start_s, end_s);
        let mut period =
            RollUpPeriod { tier, coarser, blocks: BlockBuilders::default(), totals: BTreeMap::new() };
        let mut batch = WriteBatch::default();
        let mut damaged = 0;
        self.tables.scan(TableId::Blocks, &from..&to, &mut |key, value| {
            batch.remove(TableId::Blocks, key.to_vec());
            match period.add_block(key, value) {
                // Its counts are lost, which must not stop the roll-up for ever.
                Err(Error::Corrupt { .. }) => damaged += 1,
                done => done?,
            }
            Ok(ControlFlow::Continue(()))
        })?;
        period.add_peaks();
        damaged += period.blocks.write(&self.tables, &self.series, &mut batch)?;
        self.watermarks.advance(tier, end_s);
        self.commit(batch)?;
        self.damaged += damaged;
        Ok(())
    }
}

/// Where the first chunk of a tier before `end_s` starts.
pub(crate) fn first_chunk(tables: &(impl Tables + ?Sized), tier: Tier, end_s: u64) -> Result<Option<u64>> {
    let (from, to) = block_range(tier, 0, end_s);
    let first = tables.first_key(TableId::Blocks, &from..&to)?;
    first.map(|key| read_block_key(&key).map(|(start_s, _)| start_s)).transpose()
}

/// Adds an hour to the chunk of the tier that its time belongs to.
fn add_hour(blocks: &mut BlockBuilders, tier: Tier, hour: u32, rows: &OpenHour) {
    let start_s = u64::from(hour) * 3_600;
    let mut totals = [0_u64; 60];
    for some in rows.by_block() {
        let number = some.first().map_or(0, |(id, _)| id.block());
        let block = blocks.block(tier, tier.chunk_of(start_s), number);
        for (id, row) in some {
            add_row(block.row(*id), *id, tier, (start_s, row));
            if is_request(*id) {
                for (of_hour, count) in row.each() {
                    let total = totals.get_mut(usize::from(of_hour));
                    total.into_iter().for_each(|total| *total = total.saturating_add(count));
                }
            }
        }
    }
    // Minutes have no peak: each is its own.
    if tier != Tier::Minutes {
        for (second, total) in (start_s..).step_by(60).zip(totals).filter(|(_, total)| *total > 0) {
            blocks.add(tier, second, RowId::PEAK, total);
        }
    }
}

/// Adds one curve of an hour to the points of its chunk.
fn add_row(points: &mut [u64], id: RowId, tier: Tier, (start_s, row): (u64, &HourRow)) {
    if tier == Tier::Minutes {
        // The common case, in which minutes are points one by one.
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
    id.series() == SeriesId::REQUESTS && id.outcome().is_some()
}

/// A period that is rolled up from one tier into the next.
struct RollUpPeriod {
    tier: Tier,
    coarser: Tier,
    blocks: BlockBuilders,
    /// All requests by minute, if the period has minutes: peaks are made of it.
    totals: BTreeMap<u64, u64>,
}

impl RollUpPeriod {
    fn add_block(&mut self, key: &[u8], bytes: &[u8]) -> Result<()> {
        let (start_s, _) = read_block_key(key)?;
        let Self { tier, coarser, blocks, totals } = self;
        let mut points = Vec::with_capacity(64);
        for row in SeriesBlock::open(bytes)?.rows() {
            let row = row?;
            // Read whole before anything is added, so that a damaged row adds nothing.
            points.clear();
            row.each(&mut |at, count| {
                points.push((start_s + wide(at) * tier.step_s(), count));
                Ok(())
            })?;
            let mut coarse_start = coarser.chunk_of(start_s);
            let mut coarse = blocks.row(*coarser, coarse_start, row.id);
            for (second, count) in points.iter().copied() {
                // A week may lie in two chunks of days.
                if coarser.chunk_of(second) != coarse_start {
                    coarse_start = coarser.chunk_of(second);
                    coarse = blocks.row(*coarser, coarse_start, row.id);
                }
                if let Some(kept) = coarse.get_mut(coarser.point_of(second)) {
                    *kept = row.id.merge(*kept, count);
                }
                if *tier == Tier::Minutes && is_request(row.id) {
                    *totals.entry(second).or_insert(0) += count;
                }
            }
        }
        Ok(())
    }

    fn add_peaks(&mut self) {
        for (second, total) in std::mem::take(&mut self.totals) {
            self.blocks.add(self.coarser, second, RowId::PEAK, total);
        }
    }
}
